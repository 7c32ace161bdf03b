/* SPDX-License-Identifier: Apache-2.0
 *
 * Random FSDP1 and DDP jobs on small nets, held to what random_fsdp2.h holds FSDP2's to, bounds
 * aside: how much FSDP1 and DDP keep depends on the strategy. The same seed gives the same job.
 */
#pragma once

#include "support/random_fsdp2.h"

/* One module a call; what is read by two units is left to the root. */
static inline void random_strategy_wrap(RandomJob *made)
{
    const SimModel *model = made->model;
    SimReshard unset = {SIM_RESHARD_UNSET, 0};
    bool is_tied = sim_model_parameter(model, model->parameters->len - 1)->tied_to == 0;
    uint32_t style = random_below(made, 4);
    g_string_append_printf(made->story, ", wrapping %u", style);
    if (style == 1 && !is_tied)
        fully_shard(made->job, model, "tok_embeddings", unset);
    for (uint32_t i = 0; i < model->blocks->len && style > 0; i++) {
        const char *path = sim_model_module(model, g_array_index(model->blocks, uint32_t, i))->path;
        if (style == 2) {
            g_autofree char *attention = g_strdup_printf("%s.attention", path);
            fully_shard(made->job, model, attention, unset);
        }
        fully_shard(made->job, model, path, unset);
    }
    if (style == 1 && !is_tied)
        fully_shard(made->job, model, "output", unset);
    fully_shard(made->job, model, "", unset);
}

static inline void random_strategy_set_fsdp1(RandomJob *made)
{
    static const SimStrategy STRATEGIES[] = {SIM_STRATEGY_FULL_SHARD, SIM_STRATEGY_SHARD_GRAD_OP,
                                             SIM_STRATEGY_NO_SHARD, SIM_STRATEGY_HYBRID_SHARD,
                                             SIM_STRATEGY_HYBRID_SHARD_ZERO2};
    static const SimBackwardPrefetch PREFETCHES[] = {
        SIM_BACKWARD_PREFETCH_PRE, SIM_BACKWARD_PREFETCH_POST, SIM_BACKWARD_PREFETCH_NONE};
    SimJobFsdp1 *fsdp1 = &made->job->fsdp1;
    bool has_frozen = false;
    for (uint32_t i = 0; i < made->model->parameters->len; i++)
        has_frozen |= sim_model_parameter(made->model, i)->is_frozen;
    fsdp1->strategy = STRATEGIES[random_below(made, G_N_ELEMENTS(STRATEGIES))];
    fsdp1->backward_prefetch = PREFETCHES[random_below(made, G_N_ELEMENTS(PREFETCHES))];
    fsdp1->has_forward_prefetch = random_one_in(made, 3);
    fsdp1->limits_all_gathers = random_one_in(made, 2);
    fsdp1->uses_flat_parameters = !has_frozen && random_one_in(made, 3);
    fsdp1->keeps_low_precision_grads = random_one_in(made, 4);
    g_string_append_printf(
        made->story, ", FSDP1 strategy %d prefetch %d%s%s%s%s", (int)fsdp1->strategy,
        (int)fsdp1->backward_prefetch, fsdp1->has_forward_prefetch ? " forward" : "",
        fsdp1->limits_all_gathers ? " limited" : "", fsdp1->uses_flat_parameters ? " flat" : "",
        fsdp1->keeps_low_precision_grads ? " low" : "");
    random_strategy_wrap(made);
    random_set_types(made);
    if (made->job->precision.param_dtype != made->job->store_dtype)
        fsdp1->keeps_low_precision_grads = false;
}

static inline void random_strategy_set_ddp(RandomJob *made)
{
    SimJobDdp *ddp = &made->job->ddp;
    ddp->bucket_cap_bytes = random_one_in(made, 2) ? 0 : 256 + random_below(made, 20000);
    ddp->gradient_as_bucket_view = random_one_in(made, 2);
    ddp->static_graph = random_one_in(made, 4);
    bool has_extra = false;
    for (uint32_t i = 0; i < made->model->parameters->len; i++)
        has_extra |= g_str_has_suffix(sim_model_parameter(made->model, i)->path, ".extra");
    ddp->find_unused_parameters = !ddp->static_graph && (has_extra || random_one_in(made, 3));
    made->job->shard_size = made->job->ranks;
    made->job->precision = (SimMixedPrecision){SIM_DTYPE_NONE, SIM_DTYPE_NONE};
    g_string_append_printf(
        made->story, ", DDP buckets of %u%s%s%s", (unsigned)ddp->bucket_cap_bytes,
        ddp->gradient_as_bucket_view ? " view" : "", ddp->static_graph ? " static" : "",
        ddp->find_unused_parameters ? " unused found" : "");
}

static inline void random_strategy_init(RandomJob *made, uint32_t seed)
{
    static const uint32_t RANKS[] = {1, 2, 3, 4, 6, 8};
    *made = (RandomJob){
        .random = g_rand_new_with_seed(seed),
        .story = g_string_new(NULL),
        .limits = {.gathers_forward = UINT32_MAX,
                   .gathers_backward = UINT32_MAX,
                   .reduce_inputs = UINT32_MAX,
                   .keeps_unsharded = true},
    };
    g_string_append_printf(made->story, "seed %u: ", seed);
    random_make_model(made);
    made->job = fully_shard_new(RANKS[random_below(made, G_N_ELEMENTS(RANKS))], RANDOM_STEPS);
    made->job->api = random_one_in(made, 3) ? SIM_API_DDP : SIM_API_FSDP1;
    made->job->shard_size = random_divisor(made, made->job->ranks);
    g_string_append_printf(made->story, ", %u ranks by %u", made->job->ranks,
                           made->job->shard_size);
    if (made->job->api == SIM_API_DDP)
        random_strategy_set_ddp(made);
    else
        random_strategy_set_fsdp1(made);
    random_add_checkpoints(made);
    random_make_step(made);
}

static inline void random_strategy_check(uint32_t seed)
{
    RandomJob made;
    random_strategy_init(&made, seed);
    random_job_prove(&made);
    random_job_done(&made);
}
