/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_launch_tables.h"

/* BLOCK_SIZE x BYTES_PER_THREAD, and what the device runs at once (maxThreadsPerMultiProcessor),
 * twice over. */
#define BYTES_PER_BLOCK UINT64_C(2048)
#define BLOCKS_PER_SM (UINT64_C(2048) / 128 * 2)
#define NUMBER_BYTES UINT64_C(8)

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static const SimUnitParameter *get_parameter(const SimFsdp2State *state, uint32_t index)
{
    return &g_array_index(state->unit->parameters, SimUnitParameter, index);
}

/* Born and gone before the next row: the launch has its copy of the addresses. */
static void hold(SimFsdp2Context *context, uint64_t numbers)
{
    SimName name = {.stem = context->words.launch_tables, .serial = context->launches++};
    uint32_t tables = sim_plan_alloc(context->plan, context->compute, name, numbers * NUMBER_BYTES,
                                     SIM_CATEGORY_WORKSPACE, SIM_DTYPE_I64, 0);
    sim_plan_free_buffer(context->plan, tables);
}

static uint64_t piece_bytes(const SimUnitParameter *parameter)
{
    return parameter->shard.shard_elements * sim_dtype_bytes(parameter->gather_dtype);
}

/* How much more than one thread's 16 bytes a thread takes of one piece, once the pieces of several
 * ranks have been given to one block. */
static uint64_t count_rounds(const SimFsdp2Context *context, const SimFsdp2State *state)
{
    uint64_t blocks = 0, ranks = context->shard_size;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        blocks += divide_up(piece_bytes(get_parameter(state, i)), BYTES_PER_BLOCK);
    uint64_t factor = divide_up(blocks * ranks, context->multiprocessors * BLOCKS_PER_SM);
    uint64_t pieces = 0; /* the square root, rounded up */
    while (pieces * pieces < factor)
        pieces++;
    return divide_up(factor, MAX(MIN(pieces, ranks), 1));
}

void sim_fsdp2_launch_tables_split(SimFsdp2Context *context, const SimFsdp2State *state)
{
    if (context->multiprocessors == 0)
        return;
    uint64_t parameters = state->unit->parameters->len;
    uint64_t rounds = count_rounds(context, state), blocks = 0;
    for (uint32_t i = 0; i < parameters; i++)
        blocks += divide_up(piece_bytes(get_parameter(state, i)), BYTES_PER_BLOCK * MAX(rounds, 1));
    hold(context, 4 * parameters + 1 + blocks);
}

void sim_fsdp2_launch_tables_chunk_cat(SimFsdp2Context *context, const SimFsdp2State *state)
{
    if (context->multiprocessors == 0)
        return;
    uint64_t gradients = 0, blocks = 0;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        if (state->parameters[i].gradient == SIM_PLAN_NONE)
            continue;
        gradients++;
        blocks += divide_up(get_parameter(state, i)->shard.shard_elements *
                                sim_dtype_bytes(state->unit->reduce_dtype),
                            BYTES_PER_BLOCK);
    }
    hold(context, 6 * gradients + 2 + blocks);
}
