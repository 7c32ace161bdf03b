/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#define LONGEST_COMPARED 256 /* bytes of a value that count towards its distance */
#define LONGEST_QUOTED 80
#define LONGEST_LIST 12

G_DEFINE_QUARK(sim - error - quark, sim_error)

/* Levenshtein distance; ROW holds strlen(b) + 1 numbers. */
static size_t compute_distance(const char *a, size_t a_length, const char *b, size_t *row)
{
    size_t b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = MIN(replaced, MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

const char *sim_error_nearest(const char *value, const char *const *choices)
{
    size_t longest = 0;
    for (size_t i = 0; choices[i] != NULL; i++)
        longest = MAX(longest, strlen(choices[i]));

    g_autofree size_t *row = g_new(size_t, longest + 1);
    size_t length = strnlen(value, LONGEST_COMPARED);
    size_t least = SIZE_MAX;
    const char *nearest = NULL;
    for (size_t i = 0; choices[i] != NULL; i++) {
        size_t distance = compute_distance(value, length, choices[i], row);
        if (distance < least) {
            least = distance;
            nearest = choices[i];
        }
    }
    return nearest;
}

void sim_error_set_unknown(GError **error, const char *where, const char *what, const char *value,
                           const char *const *choices)
{
    g_autofree char *quoted = sim_error_quote(value);
    g_autoptr(GString) message = g_string_new(NULL);
    g_string_printf(message, "%s: unknown %s %s", where, what, quoted);
    const char *nearest = sim_error_nearest(value, choices);
    if (nearest != NULL)
        g_string_append_printf(message, "; did you mean '%s'?", nearest);

    size_t count = 0;
    while (choices[count] != NULL)
        count++;
    if (count > 0 && count <= LONGEST_LIST) {
        g_autofree char *list = g_strjoinv(", ", (char **)choices);
        g_string_append_printf(message, " (one of %s)", list);
    }
    g_set_error_literal(error, SIM_ERROR, SIM_ERROR_SCHEMA, message->str);
}

char *sim_error_quote(const char *value)
{
    /* g_strescape keeps what it is told to: here the bytes of UTF-8 sequences and the quote. */
    char kept[130];
    for (int byte = 0x80; byte <= 0xff; byte++)
        kept[byte - 0x80] = (char)byte;
    kept[128] = '"';
    kept[129] = '\0';

    size_t length = strnlen(value, LONGEST_QUOTED + 1);
    bool cut = length > LONGEST_QUOTED;
    if (cut) {
        length = LONGEST_QUOTED;
        while (length > 0 && ((unsigned char)value[length] & 0xc0) == 0x80)
            length--;
    }
    g_autofree char *valid = g_utf8_make_valid(value, (gssize)length);
    g_autofree char *escaped = g_strescape(valid, kept);
    return g_strdup_printf("'%s%s'", escaped, cut ? "..." : "");
}

bool sim_error_fail(GError **error, SimError code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, SIM_ERROR, (gint)code, message);
    return false;
}
