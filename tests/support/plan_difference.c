/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_difference.h"

#include <string.h>

typedef struct Comparison {
    const SimPlan *a, *b;
    char *difference;
} Comparison;

static bool same_number(Comparison *comparison, const char *what, size_t index, int64_t a,
                        int64_t b)
{
    if (a == b)
        return true;
    comparison->difference = g_strdup_printf(
        "%s of %zu: %" G_GINT64_FORMAT " against %" G_GINT64_FORMAT, what, index, a, b);
    return false;
}

static bool same_text(Comparison *comparison, const char *what, size_t index, const char *a,
                      const char *b)
{
    if (g_strcmp0(a, b) == 0)
        return true;
    comparison->difference = g_strdup_printf("%s of %zu: '%s' against '%s'", what, index, a, b);
    return false;
}

static bool same_string(Comparison *comparison, const char *what, size_t index, SimStringId a,
                        SimStringId b)
{
    return same_text(comparison, what, index, sim_plan_string(comparison->a, a),
                     sim_plan_string(comparison->b, b));
}

static bool same_name(Comparison *comparison, const char *what, size_t index, SimName a, SimName b)
{
    return same_string(comparison, what, index, a.stem, b.stem) &&
           same_string(comparison, what, index, a.tail, b.tail) &&
           same_number(comparison, what, index, a.serial, b.serial);
}

static bool same_tables(Comparison *c)
{
    const SimPlan *a = c->a, *b = c->b;

    if (!same_number(c, "ranks", 0, sim_plan_ranks(a), sim_plan_ranks(b)) ||
        !same_number(c, "meta", 0, (int64_t)sim_plan_meta_count(a),
                     (int64_t)sim_plan_meta_count(b)) ||
        !same_number(c, "streams", 0, sim_plan_stream_count(a), sim_plan_stream_count(b)) ||
        !same_number(c, "groups", 0, sim_plan_group_count(a), sim_plan_group_count(b)))
        return false;
    for (size_t i = 0; i < sim_plan_meta_count(a); i++) {
        const char *key = sim_plan_meta_key(a, i);
        if (!same_text(c, "meta key", i, key, sim_plan_meta_key(b, i)) ||
            !same_text(c, "meta value", i, sim_plan_get_meta(a, key), sim_plan_get_meta(b, key)))
            return false;
    }
    for (uint32_t i = 0; i < sim_plan_stream_count(a); i++) {
        if (!same_text(c, "stream", i, sim_plan_stream_name(a, i), sim_plan_stream_name(b, i)))
            return false;
    }
    for (uint32_t i = 0; i < sim_plan_group_count(a); i++) {
        g_autofree char *lists_a = sim_plan_print_group(a, i);
        g_autofree char *lists_b = sim_plan_print_group(b, i);
        if (!same_text(c, "group", i, sim_plan_group_name(a, i), sim_plan_group_name(b, i)) ||
            !same_text(c, "lists of group", i, lists_a, lists_b))
            return false;
    }
    return true;
}

static bool same_buffers(Comparison *c)
{
    if (!same_number(c, "buffers", 0, (int64_t)sim_plan_buffer_count(c->a),
                     (int64_t)sim_plan_buffer_count(c->b)) ||
        !same_number(c, "events", 0, (int64_t)sim_plan_event_count(c->a),
                     (int64_t)sim_plan_event_count(c->b)))
        return false;
    for (uint32_t i = 0; i < sim_plan_buffer_count(c->a); i++) {
        const SimBuffer *a = sim_plan_buffer(c->a, i), *b = sim_plan_buffer(c->b, i);
        if (!same_name(c, "buffer name", i, a->name, b->name) ||
            !same_number(c, "buffer bytes", i, (int64_t)a->bytes, (int64_t)b->bytes) ||
            !same_number(c, "buffer stream", i, a->stream, b->stream) ||
            !same_number(c, "buffer parent", i, a->parent, b->parent) ||
            !same_number(c, "buffer offset", i, (int64_t)a->offset, (int64_t)b->offset) ||
            !same_string(c, "buffer shape", i, a->shape, b->shape) ||
            !same_number(c, "buffer category", i, a->category, b->category) ||
            !same_number(c, "buffer dtype", i, a->dtype, b->dtype) ||
            !same_number(c, "buffer is_host", i, a->is_host, b->is_host) ||
            !same_number(c, "buffer times_rank", i, a->times_rank, b->times_rank))
            return false;
    }
    for (uint32_t i = 0; i < sim_plan_event_count(c->a); i++) {
        if (!same_name(c, "event", i, sim_plan_event_name(c->a, i), sim_plan_event_name(c->b, i)))
            return false;
    }
    return true;
}

static bool same_touches(Comparison *c, size_t index, const SimInstruction *a,
                         const SimInstruction *b)
{
    const SimTouch *in_a = sim_plan_touches(c->a, a), *in_b = sim_plan_touches(c->b, b);

    if (!same_number(c, "reads", index, a->n_reads, b->n_reads) ||
        !same_number(c, "writes", index, a->n_writes, b->n_writes))
        return false;
    for (size_t i = 0; i < (size_t)a->n_reads + a->n_writes; i++) {
        if (!same_number(c, "touched buffer", index, in_a[i].buffer, in_b[i].buffer) ||
            !same_number(c, "touch times_rank", index, in_a[i].times_rank, in_b[i].times_rank) ||
            !same_number(c, "touch offset", index, (int64_t)in_a[i].offset,
                         (int64_t)in_b[i].offset) ||
            !same_number(c, "touch bytes", index, (int64_t)in_a[i].bytes, (int64_t)in_b[i].bytes))
            return false;
    }
    return true;
}

static bool same_instruction(Comparison *c, size_t i, const SimInstruction *a,
                             const SimInstruction *b)
{
    return same_number(c, "op", i, a->op, b->op) &&
           same_number(c, "phase", i, a->phase, b->phase) &&
           same_number(c, "dtype", i, a->dtype, b->dtype) &&
           same_number(c, "collective", i, a->collective, b->collective) &&
           same_number(c, "direction", i, a->is_device_to_host, b->is_device_to_host) &&
           same_number(c, "event of stream", i, a->is_event_of_stream, b->is_event_of_stream) &&
           same_number(c, "stream", i, a->stream, b->stream) &&
           same_text(c, "rank", i, sim_plan_rank_set_text(c->a, a->rank_set),
                     sim_plan_rank_set_text(c->b, b->rank_set)) &&
           same_number(c, "step", i, a->step, b->step) &&
           same_number(c, "microbatch", i, a->microbatch, b->microbatch) &&
           same_string(c, "name", i, a->name, b->name) &&
           same_string(c, "unit", i, a->unit, b->unit) &&
           same_string(c, "operator", i, a->operator_name, b->operator_name) &&
           same_string(c, "arguments", i, a->arguments, b->arguments) &&
           same_string(c, "shape", i, a->shape, b->shape) &&
           same_number(c, "buffer", i, a->buffer, b->buffer) &&
           same_number(c, "event", i, a->event, b->event) &&
           same_number(c, "group", i, a->group, b->group) && same_touches(c, i, a, b) &&
           same_number(c, "bytes", i, (int64_t)a->bytes, (int64_t)b->bytes) &&
           same_number(c, "flops", i, (int64_t)a->flops, (int64_t)b->flops) &&
           same_number(c, "hbm_bytes", i, (int64_t)a->hbm_bytes, (int64_t)b->hbm_bytes) &&
           same_number(c, "duration", i, a->duration, b->duration);
}

char *plan_difference(const SimPlan *a, const SimPlan *b)
{
    Comparison comparison = {.a = a, .b = b};

    if (!same_tables(&comparison) || !same_buffers(&comparison) ||
        !same_number(&comparison, "rows", 0, (int64_t)sim_plan_length(a),
                     (int64_t)sim_plan_length(b)))
        return comparison.difference;
    for (size_t i = 0; i < sim_plan_length(a); i++) {
        if (!same_instruction(&comparison, i, sim_plan_instruction(a, i),
                              sim_plan_instruction(b, i)))
            return comparison.difference;
    }
    return NULL;
}
