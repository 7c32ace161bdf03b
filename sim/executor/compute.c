/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/compute.h"

#include <string.h>

#include "base/error.h"
#include "executor/compute_private.h"

static const struct {
    const char *name;
    SimComputeFunc function;
} operators[] = {
#define X(function, name) {name, sim_compute_##function},
    SIM_COMPUTE_OPERATORS(X)
#undef X
};

static const char *const names[] = {
#define X(function, name) name,
    SIM_COMPUTE_OPERATORS(X)
#undef X
        NULL};

SimComputeFunc sim_compute_find(const char *name)
{
    size_t first = 0, end = G_N_ELEMENTS(operators);
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        int order = strcmp(name, operators[middle].name);
        if (order == 0)
            return operators[middle].function;
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

const char *const *sim_compute_names(void)
{
    return names;
}

bool sim_compute_expect(const SimComputeCall *call, uint32_t n_in, uint32_t n_out, GError **error)
{
    if (call->n_in == n_in && call->n_out == n_out)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                "%s: expected %u reads and %u writes, found %u and %u", call->operator_name, n_in,
                n_out, call->n_in, call->n_out);
    return false;
}

bool sim_compute_expect_same(const SimComputeCall *call, const SimOperand *a, const SimOperand *b,
                             GError **error)
{
    if (sim_operand_elements(a) == sim_operand_elements(b))
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: expected operands of equal size, found %" G_GUINT64_FORMAT
                " and %" G_GUINT64_FORMAT " elements",
                call->operator_name, sim_operand_elements(a), sim_operand_elements(b));
    return false;
}

bool sim_compute_parse_part(char *item, SimComputePart *part)
{
    char *at = strrchr(item, '@');
    if (at == NULL)
        return false;
    *at = '\0';
    *part = (SimComputePart){.elements = 1, .columns = 1};
    part->offset = g_ascii_strtoull(at + 1, &at, 10);
    uint32_t n_dims = 0;
    while (*at == ':' || *at == 'x') {
        part->columns = g_ascii_strtoull(at + 1, &at, 10);
        part->elements *= part->columns;
        n_dims++;
    }
    part->is_matrix = n_dims > 1;
    return true;
}

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

double sim_compute_value(uint64_t seed, const char *name, uint64_t index)
{
    uint64_t hash = mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return (double)(mix(mix(hash) + index * UINT64_C(0x9e3779b97f4a7c15)) >> 11) * 0x1p-53;
}
