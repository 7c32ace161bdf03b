/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/model_file.h"

#include <string.h>

#include "base/error.h"
#include "hardware/cluster.h"

static bool is_path(const char *argument)
{
    return strchr(argument, '/') != NULL || g_str_has_suffix(argument, ".json");
}

/* The model that ships under the last part of a hub's name, as in "meta-llama/Llama-3.1-8B"; NULL
 * if none does. */
static char *find_shipped(const char *models, const char *argument)
{
    g_autofree char *base = g_path_get_basename(argument);
    g_autofree char *name = g_ascii_strdown(base, -1);
    g_auto(GStrv) names = sim_cluster_list(models, "nets");
    return g_strv_contains((const char *const *)names, name) ? g_steal_pointer(&name) : NULL;
}

char *sim_model_file_find(const char *models, const char *argument, GError **error)
{
    if (g_file_test(argument, G_FILE_TEST_IS_DIR)) {
        g_autofree char *config = g_build_filename(argument, "config.json", NULL);
        if (g_file_test(config, G_FILE_TEST_EXISTS)) {
            return g_steal_pointer(&config);
        }
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: expected a folder with a config.json",
                    argument);
        return NULL;
    }
    if (g_file_test(argument, G_FILE_TEST_EXISTS)) {
        return g_strdup(argument);
    }
    if (is_path(argument)) {
        g_autofree char *shipped = find_shipped(models, argument);
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: no such file%s%s", argument,
                    shipped != NULL ? "; expected a config.json, or a model that ships: " : "",
                    shipped != NULL ? shipped : "");
        return NULL;
    }
    g_autofree char *name = g_strdup_printf("%s.json", argument);
    g_autofree char *shipped = g_build_filename(models, "nets", name, NULL);
    if (g_file_test(shipped, G_FILE_TEST_EXISTS)) {
        return g_steal_pointer(&shipped);
    }
    g_auto(GStrv) names = sim_cluster_list(models, "nets");
    sim_error_set_unknown(error, "MODEL", "model", argument, (const char *const *)names);
    return NULL;
}
