/* SPDX-License-Identifier: Apache-2.0 */
#include "report/figure_memory.h"

#include "report/axis.h"
#include "report/memory_series.h"
#include "report/svg.h"

#define WIDTH 1160.0
#define HEIGHT 520.0
#define LEFT 70.0
#define RIGHT 20.0
#define TOP 84.0
#define BOTTOM 66.0
#define MOST_SAMPLES 520

typedef struct Chart {
    SimSvg svg;
    const SimSummary *summary;
    const GArray *samples; /* of SimMemorySample */
    SimTime end;
    double most; /* bytes at the top */
} Chart;

static double x_of(const Chart *chart, SimTime time)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (double)time / (double)MAX(1, chart->end);
}

static double y_of(const Chart *chart, double bytes)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * bytes / chart->most;
}

static const SimMemorySample *sample_at(const Chart *chart, guint index)
{
    return &g_array_index(chart->samples, SimMemorySample, index);
}

/* Below and with SERIES. */
static double bytes_up_to(const SimMemorySample *sample, int series)
{
    uint64_t sum = 0;
    for (int i = 0; i <= series; i++) {
        sum += sample->bytes[i];
    }
    return (double)sum;
}

static void draw_area(Chart *chart, int series)
{
    guint count = chart->samples->len;
    uint64_t most = 0;
    for (guint i = 0; i < count; i++) {
        most = MAX(most, sample_at(chart, i)->bytes[series]);
    }
    if (most == 0) {
        return;
    }
    sim_svg_begin_path(&chart->svg, x_of(chart, sample_at(chart, 0)->time), y_of(chart, 0));
    for (guint i = 0; i < count; i++) {
        sim_svg_path_to(&chart->svg, x_of(chart, sample_at(chart, i)->time),
                        y_of(chart, bytes_up_to(sample_at(chart, i), series)));
    }
    for (guint i = count; i > 0; i--) {
        sim_svg_path_to(&chart->svg, x_of(chart, sample_at(chart, i - 1)->time),
                        y_of(chart, bytes_up_to(sample_at(chart, i - 1), series - 1)));
    }
    g_autofree char *size = sim_units_print_bytes(most);
    g_autofree char *classes =
        g_strdup_printf("%s area edge", sim_memory_series_class((SimSeries)series));
    g_autofree char *hint =
        g_strdup_printf("%s: at most %s", sim_memory_series_name((SimSeries)series), size);
    sim_svg_end_path(&chart->svg, true, classes, hint);
}

static void draw_reserved(Chart *chart)
{
    for (guint i = 0; i < chart->samples->len; i++) {
        const SimMemorySample *sample = sample_at(chart, i);
        double x = x_of(chart, sample->time), y = y_of(chart, (double)sample->reserved_bytes);
        if (i == 0) {
            sim_svg_begin_path(&chart->svg, x, y);
        } else {
            sim_svg_path_to(&chart->svg, x, y);
        }
    }
    sim_svg_end_path(&chart->svg, false, "reserved", NULL);
}

static void draw_limit(Chart *chart, double room)
{
    g_autofree char *size = sim_units_print_bytes((uint64_t)room);
    sim_svg_line(&chart->svg, LEFT, y_of(chart, room), WIDTH - RIGHT, y_of(chart, room), "limit");
    sim_svg_textf(&chart->svg, LEFT + 8, y_of(chart, room) - 6, "start", "small",
                  "room for PyTorch on this GPU: %s", size);
}

static void draw_bytes_axis(Chart *chart)
{
    double step = sim_axis_step(chart->most / (double)SIM_GIB, 6);
    for (double at = 0; at * (double)SIM_GIB <= chart->most; at += step) {
        double y = y_of(chart, at * (double)SIM_GIB);
        sim_svg_line(&chart->svg, LEFT, y, WIDTH - RIGHT, y, "rule");
        g_autofree char *label = sim_axis_print(at, step);
        sim_svg_textf(&chart->svg, LEFT - 8, y + 4, "end", "small dim", "%s GiB", label);
    }
}

/* One label a phase, where it is wide enough, above one a step. */
static void draw_band(Chart *chart, SimTime begin, SimTime end, const char *label, bool is_step)
{
    double x1 = x_of(chart, begin), x2 = x_of(chart, end);
    double y = HEIGHT - BOTTOM + (is_step ? 28 : 10);
    sim_svg_line(&chart->svg, x1 + 1, y - 4, x2 - 1, y - 4, "axis");
    if (x2 - x1 > 7.0 * (double)g_utf8_strlen(label, -1)) {
        sim_svg_text(&chart->svg, (x1 + x2) / 2, y + 10, "middle", is_step ? "small" : "small dim",
                     label);
    }
}

static void draw_bands(Chart *chart, bool is_step)
{
    const SimPlan *plan = chart->summary->plan;
    guint first = 0;
    for (guint i = 1; i <= chart->samples->len; i++) {
        const SimInstruction *row =
            sim_plan_instruction(plan, sample_at(chart, first)->instruction);
        if (i < chart->samples->len) {
            const SimInstruction *next =
                sim_plan_instruction(plan, sample_at(chart, i)->instruction);
            if (next->step == row->step && (is_step || next->phase == row->phase)) {
                continue;
            }
        }
        SimTime end = i < chart->samples->len ? sample_at(chart, i)->time : chart->end;
        g_autofree char *step = row->step < 0 ? g_strdup("before the first step")
                                              : g_strdup_printf("step %d", row->step + 1);
        draw_band(chart, sample_at(chart, first)->time, end,
                  is_step ? step : sim_plan_phase_name((SimPhase)row->phase), is_step);
        first = i;
    }
}

static guint find_peak(const Chart *chart)
{
    guint peak = 0;
    for (guint i = 1; i < chart->samples->len; i++) {
        if (sample_at(chart, i)->allocated_bytes > sample_at(chart, peak)->allocated_bytes) {
            peak = i;
        }
    }
    return peak;
}

static char *describe_sample(const Chart *chart, const SimMemorySample *sample)
{
    GString *text = g_string_new(NULL);
    const SimInstruction *row = sim_plan_instruction(chart->summary->plan, sample->instruction);
    g_autofree char *allocated = sim_units_print_bytes(sample->allocated_bytes);
    const char *unit = sim_plan_string(chart->summary->plan, row->unit);
    if (row->step >= 0) {
        g_string_append_printf(text, "step %d, ", row->step + 1);
    }
    g_string_append_printf(text, "%s%s%s: %s", sim_plan_phase_name((SimPhase)row->phase),
                           unit[0] != '\0' ? ", " : "", unit, allocated);
    for (int i = 0; i < SIM_SERIES_COUNT; i++) {
        if (sample->bytes[i] > 0) {
            g_autofree char *size = sim_units_print_bytes(sample->bytes[i]);
            g_string_append_printf(text, "; %s %s", sim_memory_series_name((SimSeries)i), size);
        }
    }
    return g_string_free(text, FALSE);
}

/* Invisible strips that say what is there, for pointer and keyboard. */
static void draw_hints(Chart *chart)
{
    guint step = MAX(1, chart->samples->len / 130);
    for (guint i = 0; i < chart->samples->len; i += step) {
        guint highest = i;
        for (guint j = i; j < MIN(i + step, chart->samples->len); j++) {
            if (sample_at(chart, j)->allocated_bytes > sample_at(chart, highest)->allocated_bytes) {
                highest = j;
            }
        }
        SimTime end =
            i + step < chart->samples->len ? sample_at(chart, i + step)->time : chart->end;
        double x = x_of(chart, sample_at(chart, i)->time);
        g_autofree char *hint = describe_sample(chart, sample_at(chart, highest));
        sim_svg_rect(&chart->svg,
                     (SimSvgBox){x, TOP, MAX(0.5, x_of(chart, end) - x), HEIGHT - TOP - BOTTOM},
                     "hit", hint);
    }
}

static void draw_peak(Chart *chart)
{
    const SimMemorySample *peak = sample_at(chart, find_peak(chart));
    double x = x_of(chart, peak->time), y = y_of(chart, (double)peak->allocated_bytes);
    g_autofree char *size = sim_units_print_bytes(peak->allocated_bytes);
    g_autofree char *hint = describe_sample(chart, peak);
    bool is_right = x > WIDTH * 0.7;
    sim_svg_circle(&chart->svg, x, y, 5, "mark", hint);
    sim_svg_textf(&chart->svg, x + (is_right ? -10 : 10), y - 8, is_right ? "end" : "start",
                  "strong", "peak %s", size);
}

static void draw_legend(Chart *chart)
{
    double x = LEFT, y = 40;
    for (int i = 0; i < SIM_SERIES_COUNT; i++) {
        uint64_t most = 0;
        for (guint j = 0; j < chart->samples->len; j++) {
            most = MAX(most, sample_at(chart, j)->bytes[i]);
        }
        if (most == 0) {
            continue;
        }
        const char *name = sim_memory_series_name((SimSeries)i);
        double width = 30 + 7.2 * (double)g_utf8_strlen(name, -1);
        if (x + width > WIDTH - RIGHT) {
            x = LEFT;
            y += 20;
        }
        sim_svg_rounded(&chart->svg, (SimSvgBox){x, y - 10, 12, 12}, 2,
                        sim_memory_series_class((SimSeries)i), NULL);
        sim_svg_text(&chart->svg, x + 18, y, "start", "small", name);
        x += width;
    }
    if (x + 190 > WIDTH - RIGHT) {
        x = LEFT;
        y += 20;
    }
    sim_svg_line(&chart->svg, x, y - 4, x + 16, y - 4, "reserved");
    sim_svg_text(&chart->svg, x + 22, y, "start", "small", "reserved by the allocator");
}

char *sim_figure_memory_draw(const SimSummary *summary, const SimTrack *track)
{
    const SimMemorySummary *memory = &summary->memory;
    g_autoptr(GArray) samples = sim_memory_series_compute(summary->plan, track, MOST_SAMPLES);
    uint64_t overhead = memory->context_bytes + memory->communicator_bytes;
    double room = (double)(memory->capacity_bytes - MIN(memory->capacity_bytes, overhead));
    g_autofree char *peak = sim_units_print_bytes(memory->peaks.allocated_bytes);
    g_autofree char *reserved = sim_units_print_bytes(memory->peaks.reserved_bytes);
    g_autofree char *title = g_strdup_printf("Memory of rank %u over time", track->rank);
    g_autofree char *description = g_strdup_printf(
        "Allocated memory stacked by what it is for. It peaks at %s (%" G_GUINT64_FORMAT
        " bytes); the allocator reserves up to %s.",
        peak, memory->peaks.allocated_bytes, reserved);
    Chart chart = {.summary = summary, .samples = samples};
    chart.end = samples->len > 0 ? sample_at(&chart, samples->len - 1)->time : 1;
    chart.most = MAX((double)memory->peaks.reserved_bytes,
                     memory->capacity_bytes < SIM_GIB * 1024 ? room : 0) *
                 1.06;
    sim_svg_init(&chart.svg, "memory", WIDTH, HEIGHT, title, description);
    sim_svg_text(&chart.svg, LEFT, 20, "start", "strong", title);
    draw_legend(&chart);
    draw_bytes_axis(&chart);
    for (int i = 0; samples->len > 0 && i < SIM_SERIES_COUNT; i++) {
        draw_area(&chart, i);
    }
    if (samples->len > 0) {
        draw_reserved(&chart);
        draw_bands(&chart, false);
        draw_bands(&chart, true);
        draw_hints(&chart);
        draw_peak(&chart);
    }
    draw_limit(&chart, room);
    sim_svg_text(&chart.svg, LEFT, HEIGHT - 8, "start", "small dim",
                 "in the time of the host thread, which allocates ahead of the GPU");
    return sim_svg_finish(&chart.svg);
}
