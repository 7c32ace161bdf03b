/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types, with the names that plans and recordings use.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum SimDtype {
    SIM_DTYPE_NONE, /* not said */
    SIM_DTYPE_F32,
    SIM_DTYPE_BF16,
    SIM_DTYPE_F16,
    SIM_DTYPE_F8,
    SIM_DTYPE_I64,
    SIM_DTYPE_U8, /* also bool, and an all-gather of mixed types */
    SIM_DTYPE_C64,
    SIM_DTYPE_I32,
    SIM_DTYPE_COUNT
} SimDtype;

uint32_t sim_dtype_bytes(SimDtype dtype);   /* of one element; 0 for NONE */
const char *sim_dtype_name(SimDtype dtype); /* "f32"; "" for NONE */

/* "bf16" -> the type; "" -> NONE. Error SCHEMA with the nearest name, prefixed by WHERE. */
bool sim_dtype_parse(const char *text, const char *where, SimDtype *dtype, GError **error);
