/* SPDX-License-Identifier: Apache-2.0
 *
 * The `arguments` of a plan's row: "key=value key=value". Values hold no space.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The value of KEY in TEXT, not terminated, its length in *LENGTH; NULL if there is none. Borrowed
 * from TEXT. O(length). */
const char *sim_arguments_find(const char *text, const char *key, size_t *length);

/* The number behind KEY, or FALLBACK. */
double sim_arguments_number(const char *text, const char *key, double fallback);

/* The value of KEY as a text of its own, or NULL. Owned by the caller. */
char *sim_arguments_text(const char *text, const char *key);
