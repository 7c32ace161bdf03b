/* SPDX-License-Identifier: Apache-2.0 */
#include "known_plans.h"

typedef struct Builder {
    SimPlan *plan;
    uint32_t compute, communication;
    uint32_t group;
    uint64_t bytes;
    SimTime collective_time; /* -1 = by the cost model */
} Builder;

static Builder start(uint32_t ranks, uint64_t bytes, SimTime collective_time)
{
    g_autofree char *lists = g_strdup_printf("0-%u", ranks - 1);
    Builder builder = {
        .plan = sim_plan_new(ranks), .bytes = bytes, .collective_time = collective_time};
    bool is_added = sim_plan_add_group(builder.plan, "shard", lists, NULL);

    g_assert(is_added);
    sim_plan_set_meta(builder.plan, "cluster", "flat");
    builder.compute = sim_plan_stream(builder.plan, "compute");
    builder.communication = sim_plan_stream(builder.plan, "communication");
    builder.group = sim_plan_find_group(builder.plan, "shard");
    sim_plan_context(builder.plan)->step = 0;
    sim_plan_context(builder.plan)->microbatch = 0;
    return builder;
}

static void begin_phase(Builder *builder, SimPhase phase)
{
    sim_plan_context(builder->plan)->phase = phase;
    sim_plan_context(builder->plan)->unit = 0;
    sim_plan_mark(builder->plan, sim_plan_phase_name(phase));
}

static SimName name_of(Builder *builder, const char *what, int layer)
{
    return (SimName){
        .stem = sim_strings_internf(sim_plan_strings(builder->plan), "%s:layers.%d", what, layer),
        .serial = -1};
}

static void enter_layer(Builder *builder, int layer)
{
    sim_plan_context(builder->plan)->unit =
        sim_strings_internf(sim_plan_strings(builder->plan), "layers.%d", layer);
}

/* STREAM waits for what OTHER has been given so far, by an event of that name. */
static void join(Builder *builder, uint32_t stream, uint32_t other, const char *what, int layer)
{
    sim_plan_wait(builder->plan, stream,
                  sim_plan_record(builder->plan, other, name_of(builder, what, layer)));
}

static void kernel(Builder *builder, const char *what, int layer, SimTime duration)
{
    SimStringId name =
        sim_strings_internf(sim_plan_strings(builder->plan), "layers.%d %s", layer, what);

    enter_layer(builder, layer);
    sim_plan_kernel(builder->plan, builder->compute, name, 0, SIM_DTYPE_BF16)->duration = duration;
}

static void collective(Builder *builder, const char *what, int layer, SimCollectiveKind kind)
{
    SimStringId name =
        sim_strings_internf(sim_plan_strings(builder->plan), "layers.%d %s", layer, what);

    enter_layer(builder, layer);
    sim_plan_collective(builder->plan, builder->communication, name, kind, builder->group,
                        builder->bytes, SIM_DTYPE_BF16)
        ->duration = builder->collective_time;
}

/* An all-gather of LAYER, and the event that compute waits for. */
static uint32_t all_gather(Builder *builder, const char *what, int layer)
{
    collective(builder, what, layer, SIM_COLLECTIVE_ALL_GATHER);
    return sim_plan_record(builder->plan, builder->communication, name_of(builder, what, layer));
}

SimPlan *known_plans_ring_step(uint32_t ranks)
{
    const SimTime forward = 9 * SIM_MILLISECOND / 2, backward = 9 * SIM_MILLISECOND;
    const int last = KNOWN_PLANS_RING_LAYERS - 1;
    Builder builder = start(ranks, KNOWN_PLANS_RING_BYTES, -1);

    begin_phase(&builder, SIM_PHASE_FORWARD);
    /* AGf_i is issued after F_{i-2}: two all-gathers lead, then each waits for the kernel two back.
     */
    uint32_t gathered[KNOWN_PLANS_RING_LAYERS];
    gathered[0] = all_gather(&builder, "ag", 0);
    gathered[1] = all_gather(&builder, "ag", 1);
    for (int i = 0; i <= last; i++) {
        sim_plan_wait(builder.plan, builder.compute, gathered[i]);
        kernel(&builder, "forward", i, forward);
        join(&builder, builder.communication, builder.compute, "f", i);
        if (i + 2 <= last)
            gathered[i + 2] = all_gather(&builder, "ag", i + 2);
    }
    begin_phase(&builder, SIM_PHASE_BACKWARD);
    uint32_t next = all_gather(&builder, "agb", last);
    for (int i = last; i >= 0; i--) {
        sim_plan_wait(builder.plan, builder.compute, next);
        if (i > 0)
            next = all_gather(&builder, "agb", i - 1);
        kernel(&builder, "backward", i, backward);
        join(&builder, builder.communication, builder.compute, "b", i);
        collective(&builder, "rs", i, SIM_COLLECTIVE_REDUCE_SCATTER);
    }
    sim_plan_context(builder.plan)->unit = 0;
    join(&builder, builder.compute, builder.communication, "step", 0);
    return builder.plan;
}

SimPlan *known_plans_overlap_test(bool is_overlapped)
{
    const int layers = 3;
    Builder builder = start(2, SIM_MIB, 10 * SIM_MILLISECOND);

    begin_phase(&builder, SIM_PHASE_FORWARD);
    for (int i = 0; i < layers; i++) {
        if (!is_overlapped && i > 0)
            join(&builder, builder.communication, builder.compute, "f", i - 1);
        sim_plan_wait(builder.plan, builder.compute, all_gather(&builder, "ag", i));
        kernel(&builder, "forward", i, 25 * SIM_MILLISECOND);
    }
    join(&builder, builder.communication, builder.compute, "forward", 0);
    begin_phase(&builder, SIM_PHASE_BACKWARD);
    uint32_t gathered = all_gather(&builder, "agb", layers - 1);
    for (int i = layers - 1; i >= 0; i--) {
        sim_plan_wait(builder.plan, builder.compute, gathered);
        if (is_overlapped && i > 0)
            gathered = all_gather(&builder, "agb", i - 1);
        kernel(&builder, "backward", i, 50 * SIM_MILLISECOND);
        join(&builder, builder.communication, builder.compute, "b", i);
        collective(&builder, "rs", i, SIM_COLLECTIVE_REDUCE_SCATTER);
        if (!is_overlapped) {
            join(&builder, builder.compute, builder.communication, "rs", i);
            if (i > 0)
                gathered = all_gather(&builder, "agb", i - 1);
        }
    }
    sim_plan_context(builder.plan)->unit = 0;
    join(&builder, builder.compute, builder.communication, "step", 0);
    return builder.plan;
}
