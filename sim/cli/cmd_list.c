/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/models_folder.h"
#include "cli/command.h"
#include "hardware/cluster.h"
#include "model/hf_config.h"

static bool append_models(GString *text, const char *models, GError **error)
{
    g_auto(GStrv) names = sim_cluster_list(models, "nets");
    g_string_append(text, "Models (fsdpsim predict NAME)\n");
    for (char **name = names; *name != NULL; name++) {
        g_autofree char *base = g_strdup_printf("%s.json", *name);
        g_autofree char *file = g_build_filename(models, "nets", base, NULL);
        g_autoptr(SimModelConfig) config = sim_hf_config_load(file, error);
        if (config == NULL) {
            return false;
        }
        g_string_append_printf(text, "  %-16s %s\n", *name,
                               sim_hf_config_architecture_name(config->architecture));
    }
    return true;
}

static bool append_gpus(GString *text, const char *models, GError **error)
{
    g_auto(GStrv) names = sim_cluster_list(models, "gpus");
    g_string_append(text, "\nGPUs\n");
    for (char **name = names; *name != NULL; name++) {
        g_autoptr(SimGpu) gpu = sim_gpu_load(models, *name, error);
        if (gpu == NULL) {
            return false;
        }
        g_autofree char *memory = sim_units_print_bytes(gpu->memory_bytes);
        g_string_append_printf(text, "  %-16s %-36s %11s  %s\n", *name, gpu->title, memory,
                               sim_basis_name(gpu->basis));
    }
    return true;
}

static bool append_clusters(GString *text, const char *models, GError **error)
{
    g_auto(GStrv) names = sim_cluster_list(models, "clusters");
    g_string_append(text, "\nClusters (--cluster NAME, or a string such as \"node:4 gpu:8 "
                          "type:h100\")\n");
    for (char **name = names; *name != NULL; name++) {
        g_autoptr(SimCluster) cluster = sim_cluster_load(models, *name, error);
        if (cluster == NULL) {
            return false;
        }
        g_string_append_printf(text, "  %-16s %u GPUs a node, %s; collectives %s\n", *name,
                               cluster->gpus_per_node, cluster->gpu->name, cluster->comm->name);
    }
    return true;
}

SimExit sim_command_list(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    if (argc > 1 && g_strcmp0(argv[1], "--help") == 0) {
        return sim_command_print("Usage: fsdpsim list\n\nModels, GPUs and clusters that ship.\n\n"
                                 "Example: fsdpsim list\n");
    }
    if (argc > 1) {
        return sim_command_misuse("list", "unexpected argument '%s'", argv[1]);
    }
    g_autofree char *models = sim_models_folder_find();
    if (models == NULL) {
        g_set_error(&error, SIM_ERROR, SIM_ERROR_IO, "models: expected a folder, found none");
        return sim_command_fail(g_steal_pointer(&error));
    }
    g_autoptr(GString) text = g_string_new(NULL);
    if (!append_models(text, models, &error) || !append_gpus(text, models, &error) ||
        !append_clusters(text, models, &error)) {
        return sim_command_fail(g_steal_pointer(&error));
    }
    return sim_command_print(text->str);
}
