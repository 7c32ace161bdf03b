/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"

#include <string.h>

#include "base/error.h"

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[SIM_DTYPE_COUNT] = {
    [SIM_DTYPE_NONE] = {"", 0},   [SIM_DTYPE_F32] = {"f32", 4}, [SIM_DTYPE_BF16] = {"bf16", 2},
    [SIM_DTYPE_F16] = {"f16", 2}, [SIM_DTYPE_F8] = {"f8", 1},   [SIM_DTYPE_I64] = {"i64", 8},
    [SIM_DTYPE_U8] = {"u8", 1},   [SIM_DTYPE_C64] = {"c64", 8}, [SIM_DTYPE_I32] = {"i32", 4},
};

uint32_t sim_dtype_bytes(SimDtype dtype)
{
    g_assert(dtype < SIM_DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

const char *sim_dtype_name(SimDtype dtype)
{
    g_assert(dtype < SIM_DTYPE_COUNT);
    return dtypes[dtype].name;
}

bool sim_dtype_parse(const char *text, const char *where, SimDtype *dtype, GError **error)
{
    const char *names[SIM_DTYPE_COUNT] = {NULL};

    for (int i = 0; i < SIM_DTYPE_COUNT; i++) {
        if (strcmp(text, dtypes[i].name) == 0) {
            *dtype = (SimDtype)i;
            return true;
        }
        if (i > 0)
            names[i - 1] = dtypes[i].name;
    }
    sim_error_set_unknown(error, where, "element type", text, names);
    return false;
}
