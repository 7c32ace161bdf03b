/* SPDX-License-Identifier: Apache-2.0 */
#include "report/figure_timeline.h"

#include "report/axis.h"
#include "report/svg.h"

#define WIDTH 1160.0
#define LEFT 150.0
#define RIGHT 20.0
#define TOP 84.0
#define LANE 44.0
#define BAR 30.0
#define NARROW 0.35 /* pixels: bars closer than that become one */

/* What a bar says by its colour. */
typedef enum Paint {
    PAINT_FORWARD,
    PAINT_BACKWARD,
    PAINT_UPDATE,
    PAINT_HIDDEN,
    PAINT_EXPOSED,
    PAINT_WAITING,
    PAINT_COPY,
    PAINT_COUNT
} Paint;

typedef struct Chart {
    SimSvg svg;
    const SimSummary *summary;
    const SimTrack *track;
    SimTime begin, end;
    GArray *busy; /* of SimSpan: kernels of stream `compute`, in order */
} Chart;

/* Bars of one paint that touch, while they are being put together. */
typedef struct Bar {
    SimTime begin, end;
    int paint; /* -1: none */
    uint32_t count;
    uint32_t first; /* row of the first */
} Bar;

static const char *paint_class(int paint)
{
    static const char *const names[PAINT_COUNT] = {"c5", "c0", "c4", "c3", "c2", "c6", "c7"};
    return names[paint];
}

static const char *paint_name(int paint)
{
    static const char *const names[PAINT_COUNT] = {"forward",
                                                   "backward",
                                                   "optimizer",
                                                   "communication, hidden",
                                                   "communication, exposed",
                                                   "waiting for a rank",
                                                   "copies"};
    return names[paint];
}

static double x_of(const Chart *chart, SimTime time)
{
    double part = (double)(time - chart->begin) / (double)MAX(1, chart->end - chart->begin);
    return LEFT + (WIDTH - LEFT - RIGHT) * CLAMP(part, 0, 1);
}

static double lane_y(uint32_t lane)
{
    return TOP + LANE * lane;
}

static int paint_of(const SimInstruction *row)
{
    if (row->op == SIM_PLAN_COPY) {
        return PAINT_COPY;
    }
    switch ((SimPhase)row->phase) {
    case SIM_PHASE_BACKWARD:
    case SIM_PHASE_RECOMPUTE:
        return PAINT_BACKWARD;
    case SIM_PHASE_CLIP:
    case SIM_PHASE_OPTIMIZER:
    case SIM_PHASE_ZERO_GRAD:
        return PAINT_UPDATE;
    default:
        return PAINT_FORWARD;
    }
}

static void draw_bar(Chart *chart, uint32_t lane, const Bar *bar)
{
    if (bar->paint < 0 || bar->end <= chart->begin || bar->begin >= chart->end) {
        return;
    }
    const SimPlan *plan = chart->summary->plan;
    const SimInstruction *row = sim_plan_instruction(plan, bar->first);
    g_autofree char *time = sim_units_print_duration(bar->end - bar->begin);
    g_autofree char *more =
        bar->count > 1 ? g_strdup_printf(" and %u more", bar->count - 1) : g_strdup("");
    g_autofree char *size = row->op == SIM_PLAN_COLLECTIVE || row->op == SIM_PLAN_COPY
                                ? sim_units_print_bytes(row->bytes)
                                : NULL;
    const char *unit = sim_plan_string(plan, row->unit);
    g_autofree char *hint =
        g_strdup_printf("%s: %s%s%s%s%s%s, %s", paint_name(bar->paint),
                        sim_plan_string(plan, row->name), more, unit[0] != '\0' ? " of " : "", unit,
                        size != NULL ? ", " : "", size != NULL ? size : "", time);
    double x = x_of(chart, bar->begin);
    sim_svg_rect(
        &chart->svg,
        (SimSvgBox){x, lane_y(lane) + (LANE - BAR) / 2, MAX(0.4, x_of(chart, bar->end) - x), BAR},
        paint_class(bar->paint), hint);
}

/* Draws BAR and begins another, unless the new piece continues it. */
static void extend_bar(Chart *chart, uint32_t lane, Bar *bar, SimTime begin, SimTime end, int paint,
                       uint32_t row)
{
    const SimPlan *plan = chart->summary->plan;
    bool is_same = bar->paint == paint && sim_plan_instruction(plan, bar->first)->unit ==
                                              sim_plan_instruction(plan, row)->unit;
    if (is_same && x_of(chart, begin) - x_of(chart, bar->end) < NARROW) {
        bar->end = MAX(bar->end, end);
        bar->count++;
        return;
    }
    draw_bar(chart, lane, bar);
    *bar = (Bar){begin, end, paint, 1, row};
}

/* The parts of [begin, end) in which no kernel of `compute` runs. */
static void draw_exposed(Chart *chart, uint32_t lane, const SimSpan *span)
{
    SimTime at = span->start;
    for (guint i = 0; i < chart->busy->len && at < span->end; i++) {
        const SimSpan *kernel = &g_array_index(chart->busy, SimSpan, i);
        if (kernel->end <= at) {
            continue;
        }
        if (kernel->start > at) {
            Bar bar = {at, MIN(kernel->start, span->end), PAINT_EXPOSED, 1, span->instruction};
            draw_bar(chart, lane, &bar);
        }
        at = kernel->end;
    }
    if (at < span->end) {
        Bar bar = {at, span->end, PAINT_EXPOSED, 1, span->instruction};
        draw_bar(chart, lane, &bar);
    }
}

static void draw_collective(Chart *chart, uint32_t lane, const SimSpan *span)
{
    Bar waiting = {span->arrival, span->start, PAINT_WAITING, 1, span->instruction};
    Bar hidden = {span->start, span->end, PAINT_HIDDEN, 1, span->instruction};
    if (span->arrival < span->start) {
        draw_bar(chart, lane, &waiting);
    }
    draw_bar(chart, lane, &hidden);
    draw_exposed(chart, lane, span);
}

static bool is_in_view(const Chart *chart, const SimSpan *span)
{
    return span->end > chart->begin && span->arrival < chart->end;
}

static bool is_stream_used(const Chart *chart, uint32_t stream)
{
    for (guint i = 0; i < chart->track->spans->len; i++) {
        const SimSpan *span = &g_array_index(chart->track->spans, SimSpan, i);
        if (span->stream == stream && is_in_view(chart, span)) {
            return true;
        }
    }
    return false;
}

static void draw_lane(Chart *chart, uint32_t lane, uint32_t stream)
{
    Bar bar = {.paint = -1};
    sim_svg_rect(&chart->svg, (SimSvgBox){LEFT, lane_y(lane) + 3, WIDTH - LEFT - RIGHT, LANE - 6},
                 "panel", NULL);
    for (guint i = 0; i < chart->track->spans->len; i++) {
        const SimSpan *span = &g_array_index(chart->track->spans, SimSpan, i);
        if (span->stream != stream || !is_in_view(chart, span)) {
            continue;
        }
        const SimInstruction *row = sim_plan_instruction(chart->summary->plan, span->instruction);
        if (row->op == SIM_PLAN_COLLECTIVE) {
            draw_collective(chart, lane, span);
        } else {
            extend_bar(chart, lane, &bar, span->start, span->end, paint_of(row), span->instruction);
        }
    }
    draw_bar(chart, lane, &bar);
}

static uint32_t draw_lanes(Chart *chart)
{
    uint32_t lane = 0;
    for (uint32_t stream = 0; stream < sim_plan_stream_count(chart->summary->plan); stream++) {
        if (is_stream_used(chart, stream)) {
            draw_lane(chart, lane, stream);
            g_autofree char *name = g_strdelimit(
                g_strdup(sim_plan_stream_name(chart->summary->plan, stream)), "_", ' ');
            sim_svg_text(&chart->svg, LEFT - 12, lane_y(lane) + LANE / 2 + 4, "end", "small", name);
            lane++;
        }
    }
    return lane;
}

static void draw_time_axis(Chart *chart, uint32_t lanes)
{
    double ms = (double)(chart->end - chart->begin) / (double)SIM_MILLISECOND;
    double step = sim_axis_step(MAX(ms, 1e-3), 8);
    double bottom = lane_y(lanes) + 4;
    for (double at = 0; at <= ms; at += step) {
        double x = x_of(chart, chart->begin + (SimTime)(at * (double)SIM_MILLISECOND));
        g_autofree char *label = sim_axis_print(at, step);
        sim_svg_line(&chart->svg, x, bottom, x, bottom + 6, "axis");
        sim_svg_textf(&chart->svg, x, bottom + 20, "middle", "small dim", "%s ms", label);
    }
    sim_svg_line(&chart->svg, LEFT, bottom, WIDTH - RIGHT, bottom, "axis");
}

static void draw_legend(Chart *chart)
{
    double x = LEFT;
    for (int paint = 0; paint < PAINT_COUNT; paint++) {
        sim_svg_rounded(&chart->svg, (SimSvgBox){x, 44, 12, 12}, 2, paint_class(paint), NULL);
        sim_svg_text(&chart->svg, x + 18, 54, "start", "small", paint_name(paint));
        x += 34 + 7.0 * (double)g_utf8_strlen(paint_name(paint), -1);
    }
}

static void find_view(Chart *chart)
{
    const SimTimeSummary *time = &chart->summary->time;
    chart->begin = time->begin;
    chart->end = time->end;
    if (!chart->summary->has_time) {
        chart->begin = chart->end = 0;
        for (guint i = 0; i < chart->track->spans->len; i++) {
            chart->end = MAX(chart->end, g_array_index(chart->track->spans, SimSpan, i).end);
        }
    }
    for (guint i = 0; i < chart->track->spans->len; i++) {
        const SimSpan *span = &g_array_index(chart->track->spans, SimSpan, i);
        if (span->stream == 0 && is_in_view(chart, span) &&
            sim_plan_instruction(chart->summary->plan, span->instruction)->op == SIM_PLAN_KERNEL) {
            g_array_append_val(chart->busy, *span);
        }
    }
}

char *sim_figure_timeline_draw(const SimSummary *summary, const SimTrack *track)
{
    g_autoptr(GArray) busy = g_array_new(FALSE, FALSE, sizeof(SimSpan));
    Chart chart = {.summary = summary, .track = track, .busy = busy};
    const SimTimeSplit *split = &summary->time.split;
    uint32_t streams = sim_plan_stream_count(summary->plan);
    find_view(&chart);
    g_autofree char *whole = sim_units_print_duration(chart.end - chart.begin);
    g_autofree char *exposed =
        sim_units_print_duration(summary->has_time ? split->exposed_communication : 0);
    g_autofree char *title =
        summary->has_time && summary->time.step >= 0
            ? g_strdup_printf("Step %d on rank %u: %s, of which %s is exposed communication",
                              summary->time.step + 1, track->rank, whole, exposed)
            : g_strdup_printf("Rank %u: %s", track->rank, whole);
    double height = lane_y(streams) + 40;
    sim_svg_init(&chart.svg, "timeline", WIDTH, height, title,
                 "What each stream of the GPU does during one step; communication that no kernel "
                 "hides has a colour of its own.");
    sim_svg_text(&chart.svg, LEFT, 24, "start", "strong", title);
    draw_legend(&chart);
    draw_time_axis(&chart, MAX(1, draw_lanes(&chart)));
    return sim_svg_finish(&chart.svg);
}
