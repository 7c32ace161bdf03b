/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/json_text.h"

void sim_json_text_append(GString *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            g_string_append_c(text, '\\');
            g_string_append_c(text, *c);
        } else if ((unsigned char)*c < 0x20 || *c == '<') {
            g_string_append_printf(text, "\\u%04x", (unsigned char)*c);
        } else {
            g_string_append_c(text, *c);
        }
    }
}
