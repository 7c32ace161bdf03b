/* SPDX-License-Identifier: Apache-2.0 */
#include "model/shape.h"

#include <glib.h>

uint64_t sim_shape_elements(const SimShape *shape)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < shape->n_dims; i++)
        elements *= shape->dims[i];
    return elements;
}

/* Written from its end; a step has some thousand of them, so without printf. */
char *sim_shape_print(const SimShape *shape)
{
    char text[SIM_SHAPE_MAX_DIMS * 21 + 1]; /* 20 digits and an x each */
    char *first = text + sizeof text - 1;
    *first = '\0';
    for (uint32_t i = shape->n_dims; i-- > 0;) {
        uint64_t rest = shape->dims[i];
        do {
            *--first = (char)('0' + rest % 10);
            rest /= 10;
        } while (rest > 0);
        if (i > 0)
            *--first = 'x';
    }
    return g_strdup(first);
}
