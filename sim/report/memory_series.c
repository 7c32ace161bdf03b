/* SPDX-License-Identifier: Apache-2.0 */
#include "report/memory_series.h"

#include "hbm/allocator.h"

SimSeries sim_memory_series_of(SimCategory category)
{
    switch (category) {
    case SIM_CATEGORY_PARAMETER_SHARD:
    case SIM_CATEGORY_POST_FORWARD_SHARD:
        return SIM_SERIES_SHARD;
    case SIM_CATEGORY_ALL_GATHER_OUTPUT:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
    case SIM_CATEGORY_LOW_PRECISION_SHARD:
        return SIM_SERIES_GATHERED;
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_SCATTER_INPUT:
    case SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT:
    case SIM_CATEGORY_REDUCE_COPY:
    case SIM_CATEGORY_BUCKET:
        return SIM_SERIES_REDUCED;
    case SIM_CATEGORY_SHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT: /* FSDP2's gradients are views of it */
        return SIM_SERIES_GRADIENT;
    case SIM_CATEGORY_OPTIMIZER_STATE:
        return SIM_SERIES_OPTIMIZER;
    case SIM_CATEGORY_ACTIVATION:
        return SIM_SERIES_ACTIVATION;
    case SIM_CATEGORY_LOGITS_LOSS:
        return SIM_SERIES_LOGITS;
    case SIM_CATEGORY_TEMPORARY:
    case SIM_CATEGORY_INPUT:
    case SIM_CATEGORY_WORKSPACE:
    case SIM_CATEGORY_BUFFER:
    case SIM_CATEGORY_NONE:
    case SIM_CATEGORY_COUNT:
        break;
    }
    return SIM_SERIES_REST;
}

const char *sim_memory_series_name(SimSeries series)
{
    static const char *const names[SIM_SERIES_COUNT] = {
        "parameter shard", "gathered weights", "full gradients, reduction", "gradient shard",
        "optimizer state", "activations",      "logits and loss",           "everything else"};
    return names[series];
}

const char *sim_memory_series_class(SimSeries series)
{
    static const char *const names[SIM_SERIES_COUNT] = {"c0", "c1", "c2", "c3",
                                                        "c4", "c5", "c6", "c7"};
    return names[series];
}

/* What EVENT changes, by the difference of allocated bytes: blocks count whole, as in the peaks. */
static void apply_event(const SimPlan *plan, const SimMemoryEvent *event, SimMemorySample *state)
{
    if (event->buffer != SIM_PLAN_NONE && event->allocated_bytes != state->allocated_bytes) {
        SimCategory category = (SimCategory)sim_plan_buffer(plan, event->buffer)->category;
        /* Unsigned arithmetic: a free adds the negative. */
        state->bytes[sim_memory_series_of(category)] +=
            event->allocated_bytes - state->allocated_bytes;
    }
    state->allocated_bytes = event->allocated_bytes;
    state->reserved_bytes = event->reserved_bytes;
    state->instruction = event->instruction;
}

GArray *sim_memory_series_compute(const SimPlan *plan, const SimTrack *track, guint count)
{
    GArray *samples = g_array_new(FALSE, FALSE, sizeof(SimMemorySample));
    guint events = track->memory_events != NULL ? track->memory_events->len : 0;
    SimMemorySample state = {0};
    if (events == 0) {
        return samples;
    }
    SimTime end = g_array_index(track->memory_times, SimTime, events - 1) + 1;
    guint before = G_MAXUINT;
    for (guint i = 0; i < events; i++) {
        apply_event(plan, &g_array_index(track->memory_events, SimMemoryEvent, i), &state);
        state.time = g_array_index(track->memory_times, SimTime, i);
        guint stretch = (guint)((double)state.time / (double)end * count);
        if (stretch != before) {
            g_array_append_val(samples, state);
            before = stretch;
        } else {
            SimMemorySample *last = &g_array_index(samples, SimMemorySample, samples->len - 1);
            if (state.allocated_bytes >= last->allocated_bytes) {
                *last = state;
            }
        }
    }
    return samples;
}
