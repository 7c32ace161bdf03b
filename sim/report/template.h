/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that are compiled into the program (resources/), with places that a run fills: {{NAME}}.
 */
#pragma once

#include <glib.h>

typedef struct SimTemplateValue {
    const char *name;  /* without braces */
    const char *value; /* put in as it is */
} SimTemplateValue;

/* The text FILE ("report.html") with each place filled; every name in it must be among the COUNT
 * VALUES. Owned by the caller. */
char *sim_template_fill(const char *file, const SimTemplateValue *values, size_t count);
