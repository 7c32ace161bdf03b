/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned strings: each distinct text once, known by a small number. Number 0 is the empty string.
 * Ids are given in order of first appearance, so they are the same in every run of the same input.
 */
#pragma once

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t SimStringId;

typedef struct SimStrings SimStrings;

SimStrings *sim_strings_new(void);
void sim_strings_free(SimStrings *strings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimStrings, sim_strings_free)

/* The id of TEXT (NULL counts as empty), made if new. O(length). */
SimStringId sim_strings_intern(SimStrings *strings, const char *text);
SimStringId sim_strings_internf(SimStrings *strings, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The id of TEXT, or 0 if it was never interned. */
SimStringId sim_strings_find(const SimStrings *strings, const char *text);

/* Borrowed; stays valid and at its place until STRINGS is freed. O(1). */
const char *sim_strings_get(const SimStrings *strings, SimStringId id);

size_t sim_strings_count(const SimStrings *strings);
