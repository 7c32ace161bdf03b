/* SPDX-License-Identifier: Apache-2.0 */
#include "check/counterexample.h"

#include <string.h>

#include "check/clocks.h"
#include "check/rank_view.h"
#include "trace/recorder.h"
#include "trace/timeline_csv.h"

#define NO_ROW UINT32_MAX
#define TOLD 5 /* rows in between that are told: with the rest at most 10 lines */

struct SimCounterexample {
    SimRecorder *recorder;
    GPtrArray *lines;
};

static SimCounterexample *new_empty(const SimPlan *plan)
{
    SimCounterexample *counterexample = g_new0(SimCounterexample, 1);
    counterexample->recorder = sim_recorder_new(plan);
    counterexample->lines = g_ptr_array_new_with_free_func(g_free);
    return counterexample;
}

void sim_counterexample_free(SimCounterexample *counterexample)
{
    if (counterexample == NULL)
        return;
    sim_recorder_free(counterexample->recorder);
    g_ptr_array_unref(counterexample->lines);
    g_free(counterexample);
}

G_GNUC_PRINTF(2, 3)
static void tell(SimCounterexample *counterexample, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_ptr_array_add(counterexample->lines, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

/* --- pairs --------------------------------------------------------------------------------------
 */

/* Plays ROW into CLOCKS. */
static void play(SimClocks *clocks, const SimRankView *view, const SimInstruction *row,
                 uint32_t index, SimEpoch *epoch)
{
    uint32_t lane = sim_rank_view_lane(view, row);
    *epoch = (SimEpoch){.lane = SIM_CLOCKS_NO_LANE};
    if (lane != SIM_CLOCKS_NO_LANE)
        *epoch = sim_clocks_launch(clocks, lane, index);
    if (row->op == SIM_PLAN_RECORD)
        sim_clocks_record(clocks, sim_rank_view_lane_of_stream(view, row->stream), row->event);
    if (row->op != SIM_PLAN_WAIT && row->op != SIM_PLAN_HOST_WAIT)
        return;
    uint32_t waiting = row->op == SIM_PLAN_HOST_WAIT
                           ? SIM_CLOCKS_HOST
                           : sim_rank_view_lane_of_stream(view, row->stream);
    if (row->is_event_of_stream)
        sim_clocks_wait_lane(clocks, waiting, sim_rank_view_lane_of_stream(view, row->event));
    else
        sim_clocks_wait(clocks, waiting, row->event);
}

/* The rows strictly between EARLIER and LATER that must precede LATER, as epochs. */
static GArray *find_past(const SimRankView *view, uint32_t earlier, uint32_t later)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    g_autoptr(SimClocks) clocks =
        sim_clocks_new(sim_rank_view_lanes(view), sim_plan_event_count(plan));
    g_autoptr(GArray) between = g_array_new(FALSE, FALSE, sizeof(SimEpoch));
    for (uint32_t i = 0; i < later; i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        SimEpoch epoch;
        if (!sim_rank_view_has(view, row))
            continue;
        play(clocks, view, row, i, &epoch);
        if (i > earlier && epoch.lane != SIM_CLOCKS_NO_LANE)
            g_array_append_val(between, epoch);
    }
    uint32_t lane = sim_rank_view_lane(view, sim_plan_instruction(plan, later));
    GArray *past = g_array_new(FALSE, FALSE, sizeof(SimEpoch));
    for (guint i = 0; i < between->len; i++) {
        SimEpoch epoch = g_array_index(between, SimEpoch, i);
        if (sim_clocks_is_before(clocks, epoch, lane))
            g_array_append_val(past, epoch);
    }
    return past;
}

static void add_span(SimTrack *track, uint32_t row, uint32_t lane, SimTime start, SimTime end)
{
    SimSpan span = {.instruction = row,
                    .stream = lane == SIM_CLOCKS_HOST ? SIM_PLAN_NONE : lane - 1,
                    .arrival = start,
                    .start = start,
                    .end = end};
    g_array_append_val(track->spans, span);
}

static void tell_row(SimCounterexample *counterexample, const SimRankView *view, uint32_t row,
                     const char *when, const char *what)
{
    g_autofree char *text = sim_rank_view_describe(view, row);
    tell(counterexample, "  %-12s row %u: %s%s", when, row + 1, text, what);
}

static void play_pair(SimCounterexample *counterexample, const SimRankView *view,
                      const SimFinding *finding, uint32_t earlier, uint32_t later)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    g_autoptr(GArray) past = find_past(view, earlier, later);
    SimTrack *track = sim_recorder_add(counterexample->recorder, sim_rank_view_rank(view));
    SimTime end = ((SimTime)past->len + 2) * SIM_MICROSECOND;
    add_span(track, earlier, sim_rank_view_lane(view, sim_plan_instruction(plan, earlier)), 0, end);
    tell(counterexample, "How it goes wrong on rank %u (all rows before row %u are over):",
         sim_rank_view_rank(view), earlier + 1);
    g_autofree char *whole = g_strdup_printf("0-%u us", past->len + 2);
    tell_row(counterexample, view, earlier, whole, " takes its time");
    guint hidden = past->len > TOLD ? past->len - TOLD : 0;
    if (hidden > 0)
        tell(counterexample, "  %-12s %u rows that must come first", "", hidden);
    for (guint i = 0; i <= past->len; i++) {
        uint32_t row = i < past->len ? g_array_index(past, SimEpoch, i).row : later;
        SimTime start = (SimTime)i * SIM_MICROSECOND;
        add_span(track, row, sim_rank_view_lane(view, sim_plan_instruction(plan, row)), start,
                 start + SIM_MICROSECOND);
        g_autofree char *when = g_strdup_printf("%u-%u us", i, i + 1);
        if (i >= hidden && i < past->len)
            tell_row(counterexample, view, row, when, "");
        else if (i == past->len)
            tell_row(counterexample, view, row, when,
                     finding->free_row != NO_ROW ? " gets the same memory, too early"
                                                 : " touches the same bytes, too early");
    }
    if (finding->remedy != NULL)
        tell(counterexample, "Repair: %s.", finding->remedy);
    sim_recorder_sort(track);
}

/* --- hangs --------------------------------------------------------------------------------------
 */

static gint compare_ranks(gconstpointer a, gconstpointer b)
{
    const SimFindingPlace *x = *(const SimFindingPlace *const *)a;
    const SimFindingPlace *y = *(const SimFindingPlace *const *)b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Each place of the circle as a span without progress; those of other plans are told only. */
static void play_hang(SimCounterexample *counterexample, const SimPlan *plan,
                      const SimFinding *finding)
{
    g_autoptr(GPtrArray) places = g_ptr_array_new();
    for (uint32_t i = 0; i < finding->n_places; i++)
        g_ptr_array_add(places, (gpointer)&finding->places[i]);
    g_ptr_array_sort(places, compare_ranks);
    tell(counterexample, "Where each stands, and stays:");
    SimTrack *track = NULL;
    for (guint i = 0; i < places->len; i++) {
        const SimFindingPlace *place = g_ptr_array_index(places, i);
        tell(counterexample, "  rank %u, row %u: %s", place->rank, place->row + 1, place->text);
        if (place->source != finding->places[0].source || place->row >= sim_plan_length(plan))
            continue;
        if (track == NULL || track->rank != place->rank)
            track = sim_recorder_add(counterexample->recorder, place->rank);
        const SimInstruction *row = sim_plan_instruction(plan, place->row);
        g_autoptr(SimRankView) view = sim_rank_view_new(plan, place->source, place->rank);
        uint32_t lane = row->op == SIM_PLAN_HOST_WAIT
                            ? SIM_CLOCKS_HOST
                            : sim_rank_view_lane_of_stream(view, row->stream);
        if (row->op == SIM_PLAN_COLLECTIVE || row->op == SIM_PLAN_HOST_WAIT)
            add_span(track, place->row, lane, 0, SIM_MICROSECOND);
        sim_recorder_sort(track);
    }
    tell(counterexample, "Nobody moves: the job hangs until its timeout.");
}

SimCounterexample *sim_counterexample_new(const SimPlan *plan, const SimFinding *finding)
{
    bool is_hang = finding->rule == SIM_RULE_DEADLOCK || finding->rule == SIM_RULE_SAME_SEQUENCE;
    bool is_pair = finding->first_stream != NULL && finding->n_places >= 2;
    if (!is_hang && !is_pair)
        return NULL;
    SimCounterexample *counterexample = new_empty(plan);
    if (is_hang) {
        play_hang(counterexample, plan, finding);
        return counterexample;
    }
    g_autoptr(SimRankView) view =
        sim_rank_view_new(plan, finding->places[0].source, finding->places[0].rank);
    play_pair(counterexample, view, finding, finding->places[0].row, finding->places[1].row);
    return counterexample;
}

void sim_counterexample_save(const SimCounterexample *counterexample, SimOutputFile *file)
{
    sim_timeline_csv_save(counterexample->recorder, file);
}

char *sim_counterexample_print(const SimCounterexample *counterexample)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < counterexample->lines->len; i++)
        g_string_append_printf(text, "%s\n",
                               (const char *)g_ptr_array_index(counterexample->lines, i));
    return g_string_free(text, FALSE);
}
