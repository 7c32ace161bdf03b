/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs written down call by call, as a script would: fully_shard_new, then fully_shard for every
 * call. Freed with sim_job_free.
 */
#pragma once

#include "job/job.h"

#include <glib.h>

/* bf16 parameters, f32 reduction and storage; a step is forward, backward, step, zero_grad. */
static inline SimJob *fully_shard_new(uint32_t ranks, uint32_t steps)
{
    SimJob *job = sim_job_new(ranks);
    job->precision = (SimMixedPrecision){SIM_DTYPE_BF16, SIM_DTYPE_F32};
    job->store_dtype = SIM_DTYPE_F32;
    job->steps = steps;
    job->sequence = 15;
    job->batch = 2;
    static const SimJobActionKind KINDS[] = {SIM_ACTION_FORWARD, SIM_ACTION_BACKWARD,
                                             SIM_ACTION_OPTIMIZER, SIM_ACTION_ZERO_GRAD};
    for (size_t i = 0; i < G_N_ELEMENTS(KINDS); i++) {
        SimJobAction action = {.kind = KINDS[i]};
        g_array_append_val(job->actions, action);
    }
    return job;
}

/* fully_shard of one module, or with "a+b" of several. */
static inline void fully_shard(SimJob *job, const SimModel *model, const char *modules,
                               SimReshard reshard)
{
    SimJobUnit unit = {
        .name = g_strdup(modules[0] == '\0' ? "root" : modules),
        .modules = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .reshard_after_forward = reshard,
    };
    g_auto(GStrv) paths = g_strsplit(modules, "+", -1);
    size_t count = MAX(g_strv_length(paths), 1); /* splitting "" gives no part */
    for (size_t i = 0; i < count; i++) {
        uint32_t module = sim_model_find_module(model, paths[i] == NULL ? "" : paths[i]);
        g_assert(module != SIM_MODEL_NONE);
        g_array_append_val(unit.modules, module);
    }
    g_array_append_val(job->units, unit);
}

static inline void fully_shard_blocks(SimJob *job, const SimModel *model, SimReshard reshard)
{
    for (uint32_t i = 0; i < model->blocks->len; i++) {
        uint32_t block = g_array_index(model->blocks, uint32_t, i);
        fully_shard(job, model, sim_model_module(model, block)->path, reshard);
    }
}

/* Blocks, then the root with all the rest. */
static inline void fully_shard_base(SimJob *job, const SimModel *model, SimReshard reshard)
{
    fully_shard_blocks(job, model, reshard);
    fully_shard(job, model, "", reshard);
}

/* torchtitan's grouping: embedding, blocks, norm with head (LAST_RESHARD), root without parameters.
 */
static inline void fully_shard_titan(SimJob *job, const SimModel *model, SimReshard reshard,
                                     SimReshard last_reshard)
{
    fully_shard(job, model, "tok_embeddings", reshard);
    fully_shard_blocks(job, model, reshard);
    fully_shard(job, model, "norm+output", last_reshard);
    fully_shard(job, model, "", reshard);
}
