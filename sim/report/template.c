/* SPDX-License-Identifier: Apache-2.0 */
#include "report/template.h"

#include <gio/gio.h>
#include <string.h>

#include <report_resource.h>

static const char *find_value(const char *name, size_t length, const SimTemplateValue *values,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(values[i].name) == length && strncmp(values[i].name, name, length) == 0) {
            return values[i].value;
        }
    }
    g_assert_not_reached();
}

char *sim_template_fill(const char *file, const SimTemplateValue *values, size_t count)
{
    g_autofree char *path = g_strdup_printf("/fsdpsim/%s", file);
    g_autoptr(GBytes) bytes =
        g_resource_lookup_data(sim_report_get_resource(), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
    g_assert(bytes != NULL);
    size_t size;
    const char *at = g_bytes_get_data(bytes, &size);
    const char *end = at + size;
    GString *text = g_string_sized_new(size);
    for (;;) {
        const char *open = g_strstr_len(at, end - at, "{{");
        if (open == NULL) {
            break;
        }
        const char *close = g_strstr_len(open, end - open, "}}");
        g_assert(close != NULL);
        g_string_append_len(text, at, open - at);
        g_string_append(text, find_value(open + 2, (size_t)(close - open - 2), values, count));
        at = close + 2;
    }
    g_string_append_len(text, at, end - at);
    return g_string_free(text, FALSE);
}
