/* SPDX-License-Identifier: Apache-2.0 */
#include "brute_force.h"

#include <glib.h>
#include <string.h>

typedef struct Access {
    uint32_t row, buffer;
    uint64_t begin, end;
    bool is_write;
} Access;

typedef struct Graph {
    const SimPlan *plan;
    uint32_t rank;
    size_t n, words;
    uint64_t *before;     /* n rows of n bits: what must be over */
    GArray *accesses;     /* of Access, by row */
    int64_t *born, *died; /* by buffer; -1 = never */
} Graph;

static void precede(Graph *graph, size_t earlier, size_t later)
{
    uint64_t *to = &graph->before[later * graph->words];
    const uint64_t *from = &graph->before[earlier * graph->words];
    for (size_t w = 0; w < graph->words; w++)
        to[w] |= from[w];
    to[earlier / 64] |= UINT64_C(1) << earlier % 64;
}

static bool is_over(const Graph *graph, uint32_t earlier, uint32_t later)
{
    return earlier == later ||
           (graph->before[(size_t)later * graph->words + earlier / 64] >> earlier % 64 & 1) != 0;
}

static bool is_on_stream(const SimInstruction *row)
{
    return row->op == SIM_PLAN_KERNEL || row->op == SIM_PLAN_COPY ||
           row->op == SIM_PLAN_COLLECTIVE || row->op == SIM_PLAN_RECORD || row->op == SIM_PLAN_WAIT;
}

/* The last row before ROW that OK accepts for KEY; -1 if none. */
static int64_t find_back(const Graph *graph, size_t row,
                         bool (*ok)(const SimInstruction *, uint32_t), uint32_t key)
{
    for (size_t i = row; i > 0; i--)
        if (ok(sim_plan_instruction(graph->plan, i - 1), key))
            return (int64_t)i - 1;
    return -1;
}

static bool is_of_stream(const SimInstruction *row, uint32_t stream)
{
    return is_on_stream(row) && row->stream == stream;
}

static bool is_record_of(const SimInstruction *row, uint32_t event)
{
    return row->op == SIM_PLAN_RECORD && row->event == event;
}

static void link_rows(Graph *graph, BruteForce *result)
{
    int64_t host = -1; /* last host wait */
    for (size_t i = 0; i < graph->n; i++) {
        const SimInstruction *row = sim_plan_instruction(graph->plan, i);
        int64_t from = -1;
        if (host >= 0)
            precede(graph, (size_t)host, i);
        if (is_on_stream(row))
            from = find_back(graph, i, is_of_stream, row->stream);
        if (from >= 0)
            precede(graph, (size_t)from, i);
        if (row->op == SIM_PLAN_WAIT && row->is_event_of_stream) {
            from = find_back(graph, i, is_of_stream, row->event);
            if (from >= 0)
                precede(graph, (size_t)from, i);
        } else if (row->op == SIM_PLAN_WAIT || row->op == SIM_PLAN_HOST_WAIT) {
            from = find_back(graph, i, is_record_of, row->event);
            if (from >= 0)
                precede(graph, (size_t)from, i);
            else
                result->unrecorded++;
        }
        if (row->op == SIM_PLAN_HOST_WAIT)
            host = (int64_t)i;
    }
}

static uint64_t place_in(const Graph *graph, uint32_t group)
{
    uint32_t list, place = 0, members;
    if (group == SIM_PLAN_NONE)
        group = sim_plan_find_group(graph->plan, "shard");
    if (group == SIM_PLAN_NONE ||
        !sim_plan_group_of_rank(graph->plan, group, graph->rank, &list, &place, &members))
        return 0;
    return place;
}

static void list_accesses(Graph *graph, BruteForce *result)
{
    size_t buffers = sim_plan_buffer_count(graph->plan);
    graph->born = g_new(int64_t, buffers + 1);
    graph->died = g_new(int64_t, buffers + 1);
    for (size_t b = 0; b < buffers; b++)
        graph->born[b] = graph->died[b] = -1;
    for (size_t i = 0; i < graph->n; i++) {
        const SimInstruction *row = sim_plan_instruction(graph->plan, i);
        if (row->op == SIM_PLAN_ALLOC)
            graph->born[row->buffer] = (int64_t)i;
        if (row->op == SIM_PLAN_FREE || row->op == SIM_PLAN_RECORD_STREAM) {
            result->dead += graph->born[row->buffer] < 0 || graph->died[row->buffer] >= 0;
            if (row->op == SIM_PLAN_FREE)
                graph->died[row->buffer] = (int64_t)i;
        }
        if (row->op != SIM_PLAN_KERNEL && row->op != SIM_PLAN_COPY &&
            row->op != SIM_PLAN_COLLECTIVE)
            continue;
        for (uint32_t t = 0; t < (uint32_t)row->n_reads + row->n_writes; t++) {
            SimTouch touch = sim_plan_touches(graph->plan, row)[t];
            uint64_t begin =
                touch.times_rank ? touch.offset * place_in(graph, row->group) : touch.offset;
            uint64_t size = sim_plan_buffer(graph->plan, touch.buffer)->bytes;
            Access access = {.row = (uint32_t)i,
                             .buffer = touch.buffer,
                             .begin = begin,
                             .end = touch.bytes == 0 ? size : begin + touch.bytes,
                             .is_write = t >= row->n_reads};
            if (graph->born[touch.buffer] < 0 || graph->died[touch.buffer] >= 0)
                result->dead++;
            else
                g_array_append_val(graph->accesses, access);
        }
    }
}

static const Access *access_at(const Graph *graph, guint i)
{
    return &g_array_index(graph->accesses, Access, i);
}

static void check_races(const Graph *graph, BruteForce *result)
{
    for (guint j = 0; j < graph->accesses->len; j++) {
        const Access *b = access_at(graph, j);
        for (guint i = 0; i < j; i++) {
            const Access *a = access_at(graph, i);
            if (a->buffer == b->buffer && (a->is_write || b->is_write) && a->begin < b->end &&
                b->begin < a->end && !is_over(graph, a->row, b->row))
                result->races++;
        }
    }
}

/* record_stream: the block comes back when its streams have done what they had been given at the
 * free, so ACCESS is covered if the last of those rows comes after it. */
static bool is_covered(const Graph *graph, const Access *access)
{
    int64_t died = graph->died[access->buffer];
    uint32_t pool = sim_plan_buffer(graph->plan, access->buffer)->stream;
    for (int64_t i = 0; i < died; i++) {
        const SimInstruction *row = sim_plan_instruction(graph->plan, (size_t)i);
        if (row->op != SIM_PLAN_RECORD_STREAM || row->buffer != access->buffer ||
            row->stream == pool)
            continue;
        int64_t last = find_back(graph, (size_t)died, is_of_stream, row->stream);
        if (last >= 0 && is_over(graph, access->row, (uint32_t)last))
            return true;
    }
    return false;
}

static void check_reuse(const Graph *graph, BruteForce *result)
{
    for (guint i = 0; i < graph->accesses->len; i++) {
        const Access *a = access_at(graph, i);
        uint32_t pool = sim_plan_buffer(graph->plan, a->buffer)->stream;
        if (graph->died[a->buffer] < 0 || is_covered(graph, a))
            continue;
        for (guint j = i + 1; j < graph->accesses->len; j++) {
            const Access *b = access_at(graph, j);
            if (sim_plan_buffer(graph->plan, b->buffer)->stream == pool &&
                graph->born[b->buffer] > graph->died[a->buffer] && !is_over(graph, a->row, b->row))
                result->reuses++;
        }
    }
}

static void check_written(const Graph *graph, BruteForce *result)
{
    for (guint j = 0; j < graph->accesses->len; j++) {
        const Access *b = access_at(graph, j);
        /* Cover from the left by whatever earlier write goes furthest. */
        uint64_t reached = b->begin;
        bool has_moved = !b->is_write;
        while (has_moved && reached < b->end) {
            has_moved = false;
            for (guint i = 0; i < j; i++) {
                const Access *a = access_at(graph, i);
                if (a->is_write && a->buffer == b->buffer && a->row < b->row &&
                    a->begin <= reached && a->end > reached) {
                    reached = a->end;
                    has_moved = true;
                }
            }
        }
        result->unwritten += !b->is_write && reached < b->end;
    }
}

static void check_updates(const Graph *graph, BruteForce *result)
{
    for (guint j = 0; j < graph->accesses->len; j++) {
        const Access *b = access_at(graph, j);
        const SimInstruction *later = sim_plan_instruction(graph->plan, b->row);
        if (!b->is_write || later->phase != SIM_PHASE_OPTIMIZER ||
            sim_plan_buffer(graph->plan, b->buffer)->category != SIM_CATEGORY_PARAMETER_SHARD)
            continue;
        for (guint i = 0; i < j; i++) {
            const Access *a = access_at(graph, i);
            const SimInstruction *earlier = sim_plan_instruction(graph->plan, a->row);
            result->twice += a->is_write && a->buffer == b->buffer && a->row != b->row &&
                             earlier->phase == SIM_PHASE_OPTIMIZER &&
                             earlier->step == later->step &&
                             earlier->operator_name == later->operator_name;
        }
    }
}

static bool is_alive_at(const Graph *graph, size_t buffer, int64_t row)
{
    return graph->born[buffer] >= 0 && graph->born[buffer] < row &&
           (graph->died[buffer] < 0 || graph->died[buffer] >= row);
}

static void check_held(const Graph *graph, BruteForce *result)
{
    size_t buffers = sim_plan_buffer_count(graph->plan);
    uint8_t phase = SIM_PHASE_NONE;
    int32_t step = -1;
    uint64_t last_bytes = 0, n_ends = 0;
    for (size_t i = 0; i <= graph->n; i++) {
        const SimInstruction *row = i < graph->n ? sim_plan_instruction(graph->plan, i) : NULL;
        bool is_end = row == NULL || row->step > step;
        /* A free that comes early or late keeps its phase's name, and neither begins nor ends it.
         */
        bool has_phase = row != NULL && row->op != SIM_PLAN_FREE && row->phase != SIM_PHASE_NONE;
        bool is_after =
            phase == SIM_PHASE_BACKWARD &&
            (is_end ||
             (has_phase && (row->phase == SIM_PHASE_OPTIMIZER || row->phase == SIM_PHASE_CLIP)));
        uint64_t inputs = 0, bytes = 0;
        for (size_t b = 0; b < buffers; b++) {
            const SimBuffer *buffer = sim_plan_buffer(graph->plan, (uint32_t)b);
            if (!is_alive_at(graph, b, (int64_t)i))
                continue;
            bytes += buffer->bytes;
            inputs += buffer->category == SIM_CATEGORY_REDUCE_SCATTER_INPUT;
            result->held += is_after && (buffer->category == SIM_CATEGORY_ALL_GATHER_OUTPUT ||
                                         buffer->category == SIM_CATEGORY_UNSHARDED_PARAMETER ||
                                         buffer->category == SIM_CATEGORY_REDUCE_SCATTER_INPUT);
        }
        result->many += inputs > 2;
        if (is_end && step >= 0) {
            if (++n_ends > 2 && bytes > last_bytes)
                result->bytes_more += bytes - last_bytes;
            last_bytes = bytes;
        }
        if (row == NULL)
            break;
        if (has_phase)
            phase = row->phase;
        step = MAX(step, row->step);
    }
}

void brute_force_run(const SimPlan *plan, uint32_t rank, BruteForce *result)
{
    Graph graph = {.plan = plan, .rank = rank, .n = sim_plan_length(plan)};
    memset(result, 0, sizeof *result);
    graph.words = (graph.n + 63) / 64;
    graph.before = g_new0(uint64_t, graph.n * graph.words + 1);
    graph.accesses = g_array_new(FALSE, FALSE, sizeof(Access));
    link_rows(&graph, result);
    list_accesses(&graph, result);
    check_races(&graph, result);
    check_reuse(&graph, result);
    check_written(&graph, result);
    check_updates(&graph, result);
    check_held(&graph, result);
    g_free(graph.before);
    g_free(graph.born);
    g_free(graph.died);
    g_array_unref(graph.accesses);
}

bool brute_force_is_safe(const BruteForce *r)
{
    return r->races + r->reuses + r->dead + r->unwritten + r->unrecorded + r->twice + r->held +
               r->many + r->bytes_more ==
           0;
}
