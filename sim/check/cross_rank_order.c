/* SPDX-License-Identifier: Apache-2.0 */
#include "check/cross_rank_order.h"

#define NEVER UINT32_MAX
#define MOST_ROWS (UINT64_C(1) << 30)

typedef struct Search {
    const SimRankSetup *setup;
    uint32_t rank_class, lane, row; /* the earlier row */
    GPtrArray *marks; /* by group: GByteArray, one a collective: 1 = begins after the earlier row */
    uint32_t bound;   /* of the lane that is asked for: rows beyond come after the earlier one */
    bool has_changed;
} Search;

static bool get_mark(const Search *search, const SimSyncCollective *collective)
{
    const GByteArray *marks = g_ptr_array_index(search->marks, collective->group);
    return collective->ordinal < marks->len && marks->data[collective->ordinal] != 0;
}

static void set_mark(Search *search, const SimSyncCollective *collective)
{
    GByteArray *marks = g_ptr_array_index(search->marks, collective->group);
    while (marks->len <= collective->ordinal)
        g_byte_array_append(marks, (const guint8 *)"", 1);
    marks->data[collective->ordinal] = 1;
    search->has_changed = true;
}

static void lower(uint32_t *bounds, uint32_t n_lanes, const SimSyncStep *step)
{
    bounds[step->lane] = MIN(bounds[step->lane], step->row);
    for (uint32_t lane = 0; step->lane == SIM_CLOCKS_HOST && lane < n_lanes; lane++)
        bounds[lane] = MIN(bounds[lane], step->row);
}

/* What of CLASS comes after the earlier row, as far as the marks say: rows beyond BOUNDS[lane]. */
static void sweep(Search *search, uint32_t rank_class, uint32_t *bounds, bool *is_after)
{
    const SimSyncProgram *program = sim_matching_program(search->setup, rank_class);
    for (uint32_t lane = 0; lane < program->n_lanes; lane++)
        bounds[lane] = NEVER;
    if (rank_class == search->rank_class)
        bounds[search->lane] = search->row;
    for (guint i = 0; i < program->steps->len; i++) {
        const SimSyncStep *step = sim_sync_program_step(program, i);
        if (step->op == SIM_SYNC_RECORD) {
            is_after[step->target] = step->row > bounds[step->lane];
        } else if (step->op == SIM_SYNC_WAIT) {
            if (is_after[step->target])
                lower(bounds, program->n_lanes, step);
        } else if (step->op == SIM_SYNC_WAIT_LANE) {
            if (step->row > bounds[step->target])
                lower(bounds, program->n_lanes, step);
        } else {
            const SimSyncCollective *collective =
                sim_sync_program_collective(program, step->target);
            if (collective->kind == SIM_COLLECTIVE_BROADCAST)
                continue;
            if (get_mark(search, collective))
                lower(bounds, program->n_lanes, step);
            else if (step->row > bounds[step->lane])
                set_mark(search, collective);
        }
    }
}

static GPtrArray *new_marks(const SimRankSetup *setup)
{
    GPtrArray *marks = g_ptr_array_new_with_free_func((GDestroyNotify)g_byte_array_unref);
    for (uint32_t group = 0; group < setup->ranks->n_groups; group++)
        g_ptr_array_add(marks, g_byte_array_new());
    return marks;
}

bool sim_cross_rank_order_holds(const SimRankSetup *setup, uint32_t rank_class,
                                uint32_t earlier_lane, uint32_t earlier, uint32_t later_lane,
                                uint32_t later)
{
    g_autoptr(GPtrArray) marks = new_marks(setup);
    Search search = {.setup = setup,
                     .rank_class = rank_class,
                     .lane = earlier_lane,
                     .row = earlier,
                     .marks = marks,
                     .bound = NEVER};
    do {
        search.has_changed = false;
        for (uint32_t c = 0; c < setup->ranks->n_classes; c++) {
            const SimSyncProgram *program = sim_matching_program(setup, c);
            g_autofree uint32_t *bounds = g_new(uint32_t, program->n_lanes);
            g_autofree bool *is_after = g_new0(bool, MAX(program->n_events, 1));
            sweep(&search, c, bounds, is_after);
            if (c == rank_class)
                search.bound = bounds[later_lane];
        }
    } while (search.has_changed && search.bound >= later);
    return later > search.bound;
}

/* The lane of that name; NEVER if there is none. */
static uint32_t find_lane(const SimRankSetup *setup, uint32_t rank_class, const char *name)
{
    const SimSyncProgram *program = sim_matching_program(setup, rank_class);
    for (uint32_t lane = 0; lane < program->n_lanes; lane++)
        if (g_str_equal(sim_strings_get(setup->strings, program->lanes[lane]), name))
            return lane;
    return NEVER;
}

static bool is_ordered(const SimRankSetup *setup, const SimFinding *finding)
{
    if (finding->first_stream == NULL || finding->n_places < 2)
        return false;
    uint32_t rank_class = setup->ranks->class_of[finding->places[0].rank];
    uint32_t first = find_lane(setup, rank_class, finding->first_stream);
    uint32_t second = find_lane(setup, rank_class, finding->second_stream);
    return first != NEVER && second != NEVER &&
           sim_cross_rank_order_holds(setup, rank_class, first, finding->places[0].row, second,
                                      finding->places[1].row);
}

void sim_cross_rank_order_filter(const SimRankSetup *setup, SimFindings *findings)
{
    uint64_t rows = 0;
    for (uint32_t rank_class = 0; rank_class < setup->ranks->n_classes; rank_class++) {
        if (setup->ranks->size_of[rank_class] != 1)
            return;
        rows += sim_matching_program(setup, rank_class)->steps->len;
    }
    if (setup->ranks->n_classes < 2 || rows * sim_findings_count(findings) > MOST_ROWS)
        return;
    for (size_t i = sim_findings_count(findings); i > 0; i--)
        if (sim_findings_get(findings, i - 1)->times == 1 &&
            is_ordered(setup, sim_findings_get(findings, i - 1)))
            sim_findings_remove(findings, i - 1);
}
