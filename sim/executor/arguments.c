/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/arguments.h"

#include <glib.h>
#include <string.h>

const char *sim_arguments_find(const char *text, const char *key, size_t *length)
{
    size_t key_length = strlen(key);
    for (const char *at = text; at != NULL && *at != '\0'; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        if (strncmp(at, key, key_length) != 0 || at[key_length] != '=')
            continue;
        const char *value = at + key_length + 1;
        *length = strcspn(value, " ");
        return value;
    }
    return NULL;
}

double sim_arguments_number(const char *text, const char *key, double fallback)
{
    size_t length;
    const char *value = sim_arguments_find(text, key, &length);
    return value != NULL ? g_ascii_strtod(value, NULL) : fallback;
}

char *sim_arguments_text(const char *text, const char *key)
{
    size_t length;
    const char *value = sim_arguments_find(text, key, &length);
    return value != NULL ? g_strndup(value, length) : NULL;
}
