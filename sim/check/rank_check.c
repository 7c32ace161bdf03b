/* SPDX-License-Identifier: Apache-2.0 */
#include "check/rank_check.h"

#include "base/error.h"
#include "check/allocator_reuse.h"
#include "check/freshness.h"
#include "check/gradient_flow.h"
#include "check/history.h"
#include "check/pair_report.h"
#include "check/pool_debts.h"

#define NO_ROW UINT32_MAX

typedef struct Life {
    uint32_t born; /* row, NO_ROW = not yet */
    uint32_t died; /* row, NO_ROW = alive */
} Life;

typedef struct Run {
    const SimRankView *view;
    const SimPlan *plan;
    SimFindings *findings;
    SimProof *proof;
    SimClocks *clocks;
    SimHistory *history;
    SimPoolDebts *debts;
    SimFreshness *freshness;
    SimGradientFlow *flow;
    SimBounds *bounds;
    Life *lives;         /* by buffer */
    uint32_t *last_wait; /* by event: the last row that waits for it, NO_ROW = none */
    uint32_t *recorded;  /* by event: the row that records it, NO_ROW = none */
    GArray *spans;       /* of SimByteRange: of the present row */
    uint32_t index;      /* of the present row */
    uint32_t accessed;   /* buffer of the present access */
} Run;

/* --- before the pass ----------------------------------------------------------------------------
 */

/* First and last row that each event lives for; how many live at once must fit. */
static bool find_waits(Run *run, GError **error)
{
    size_t n = sim_plan_event_count(run->plan);
    run->last_wait = g_new(uint32_t, MAX(n, 1));
    run->recorded = g_new(uint32_t, MAX(n, 1));
    for (size_t i = 0; i < n; i++)
        run->last_wait[i] = run->recorded[i] = NO_ROW;
    for (size_t i = 0; i < sim_plan_length(run->plan); i++) {
        const SimInstruction *row = sim_plan_instruction(run->plan, i);
        if (row->event == SIM_PLAN_NONE || row->is_event_of_stream ||
            !sim_rank_view_has(run->view, row))
            continue;
        if (row->op == SIM_PLAN_RECORD)
            run->recorded[row->event] = (uint32_t)i;
        else if (row->op == SIM_PLAN_WAIT || row->op == SIM_PLAN_HOST_WAIT)
            run->last_wait[row->event] = (uint32_t)i;
    }
    uint64_t lanes = sim_rank_view_lanes(run->view), alive = 0, most = 0;
    for (size_t i = 0; i < sim_plan_length(run->plan); i++) {
        const SimInstruction *row = sim_plan_instruction(run->plan, i);
        if (row->event == SIM_PLAN_NONE || row->is_event_of_stream ||
            run->last_wait[row->event] == NO_ROW || !sim_rank_view_has(run->view, row))
            continue;
        if (row->op == SIM_PLAN_RECORD && run->last_wait[row->event] > i)
            alive++;
        else if (run->last_wait[row->event] == i && run->recorded[row->event] < i)
            alive--;
        most = MAX(most, alive);
    }
    if ((most + lanes) * lanes * sizeof(uint32_t) <= SIM_RANK_CHECK_CLOCK_BYTES)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "%" G_GUINT64_FORMAT " events wait at once over %" G_GUINT64_FORMAT
                " streams; the clocks of at most 1 GiB do not hold them",
                most, lanes - 1);
    return false;
}

static void start(Run *run, const SimBoundsLimits *limits)
{
    size_t n = sim_plan_buffer_count(run->plan);
    run->clocks = sim_clocks_new(sim_rank_view_lanes(run->view), sim_plan_event_count(run->plan));
    run->history = sim_history_new(n);
    run->debts = sim_pool_debts_new(sim_plan_stream_count(run->plan), n);
    run->freshness = sim_freshness_new(run->view, run->findings);
    run->flow = sim_gradient_flow_new(run->view, run->findings);
    run->bounds = sim_bounds_new(run->view, run->findings, limits);
    run->lives = g_new(Life, MAX(n, 1));
    for (size_t i = 0; i < n; i++)
        run->lives[i] = (Life){.born = NO_ROW, .died = NO_ROW};
    run->spans = g_array_new(FALSE, FALSE, sizeof(SimByteRange));
}

static void finish(Run *run)
{
    sim_clocks_free(run->clocks);
    sim_history_free(run->history);
    sim_pool_debts_free(run->debts);
    sim_freshness_free(run->freshness);
    sim_gradient_flow_free(run->flow);
    sim_bounds_free(run->bounds);
    g_free(run->lives);
    g_free(run->last_wait);
    g_free(run->recorded);
    g_clear_pointer(&run->spans, g_array_unref);
}

/* --- lives --------------------------------------------------------------------------------------
 */

static bool is_alive(const Run *run, uint32_t root)
{
    return run->lives[root].born != NO_ROW && run->lives[root].died == NO_ROW;
}

/* What is dead of a buffer or view that a row names: its root, or a view that no row has made yet.
 * SIM_PLAN_NONE = nothing. */
static uint32_t find_dead(const Run *run, uint32_t buffer)
{
    uint32_t root = sim_plan_root_buffer(run->plan, buffer);
    if (!is_alive(run, root))
        return root;
    return run->lives[buffer].born == NO_ROW ? buffer : SIM_PLAN_NONE;
}

/* Pinned host memory comes from a pool that keeps a block until the copies that use it are done
 * (CachingHostAllocator records events itself), so it owes nothing. */
static bool has_pool(const SimBuffer *buffer)
{
    return !buffer->is_host && buffer->stream != SIM_PLAN_NONE;
}

static void run_alloc(Run *run, uint32_t buffer)
{
    const SimBuffer *b = sim_plan_buffer(run->plan, buffer);
    if (run->lives[buffer].born != NO_ROW)
        return;
    run->lives[buffer].born = run->index;
    run->proof->buffers++;
    sim_history_start(run->history, buffer, b->bytes);
    if (has_pool(b))
        sim_pool_debts_take(run->debts, b->stream, buffer);
    sim_bounds_alloc(run->bounds, run->index, buffer);
}

/* A view of what is dead is a use of it. */
static void run_view(Run *run, uint32_t view)
{
    run->lives[view].born = run->index;
    uint32_t dead = find_dead(run, view);
    if (dead != SIM_PLAN_NONE)
        sim_pair_report_dead_use(run->view, run->findings, run->index, dead, run->lives[dead].died,
                                 false);
}

static void run_free(Run *run, uint32_t buffer)
{
    const SimBuffer *b = sim_plan_buffer(run->plan, buffer);
    uint32_t root = sim_plan_root_buffer(run->plan, buffer);
    Life *life = &run->lives[root];
    if (!is_alive(run, root)) {
        sim_pair_report_dead_free(run->view, run->findings, run->index, root, life->died);
        return;
    }
    if (root != buffer)
        return;
    life->died = run->index;
    if (has_pool(b))
        sim_pool_debts_give(run->debts, run->clocks, b->stream, buffer, run->index, run->history);
    sim_history_finish(run->history, buffer);
    sim_freshness_forget(run->freshness, buffer);
    sim_gradient_flow_forget(run->flow, buffer);
    sim_bounds_free_buffer(run->bounds, run->index, buffer);
}

static void run_record_stream(Run *run, const SimInstruction *row)
{
    uint32_t root = sim_plan_root_buffer(run->plan, row->buffer);
    uint32_t dead = find_dead(run, row->buffer);
    if (dead != SIM_PLAN_NONE) {
        sim_pair_report_dead_use(run->view, run->findings, run->index, dead, run->lives[dead].died,
                                 false);
        return;
    }
    /* Of the stream whose pool it is, the allocator takes no note. */
    if (row->stream != sim_plan_buffer(run->plan, root)->stream)
        sim_pool_debts_lend(run->debts, root, sim_rank_view_lane_of_stream(run->view, row->stream));
}

/* --- accesses -----------------------------------------------------------------------------------
 */

static void hear_conflict(const SimConflict *conflict, void *user_data)
{
    Run *run = user_data;
    sim_pair_report_race(run->view, run->findings, conflict, run->accessed);
}

static void hear_unpaid(const SimPoolDebt *debt, uint32_t owner, SimEpoch touch, void *user_data)
{
    Run *run = user_data;
    sim_pair_report_reuse(run->view, run->findings, debt, owner, run->lives[owner].born, touch);
}

/* Resolves the row's touches; those of the dead are reported and left out. n_reads and n_writes are
 * those that remain. */
static void resolve(Run *run, const SimInstruction *row, uint32_t *n_reads, uint32_t *n_writes)
{
    const SimTouch *touches = sim_plan_touches(run->plan, row);
    g_array_set_size(run->spans, 0);
    *n_reads = *n_writes = 0;
    for (uint32_t i = 0; i < (uint32_t)row->n_reads + row->n_writes; i++) {
        SimByteRange span = sim_rank_view_resolve(run->view, row, touches[i]);
        bool is_write = i >= row->n_reads;
        uint32_t dead = find_dead(run, touches[i].buffer);
        if (dead != SIM_PLAN_NONE) {
            sim_pair_report_dead_use(run->view, run->findings, run->index, dead,
                                     run->lives[dead].died, is_write);
            continue;
        }
        if (span.is_outside)
            sim_pair_report_outside(run->view, run->findings, run->index, touches[i]);
        g_array_append_val(run->spans, span);
        *(is_write ? n_writes : n_reads) += 1;
    }
}

/* What the data loader and the model's constructor bring needs no row that writes it. */
static bool comes_filled(const Run *run, uint32_t buffer)
{
    uint8_t category = sim_plan_buffer(run->plan, buffer)->category;
    return category == SIM_CATEGORY_INPUT || category == SIM_CATEGORY_BUFFER;
}

static void access_span(Run *run, uint32_t i, bool is_write, SimEpoch epoch)
{
    SimByteRange span = g_array_index(run->spans, SimByteRange, i);
    run->accessed = span.buffer;
    run->proof->accesses++;
    if (is_write) {
        sim_history_write(run->history, run->clocks, span.buffer, span.begin, span.end, epoch,
                          hear_conflict, run);
    } else {
        uint64_t unwritten = sim_history_read(run->history, run->clocks, span.buffer, span.begin,
                                              span.end, epoch, hear_conflict, run);
        if (unwritten > 0 && !comes_filled(run, span.buffer))
            sim_pair_report_unwritten(run->view, run->findings, run->index, span, unwritten);
    }
    sim_pool_debts_touch(run->debts, run->clocks, span.buffer, epoch, hear_unpaid, run);
}

static void run_work(Run *run, const SimInstruction *row, uint32_t lane)
{
    uint32_t n_reads, n_writes;
    resolve(run, row, &n_reads, &n_writes);
    SimEpoch epoch = sim_clocks_launch(run->clocks, lane, run->index);
    for (uint32_t i = 0; i < n_reads + n_writes; i++)
        access_span(run, i, i >= n_reads, epoch);
    const SimByteRange *spans = (const SimByteRange *)(void *)run->spans->data;
    sim_freshness_run(run->freshness, run->index, spans, n_reads, n_writes);
    sim_gradient_flow_run(run->flow, run->index, spans, n_reads, n_writes);
    sim_bounds_run(run->bounds, run->index, spans, n_reads, n_writes);
}

/* --- rows ---------------------------------------------------------------------------------------
 */

static void run_wait(Run *run, const SimInstruction *row, uint32_t lane)
{
    run->proof->waits++;
    if (row->is_event_of_stream) {
        sim_clocks_wait_lane(run->clocks, lane,
                             sim_rank_view_lane_of_stream(run->view, row->event));
        return;
    }
    if (!sim_clocks_wait(run->clocks, lane, row->event))
        sim_pair_report_unrecorded(run->view, run->findings, run->index, run->recorded[row->event]);
    if (run->last_wait[row->event] == run->index)
        sim_clocks_forget(run->clocks, row->event);
}

static void run_row(Run *run, const SimInstruction *row)
{
    uint32_t lane = sim_rank_view_lane(run->view, row);
    sim_bounds_row(run->bounds, run->index);
    if (lane != SIM_CLOCKS_NO_LANE)
        run_work(run, row, lane);
    switch (row->op) {
    case SIM_PLAN_ALLOC:
        run_alloc(run, row->buffer);
        break;
    case SIM_PLAN_VIEW:
        run_view(run, row->buffer);
        break;
    case SIM_PLAN_FREE:
        run_free(run, row->buffer);
        break;
    case SIM_PLAN_RECORD_STREAM:
        run_record_stream(run, row);
        break;
    case SIM_PLAN_COLLECTIVE:
        run->proof->collectives++;
        break;
    case SIM_PLAN_RECORD:
        run->proof->events++;
        if (run->last_wait[row->event] != NO_ROW)
            sim_clocks_record(run->clocks, sim_rank_view_lane_of_stream(run->view, row->stream),
                              row->event);
        break;
    case SIM_PLAN_WAIT:
        run_wait(run, row, sim_rank_view_lane_of_stream(run->view, row->stream));
        break;
    case SIM_PLAN_HOST_WAIT:
        run_wait(run, row, SIM_CLOCKS_HOST);
        break;
    default:
        break;
    }
}

/* Tells each reuse that was found whether PyTorch's allocator would do it. */
static void ask_allocator(Run *run, size_t first_finding)
{
    g_autoptr(GArray) questions = g_array_new(FALSE, FALSE, sizeof(SimReuseQuestion));
    for (size_t i = first_finding; i < sim_findings_count(run->findings); i++) {
        const SimFinding *finding = sim_findings_get(run->findings, i);
        SimReuseQuestion question = {.buffer = finding->buffer_id, .free_row = finding->free_row};
        if (finding->free_row != NO_ROW)
            g_array_append_val(questions, question);
    }
    if (questions->len == 0)
        return;
    sim_allocator_reuse_answer(run->view, (SimReuseQuestion *)(void *)questions->data,
                               questions->len);
    guint next = 0;
    for (size_t i = first_finding; i < sim_findings_count(run->findings); i++) {
        SimFinding *finding = sim_findings_get(run->findings, i);
        if (finding->free_row == NO_ROW)
            continue;
        const SimReuseQuestion *answer = &g_array_index(questions, SimReuseQuestion, next++);
        sim_pair_report_answer(run->view, finding, answer);
    }
}

bool sim_rank_check_run(const SimRankView *view, const SimBoundsLimits *limits,
                        SimFindings *findings, SimProof *proof, GError **error)
{
    Run run = {
        .view = view, .plan = sim_rank_view_plan(view), .findings = findings, .proof = proof};
    size_t first_finding = sim_findings_count(findings);
    bool is_possible = find_waits(&run, error);
    if (is_possible) {
        start(&run, limits);
        for (size_t i = 0; i < sim_plan_length(run.plan); i++) {
            const SimInstruction *row = sim_plan_instruction(run.plan, i);
            if (!sim_rank_view_has(view, row))
                continue;
            run.index = (uint32_t)i;
            proof->rows++;
            run_row(&run, row);
        }
        sim_bounds_finish(run.bounds);
        proof->reuses += sim_pool_debts_checked(run.debts);
        proof->gradients += sim_gradient_flow_judged(run.flow);
        ask_allocator(&run, first_finding);
    }
    finish(&run);
    return is_possible;
}
