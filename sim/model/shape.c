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

char *sim_shape_print(const SimShape *shape)
{
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < shape->n_dims; i++)
        g_string_append_printf(text, "%s%" G_GUINT64_FORMAT, i > 0 ? "x" : "", shape->dims[i]);
    return g_string_free(text, FALSE);
}
