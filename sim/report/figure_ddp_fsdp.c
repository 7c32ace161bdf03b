/* SPDX-License-Identifier: Apache-2.0 */
#include "report/figure_ddp_fsdp.h"

#include "predict/communication.h"
#include "report/svg.h"
#include "report/unit_table.h"

#define WIDTH 1240.0
#define LEFT 40.0
#define BOX_HEIGHT 66.0
#define LANE_GAP 20.0

/* One box of a lane: what happens, what it says below. */
typedef struct Box {
    const char *class_names, *head, *below;
    uint64_t bytes;
} Box;

static void draw_lane(SimSvg *svg, double y, const Box *boxes, size_t count, const char *worker)
{
    double left = LEFT + 84, width = (WIDTH - left - LEFT) / (double)count;
    sim_svg_text(svg, left - 14, y + BOX_HEIGHT / 2 + 4, "end", "strong", worker);
    for (size_t i = 0; i < count; i++) {
        SimSvgBox box = {left + width * (double)i, y, width - 18, BOX_HEIGHT};
        double middle = box.x + box.width / 2;
        g_autofree char *size =
            boxes[i].bytes > 0 ? sim_units_print_bytes(boxes[i].bytes) : g_strdup("");
        g_autofree char *hint =
            g_strdup_printf("%s: %" G_GUINT64_FORMAT " bytes", boxes[i].head, boxes[i].bytes);
        if (i > 0) {
            sim_svg_arrow(svg, box.x - 18, y + BOX_HEIGHT / 2, box.x - 1, y + BOX_HEIGHT / 2);
        }
        sim_svg_rounded(svg, box, 6, boxes[i].class_names, boxes[i].bytes > 0 ? hint : NULL);
        bool is_dark = g_str_equal(boxes[i].class_names, "c0");
        const char *ink = is_dark ? "small light" : "small dark";
        sim_svg_text(svg, middle, y + 20, "middle", is_dark ? "strong light" : "strong dark",
                     boxes[i].head);
        sim_svg_text(svg, middle, y + 37, "middle", ink, boxes[i].below);
        sim_svg_text(svg, middle, y + 55, "middle", ink, size);
    }
}

/* Bytes of the unit that most others are like: the one in the middle. */
static SimUnitLine choose_unit(const SimSummary *summary)
{
    int32_t step = MAX(0, summary->has_time ? summary->time.step : 0);
    g_autoptr(GArray) lines = sim_unit_table_compute(summary->plan, 0, step);
    SimUnitLine none = {0};
    return lines->len > 0 ? g_array_index(lines, SimUnitLine, lines->len / 2) : none;
}

/* What DDP keeps whole of the parameters below the module UNIT, which is no unit of its own. */
static uint64_t sum_replica_bytes(const SimPlan *plan, const char *unit)
{
    g_autofree char *prefix = g_strdup_printf("%s.", unit);
    uint64_t sum = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != SIM_PLAN_ALLOC || !sim_plan_rank_set_has(plan, row->rank_set, 0)) {
            continue;
        }
        const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
        if (buffer->category == SIM_CATEGORY_PARAMETER_SHARD &&
            g_str_has_prefix(sim_plan_string(plan, buffer->name.tail), prefix)) {
            sum += buffer->bytes;
        }
    }
    return sum;
}

static uint64_t sum_wire_bytes(const SimSummary *summary)
{
    uint64_t sum = 0;
    for (guint i = 0; i < summary->communication->len; i++) {
        sum += g_array_index(summary->communication, SimCommunicationLine, i).wire_bytes;
    }
    return sum;
}

/* What a whole step costs, below the lanes. */
static void draw_totals(SimSvg *svg, double y, const SimSummary *summary)
{
    if (!summary->has_time) {
        sim_svg_textf(svg, LEFT + 84, y, "start", "",
                      "The whole step: does not fit into the GPU's memory.");
        return;
    }
    g_autofree char *wire = sim_units_print_bytes(sum_wire_bytes(summary));
    g_autofree char *peak = sim_units_print_bytes(summary->memory.peaks.allocated_bytes);
    g_autofree char *time = summary->has_time ? sim_units_print_duration(summary->time.split.step)
                                              : g_strdup("does not end");
    g_autofree char *exposed =
        sim_units_print_duration(summary->has_time ? summary->time.split.exposed_communication : 0);
    sim_svg_textf(
        svg, LEFT + 84, y, "start", "",
        "The whole step: %s, %s of it exposed communication; each rank sends %s; peak %s, %s.",
        time, exposed, wire, peak, summary->memory.fits ? "fits" : "does not fit");
}

static void draw_ddp(SimSvg *svg, double y, const SimSummary *ddp, uint64_t replica)
{
    const Box boxes[] = {
        {"c0", "model replica", "every rank, all of it", replica},
        {"c5", "forward", "local batch", 0},
        {"c5", "backward", "local batch", 0},
        {"c2", "all-reduce", "gradients", replica},
        {"c4", "optimizer", "updates the replica", replica},
    };
    sim_svg_text(svg, LEFT, y, "start", "big", "Data parallel (DDP)");
    draw_lane(svg, y + 16, boxes, G_N_ELEMENTS(boxes), "rank 0");
    draw_lane(svg, y + 16 + BOX_HEIGHT + LANE_GAP, boxes, G_N_ELEMENTS(boxes), "rank 1");
    draw_totals(svg, y + 16 + 2 * BOX_HEIGHT + LANE_GAP + 26, ddp);
}

static void draw_fsdp(SimSvg *svg, double y, const SimSummary *fsdp, const SimUnitLine *unit)
{
    const Box boxes[] = {
        {"c0", "model shard", "its part only", unit->shard_bytes},
        {"c1", "all-gather", "weights", unit->forward_gather_bytes},
        {"c5", "forward", "local batch", 0},
        {"c1", "all-gather", "weights again", unit->backward_gather_bytes},
        {"c5", "backward", "local batch", 0},
        {"c2", "reduce-scatter", "gradients", unit->reduce_bytes},
        {"c4", "optimizer", "updates the shard", unit->shard_bytes},
    };
    sim_svg_text(svg, LEFT, y, "start", "big", "Fully sharded data parallel (FSDP)");
    draw_lane(svg, y + 16, boxes, G_N_ELEMENTS(boxes), "rank 0");
    draw_lane(svg, y + 16 + BOX_HEIGHT + LANE_GAP, boxes, G_N_ELEMENTS(boxes), "rank 1");
    draw_totals(svg, y + 16 + 2 * BOX_HEIGHT + LANE_GAP + 26, fsdp);
}

/* all-reduce = reduce-scatter + all-gather */
static void draw_equation(SimSvg *svg, double y)
{
    static const Box parts[] = {
        {"c2", "all-reduce", "", 0}, {"c2", "reduce-scatter", "", 0}, {"c1", "all-gather", "", 0}};
    static const char *const signs[] = {"", "=", "+"};
    double x = LEFT + 84;
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        if (i > 0) {
            sim_svg_text(svg, x - 18, y + 25, "middle", "big", signs[i]);
        }
        sim_svg_rounded(svg, (SimSvgBox){x, y, 150, 38}, 6, parts[i].class_names, NULL);
        sim_svg_text(svg, x + 75, y + 24, "middle", "strong dark", parts[i].head);
        x += 186;
    }
    sim_svg_text(svg, x, y + 16, "start", "small",
                 "DDP does both at once, after backward, and keeps everything.");
    sim_svg_text(svg, x, y + 33, "start", "small",
                 "FSDP gathers weights where they are needed, twice, and keeps a shard.");
}

char *sim_figure_ddp_fsdp_draw(const SimSummary *ddp, const SimSummary *fsdp)
{
    SimSvg svg;
    SimUnitLine fsdp_unit = choose_unit(fsdp);
    const char *unit = sim_plan_string(fsdp->plan, fsdp_unit.unit);
    uint64_t replica = sum_replica_bytes(ddp->plan, unit);
    double lanes = 16 + 2 * BOX_HEIGHT + LANE_GAP + 26;
    g_autofree char *description = g_strdup_printf(
        "One unit (%s) on %u ranks. DDP all-reduces %" G_GUINT64_FORMAT
        " bytes of gradients; FSDP gathers %" G_GUINT64_FORMAT " bytes of weights twice and "
        "reduce-scatters %" G_GUINT64_FORMAT " bytes of gradients.",
        unit, sim_plan_ranks(fsdp->plan), replica, fsdp_unit.forward_gather_bytes,
        fsdp_unit.reduce_bytes);
    sim_svg_init(&svg, "ddp-fsdp", WIDTH, 2 * lanes + 214, "DDP beside FSDP", description);
    sim_svg_textf(&svg, LEFT, 34, "start", "dim",
                  "One unit, %s, on two of %u ranks; each box says how many bytes.", unit,
                  sim_plan_ranks(fsdp->plan));
    draw_ddp(&svg, 74, ddp, replica);
    draw_fsdp(&svg, 74 + lanes + 46, fsdp, &fsdp_unit);
    draw_equation(&svg, 74 + 2 * lanes + 76);
    return sim_svg_finish(&svg);
}
