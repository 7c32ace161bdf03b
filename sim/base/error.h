/* SPDX-License-Identifier: Apache-2.0
 *
 * The one error domain, for bad input and a bad environment. A simulated out-of-memory or deadlock
 * is a field of a result, never one of these; a bug is a g_assert.
 *
 * A message is one line: where (file, line or JSON path), what was expected, what was found and, if
 * it was a choice, the nearest valid one. The command line ends with exit code 3 on any of them.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

typedef enum SimError {
    SIM_ERROR_IO,          /* a file cannot be read or written */
    SIM_ERROR_PARSE,       /* not JSON, not CSV, not a number */
    SIM_ERROR_SCHEMA,      /* a key or column is missing, unknown or of another type */
    SIM_ERROR_RANGE,       /* a value outside what is possible */
    SIM_ERROR_UNSUPPORTED, /* valid, but not simulated */
    SIM_ERROR_MISMATCH,    /* two inputs that do not belong together */
} SimError;

#define SIM_ERROR sim_error_quark()
GQuark sim_error_quark(void);

/* The choice nearest to VALUE by edit distance (ties: the earlier one), or NULL if CHOICES, a
 * NULL-terminated list, is empty. Borrowed from CHOICES. O(sum of the lengths * length). */
const char *sim_error_nearest(const char *value, const char *const *choices);

/* Sets ERROR (code SCHEMA) to "WHERE: unknown WHAT 'VALUE'; did you mean 'nearest'? (one of a, b,
 * c)"; the list is left out where it holds more than 12. */
void sim_error_set_unknown(GError **error, const char *where, const char *what, const char *value,
                           const char *const *choices);

/* VALUE between single quotes, as it stands in a message: one line (control characters escaped),
 * valid UTF-8, cut to 80 bytes with "..." behind it. Owned by the caller. */
char *sim_error_quote(const char *value);

/* Sets ERROR as g_set_error does and returns false: the end of a check in one statement. */
bool sim_error_fail(GError **error, SimError code, const char *format, ...) G_GNUC_PRINTF(3, 4);
