/* SPDX-License-Identifier: Apache-2.0 */
#include "report/figure_workflow.h"

#include "report/svg.h"
#include "report/unit_table.h"
#include "report/weights_held.h"

#define WIDTH 1400.0
#define LEFT 92.0
#define RIGHT 16.0
#define ROW 92.0 /* forward, and backward below it */
#define RANK (2 * ROW + 30)
#define BOX 62.0
#define TOP 108.0
#define HELD 190.0 /* height of the chart of bytes held */

typedef struct Chart {
    SimSvg svg;
    const SimPlan *plan;
    int32_t step;
    SimUnitLine first, last; /* the units that are shown, in forward order */
    guint between;           /* units that are not */
    double cell;             /* width of a box with the gap after it */
} Chart;

/* The last step of the plan; -1 if its rows have none. */
static int32_t find_last_step(const SimPlan *plan)
{
    int32_t step = -1;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        step = MAX(step, sim_plan_instruction(plan, i)->step);
    }
    return step;
}

/* --- boxes -------------------------------------------------------------------------------------
 */

/* One box at column COLUMN of the row at Y. */
static void draw_box(Chart *chart, double column, double y, const char *class_names,
                     const char *head, const char *below, uint64_t bytes)
{
    SimSvgBox box = {LEFT + column * chart->cell, y, chart->cell - 10, BOX};
    double middle = box.x + box.width / 2;
    g_autofree char *size = bytes > 0 ? sim_units_print_bytes(bytes) : NULL;
    g_autofree char *hint =
        g_strdup_printf("%s %s: %" G_GUINT64_FORMAT " bytes", head, below, bytes);
    sim_svg_rounded(&chart->svg, box, 6, class_names, bytes > 0 ? hint : NULL);
    bool is_outline = g_str_equal(class_names, "outline");
    const char *ink = is_outline || g_str_equal(class_names, "c7 soft") ? "small" : "small dark";
    g_autofree char *strong = g_strdup_printf("%s strong", ink);
    sim_svg_text(&chart->svg, middle, y + (size != NULL ? 19 : 27), "middle", strong, head);
    sim_svg_text(&chart->svg, middle, y + (size != NULL ? 35 : 43), "middle", ink, below);
    if (size != NULL) {
        sim_svg_text(&chart->svg, middle, y + 52, "middle", ink, size);
    }
}

static void draw_joint(Chart *chart, double column, double y)
{
    double x = LEFT + column * chart->cell;
    sim_svg_arrow(&chart->svg, x - 10, y + BOX / 2, x - 1, y + BOX / 2);
}

static void draw_dots(Chart *chart, double column, double y)
{
    double x = LEFT + column * chart->cell + 8;
    for (int i = 0; i < 3; i++) {
        sim_svg_circle(&chart->svg, x + 12.0 * i, y + BOX / 2, 2.5, "head", NULL);
    }
}

static void draw_freeing(Chart *chart, double column, double y, uint64_t bytes)
{
    if (bytes > 0) {
        draw_box(chart, column, y, "outline", "free", "full weights", bytes);
    } else {
        draw_box(chart, column, y, "c7 soft", "keep", "full weights", 0);
    }
}

/* Gather, forward, free: three columns from COLUMN. */
static double draw_forward(Chart *chart, double column, double y, const SimUnitLine *line)
{
    draw_joint(chart, column, y);
    draw_box(chart, column, y, "c1", "all-gather", "weights", line->forward_gather_bytes);
    draw_joint(chart, column + 1, y);
    draw_box(chart, column + 1, y, "c5", "forward", "local batch", 0);
    draw_joint(chart, column + 2, y);
    draw_freeing(chart, column + 2, y, line->forward_free_bytes);
    return column + 3;
}

/* Gather (unless the weights are still there), backward, reduce-scatter, free. */
static double draw_backward(Chart *chart, double column, double y, const SimUnitLine *line)
{
    uint64_t reduced = line->reduce_bytes + line->all_reduce_bytes;
    draw_joint(chart, column, y);
    if (line->backward_gather_bytes > 0) {
        draw_box(chart, column, y, "c1", "all-gather", "weights", line->backward_gather_bytes);
    } else {
        draw_box(chart, column, y, "c7 soft", "weights", "still there", 0);
    }
    draw_joint(chart, column + 1, y);
    draw_box(chart, column + 1, y, "c5", "backward", "local batch", 0);
    draw_joint(chart, column + 2, y);
    draw_box(chart, column + 2, y, "c2", line->reduce_bytes > 0 ? "reduce-scatter" : "all-reduce",
             "gradients", reduced);
    draw_joint(chart, column + 3, y);
    draw_freeing(chart, column + 3, y, line->backward_free_bytes);
    return column + 4;
}

static void draw_brace(Chart *chart, double from, double to, double y, const char *what,
                       const SimUnitLine *line)
{
    double x1 = LEFT + from * chart->cell, x2 = LEFT + to * chart->cell - 10;
    sim_svg_line(&chart->svg, x1, y - 7, x2, y - 7, "axis");
    sim_svg_textf(&chart->svg, (x1 + x2) / 2, y - 12, "middle", "small", "%s of %s", what,
                  sim_plan_string(chart->plan, line->unit));
}

/* A gap where units are left out. */
static double skip_units(Chart *chart, double column, double y)
{
    if (chart->between > 0) {
        draw_dots(chart, column, y);
        return column + 0.5;
    }
    return column;
}

static void draw_forward_row(Chart *chart, double y)
{
    draw_box(chart, 0, y, "c0 soft", "shard", "always there", chart->first.shard_bytes);
    draw_brace(chart, 1, 4, y, "forward", &chart->first);
    double column = draw_forward(chart, 1, y, &chart->first);
    if (chart->first.unit != chart->last.unit) {
        column = skip_units(chart, column, y);
        draw_brace(chart, column, column + 3, y, "forward", &chart->last);
        draw_forward(chart, column, y, &chart->last);
    }
}

static void draw_backward_row(Chart *chart, double y)
{
    double column = 0;
    if (chart->first.unit != chart->last.unit) {
        draw_brace(chart, 0, 4, y, "backward", &chart->last);
        column = skip_units(chart, draw_backward(chart, 0, y, &chart->last), y);
    }
    draw_brace(chart, column, column + 4, y, "backward", &chart->first);
    column = draw_backward(chart, column, y, &chart->first);
    draw_joint(chart, column, y);
    draw_box(chart, column, y, "c4", "update", "its own shard", chart->first.shard_bytes);
}

static void draw_rank(Chart *chart, uint32_t rank, double y)
{
    sim_svg_textf(&chart->svg, LEFT - 14, y + ROW - 10, "end", "strong", "rank %u", rank);
    draw_forward_row(chart, y);
    draw_backward_row(chart, y + ROW);
}

/* --- bytes held --------------------------------------------------------------------------------
 */

static void draw_held(Chart *chart, double top)
{
    g_autoptr(GArray) samples = sim_weights_held_compute(chart->plan, 0, chart->step, 700);
    uint64_t most = 1, least_shard = UINT64_MAX;
    double bottom = top + HELD - 34, height = HELD - 64, width = WIDTH - LEFT - RIGHT - 10;
    for (guint i = 0; i < samples->len; i++) {
        const SimWeightsHeld *held = &g_array_index(samples, SimWeightsHeld, i);
        most = MAX(most, held->shard_bytes + held->full_bytes);
        least_shard = MIN(least_shard, held->shard_bytes);
    }
    for (int full = 1; full >= 0 && samples->len > 0; full--) {
        sim_svg_begin_path(&chart->svg, LEFT, bottom);
        for (guint i = 0; i < samples->len; i++) {
            const SimWeightsHeld *held = &g_array_index(samples, SimWeightsHeld, i);
            uint64_t bytes = held->shard_bytes + (full ? held->full_bytes : 0);
            double x = LEFT + width * i / samples->len;
            double y = bottom - height * (double)bytes / (double)most;
            sim_svg_path_to(&chart->svg, x, y);
            sim_svg_path_to(&chart->svg, x + width / samples->len, y);
        }
        sim_svg_path_to(&chart->svg, LEFT + width, bottom);
        sim_svg_end_path(&chart->svg, true, full ? "c1" : "c0",
                         full ? "full weights, only while their unit computes"
                              : "the shard, never freed");
    }
    g_autofree char *shard = sim_units_print_bytes(samples->len > 0 ? least_shard : 0);
    g_autofree char *all = sim_units_print_bytes(most);
    sim_svg_line(&chart->svg, LEFT, bottom, LEFT + width, bottom, "axis");
    sim_svg_text(&chart->svg, LEFT, top + 6, "start", "strong",
                 "Bytes of weights that rank 0 really holds during the step");
    sim_svg_rounded(&chart->svg, (SimSvgBox){LEFT, bottom + 12, 12, 12}, 2, "c0", NULL);
    sim_svg_textf(&chart->svg, LEFT + 18, bottom + 22, "start", "small",
                  "the shard, never freed: %s; every all-gather sends from it", shard);
    sim_svg_rounded(&chart->svg, (SimSvgBox){LEFT + 520, bottom + 12, 12, 12}, 2, "c1", NULL);
    sim_svg_textf(
        &chart->svg, LEFT + 538, bottom + 22, "start", "small",
        "full weights and gather buffers, freed layer by layer (with the shard at most %s)", all);
}

/* --- all ---------------------------------------------------------------------------------------
 */

/* The first and last unit with a name like a block's, or the first and last of all. */
static void choose_units(Chart *chart, const GArray *lines)
{
    guint first = 0, last = lines->len - 1;
    /* What most units look like says more than embedding and head. */
    if (lines->len >= 4) {
        first++;
        last--;
    }
    chart->first = g_array_index(lines, SimUnitLine, first);
    chart->last = g_array_index(lines, SimUnitLine, last);
    chart->between = last - first > 1 ? last - first - 1 : 0;
}

static char *draw_nothing(void)
{
    SimSvg svg;
    sim_svg_init(&svg, "workflow", 640, 60, "No unit gathers weights",
                 "This plan shards no parameters, so there is nothing to gather or free.");
    sim_svg_text(&svg, 20, 36, "start", "strong",
                 "This plan has no units with parameters: nothing to gather or free");
    return sim_svg_finish(&svg);
}

char *sim_figure_workflow_draw(const SimPlan *plan)
{
    Chart chart = {.plan = plan, .step = find_last_step(plan)};
    g_autoptr(GArray) lines = sim_unit_table_compute(plan, 0, chart.step);
    if (lines->len == 0) {
        return draw_nothing();
    }
    choose_units(&chart, lines);
    bool has_two = chart.first.unit != chart.last.unit;
    chart.cell = (WIDTH - LEFT - RIGHT) / (has_two ? (chart.between > 0 ? 9.5 : 9.0) : 5.0);
    uint32_t ranks = sim_plan_ranks(plan);
    double height = TOP + RANK * (ranks > 1 ? 2 : 1) + HELD;
    g_autofree char *gathered = sim_units_print_bytes(chart.first.forward_gather_bytes);
    g_autofree char *shard = sim_units_print_bytes(chart.first.shard_bytes);
    g_autofree char *description = g_strdup_printf(
        "For each unit a rank gathers the full weights (%s, %s: %" G_GUINT64_FORMAT
        " bytes), computes and frees them, in backward once more; its own shard (%s) stays.",
        sim_plan_string(plan, chart.first.unit), gathered, chart.first.forward_gather_bytes, shard);
    sim_svg_init(&chart.svg, "workflow", WIDTH, height, "What FSDP does in a step", description);
    sim_svg_textf(&chart.svg, LEFT, 26, "start", "big", "What FSDP does in a step");
    sim_svg_textf(&chart.svg, LEFT, 48, "start", "dim",
                  "%u ranks, %u units; two of them shown. Freed means everything but the shard: "
                  "backward gathers once more from the shards.",
                  ranks, lines->len);
    draw_rank(&chart, 0, TOP);
    if (ranks > 1) {
        draw_rank(&chart, ranks - 1, TOP + RANK);
    }
    draw_held(&chart, TOP + RANK * (ranks > 1 ? 2 : 1) - 8);
    return sim_svg_finish(&chart.svg);
}
