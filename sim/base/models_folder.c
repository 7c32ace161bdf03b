/* SPDX-License-Identifier: Apache-2.0 */
#include "base/models_folder.h"

#include <glib.h>
#include <stdbool.h>

/* PREFIX/share/fsdpsim/models for a program PREFIX/bin/NAME; NULL if the system does not tell. */
static char *build_program_folder(void)
{
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    if (program == NULL)
        return NULL;
    g_autofree char *bin = g_path_get_dirname(program);
    g_autofree char *prefix = g_path_get_dirname(bin);
    return g_build_filename(prefix, "share", "fsdpsim", "models", NULL);
}

char *sim_models_folder_find(void)
{
    const char *chosen = g_getenv("FSDPSIM_MODELS");
    if (chosen != NULL && *chosen != '\0')
        return g_strdup(chosen);

    g_autofree char *beside = build_program_folder();
    const char *candidates[] = {beside, FSDPSIM_INSTALLED_MODELS, FSDPSIM_SOURCE_MODELS};
    for (size_t i = 0; i < G_N_ELEMENTS(candidates); i++) {
        if (candidates[i] != NULL && g_file_test(candidates[i], G_FILE_TEST_IS_DIR))
            return g_strdup(candidates[i]);
    }
    return NULL;
}
