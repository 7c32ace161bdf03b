/* SPDX-License-Identifier: Apache-2.0 */
#include "check/pair_report.h"

#define NO_ROW UINT32_MAX

static const SimInstruction *row_of(const SimRankView *view, uint32_t row)
{
    return sim_plan_instruction(sim_rank_view_plan(view), row);
}

static uint8_t category_of(const SimRankView *view, uint32_t buffer)
{
    return sim_plan_buffer(sim_rank_view_plan(view), buffer)->category;
}

/* "A:layers.3": without the serial, so that the uses of one buffer are one finding. */
static const char *stem_of(const SimRankView *view, uint32_t buffer)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    return sim_plan_string(plan, sim_plan_buffer(plan, buffer)->name.stem);
}

/* --- which rule ---------------------------------------------------------------------------------
 */

static bool is_collective(const SimInstruction *row, SimCollectiveKind kind)
{
    return row->op == SIM_PLAN_COLLECTIVE && row->collective == kind;
}

static bool is_reduction(const SimInstruction *row)
{
    return is_collective(row, SIM_COLLECTIVE_REDUCE_SCATTER) ||
           is_collective(row, SIM_COLLECTIVE_ALL_REDUCE);
}

static SimRuleId rule_of_gradient(const SimInstruction *earlier, const SimInstruction *later)
{
    if (is_collective(later, SIM_COLLECTIVE_ALL_REDUCE) &&
        !is_collective(earlier, SIM_COLLECTIVE_ALL_REDUCE))
        return SIM_RULE_REDUCED_EVERYWHERE_ONCE;
    if (later->phase == SIM_PHASE_OPTIMIZER || later->phase == SIM_PHASE_CLIP ||
        later->phase == SIM_PHASE_ZERO_GRAD)
        return SIM_RULE_OPTIMIZER_AFTER_REDUCE;
    return is_reduction(earlier) || is_reduction(later) ? SIM_RULE_REDUCED_EVERYWHERE_ONCE
                                                        : SIM_RULE_OPTIMIZER_AFTER_REDUCE;
}

static SimRuleId rule_of_race(const SimRankView *view, const SimConflict *conflict, uint32_t buffer)
{
    const SimInstruction *earlier = row_of(view, conflict->earlier.row);
    const SimInstruction *later = row_of(view, conflict->later.row);
    if (conflict->later.lane == SIM_CLOCKS_HOST || conflict->earlier.lane == SIM_CLOCKS_HOST)
        return SIM_RULE_HOST_GRADIENT;
    switch (category_of(view, buffer)) {
    case SIM_CATEGORY_PARAMETER_SHARD:
        return SIM_RULE_SHARD_FRESH;
    case SIM_CATEGORY_ALL_GATHER_OUTPUT:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
    case SIM_CATEGORY_TEMPORARY:
    case SIM_CATEGORY_LOW_PRECISION_SHARD:
    case SIM_CATEGORY_POST_FORWARD_SHARD:
        if (is_collective(earlier, SIM_COLLECTIVE_ALL_GATHER) && conflict->earlier_writes)
            return SIM_RULE_GATHER_BEFORE_COPY_OUT;
        if (is_collective(later, SIM_COLLECTIVE_ALL_GATHER) ||
            category_of(view, buffer) == SIM_CATEGORY_POST_FORWARD_SHARD)
            return SIM_RULE_COPY_IN_BEFORE_GATHER;
        return SIM_RULE_RACE;
    case SIM_CATEGORY_REDUCE_SCATTER_INPUT:
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_COPY:
        return SIM_RULE_REDUCE_INPUT_COMPLETE;
    case SIM_CATEGORY_BUCKET:
        return is_reduction(later) ? SIM_RULE_REDUCE_INPUT_COMPLETE
                                   : rule_of_gradient(earlier, later);
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT:
    case SIM_CATEGORY_SHARDED_GRADIENT:
    case SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT:
        return rule_of_gradient(earlier, later);
    default:
        return SIM_RULE_RACE;
    }
}

static SimRuleId rule_of_reuse(const SimRankView *view, const SimPoolDebt *debt)
{
    const SimInstruction *last = row_of(view, debt->last.row);
    if (is_collective(last, SIM_COLLECTIVE_ALL_REDUCE))
        return SIM_RULE_ALL_REDUCE_REUSE;
    if (last->op == SIM_PLAN_COPY && last->is_device_to_host)
        return SIM_RULE_OFFLOAD_REUSE;
    switch (category_of(view, debt->buffer)) {
    case SIM_CATEGORY_ALL_GATHER_OUTPUT:
    case SIM_CATEGORY_LOW_PRECISION_SHARD:
        return SIM_RULE_GATHER_REUSE;
    case SIM_CATEGORY_REDUCE_SCATTER_INPUT:
    case SIM_CATEGORY_REDUCE_COPY:
        return SIM_RULE_REDUCE_INPUT_REUSE;
    default:
        return SIM_RULE_CROSS_STREAM_REUSE;
    }
}

static SimRuleId rule_of_dead_use(const SimRankView *view, uint32_t index, uint32_t buffer)
{
    switch (category_of(view, buffer)) {
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
        return SIM_RULE_USED_WHILE_UNSHARDED;
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
        return row_of(view, index)->phase == SIM_PHASE_BACKWARD ? SIM_RULE_GRADIENT_AFTER_CHUNK_CAT
                                                                : SIM_RULE_USE_AFTER_FREE;
    default:
        return SIM_RULE_USE_AFTER_FREE;
    }
}

/* --- pairs --------------------------------------------------------------------------------------
 */

static void put_pair(const SimRankView *view, SimFinding *finding, SimEpoch earlier, SimEpoch later)
{
    finding->places[0] = sim_rank_view_place(view, earlier.row, "earlier");
    finding->places[1] = sim_rank_view_place(view, later.row, "later");
    finding->n_places = 2;
    finding->first_stream = g_strdup(sim_rank_view_lane_name(view, earlier.lane));
    finding->second_stream = g_strdup(sim_rank_view_lane_name(view, later.lane));
    sim_rank_view_situate(view, later.row, finding);
    if (later.lane == SIM_CLOCKS_HOST)
        finding->remedy = g_strdup_printf(
            "record an event on %s after row %u and let the host wait for it before row %u",
            finding->first_stream, earlier.row + 1, later.row + 1);
    else
        finding->remedy = g_strdup_printf(
            "record an event on %s after row %u and let %s wait for it before row "
            "%u",
            finding->first_stream, earlier.row + 1, finding->second_stream, later.row + 1);
}

void sim_pair_report_race(const SimRankView *view, SimFindings *findings,
                          const SimConflict *conflict, uint32_t buffer)
{
    SimFinding finding = {
        .rule = rule_of_race(view, conflict, buffer), .buffer_id = buffer, .free_row = NO_ROW};
    put_pair(view, &finding, conflict->earlier, conflict->later);
    finding.buffer = sim_rank_view_buffer_name(view, buffer);
    finding.message = g_strdup_printf(
        "row %u (%s) %s %s while row %u (%s) may still %s it: nothing orders %s behind %s",
        conflict->later.row + 1, finding.places[1].text,
        conflict->later_writes ? "writes" : "reads", finding.buffer, conflict->earlier.row + 1,
        finding.places[0].text, conflict->earlier_writes ? "write" : "read", finding.second_stream,
        finding.first_stream);
    g_autofree char *key =
        g_strdup_printf("race %s %s %s %s %s", stem_of(view, buffer), finding.first_stream,
                        finding.second_stream, finding.places[0].text, finding.places[1].text);
    sim_findings_add(findings, finding, key);
}

void sim_pair_report_reuse(const SimRankView *view, SimFindings *findings, const SimPoolDebt *debt,
                           uint32_t owner, uint32_t owner_row, SimEpoch touch)
{
    SimFinding finding = {
        .rule = rule_of_reuse(view, debt), .buffer_id = debt->buffer, .free_row = debt->free_row};
    put_pair(view, &finding, debt->last, touch);
    finding.places[2] = sim_rank_view_place(view, debt->free_row, "free");
    finding.places[3] = sim_rank_view_place(view, owner_row, "alloc");
    finding.n_places = 4;
    finding.buffer = sim_rank_view_buffer_name(view, debt->buffer);
    g_autofree char *owner_name = sim_rank_view_buffer_name(view, owner);
    finding.message = g_strdup_printf(
        "%s is freed at row %u while row %u (%s) may still use it; %s, alloc'd at row %u in the "
        "same pool, is touched at row %u (%s) with nothing to order %s behind %s",
        finding.buffer, debt->free_row + 1, debt->last.row + 1, finding.places[0].text, owner_name,
        owner_row + 1, touch.row + 1, finding.places[1].text, finding.second_stream,
        finding.first_stream);
    g_autofree char *key = g_strdup_printf("reuse %s %s %s", stem_of(view, debt->buffer),
                                           finding.first_stream, finding.places[0].text);
    sim_findings_add(findings, finding, key);
}

void sim_pair_report_answer(const SimRankView *view, SimFinding *finding,
                            const SimReuseQuestion *answer)
{
    g_autofree char *old = finding->message;
    if (answer->owner == SIM_PLAN_NONE) {
        finding->message = g_strdup_printf(
            "%s (with these sizes PyTorch's allocator does not hand the block out again in this "
            "plan)",
            old);
        return;
    }
    g_autofree char *name = sim_rank_view_buffer_name(view, answer->owner);
    finding->message = g_strdup_printf("%s (PyTorch's allocator hands the block to %s at row %u)",
                                       old, name, answer->owner_row + 1);
}

/* --- lives --------------------------------------------------------------------------------------
 */

/* What a row's read feeds: the words of the seed's third post. */
static char *describe_dead_read(const SimRankView *view, const SimInstruction *row,
                                const char *buffer)
{
    if (row->op == SIM_PLAN_COLLECTIVE)
        return g_strdup_printf("the send buffer of rank %u, %s, is freed", sim_rank_view_rank(view),
                               buffer);
    const SimPlan *plan = sim_rank_view_plan(view);
    const char *operator_name = row->operator_name != 0 ? sim_plan_string(plan, row->operator_name)
                                                        : sim_plan_op_name(row->op);
    bool is_copy_in =
        g_str_has_prefix(operator_name, "copy_in") || g_str_has_prefix(operator_name, "cast");
    return g_strdup_printf("%s%s reads the dead buffer %s", operator_name,
                           is_copy_in ? ", which feeds the all-gather," : "", buffer);
}

void sim_pair_report_dead_use(const SimRankView *view, SimFindings *findings, uint32_t index,
                              uint32_t buffer, uint32_t died, bool is_write)
{
    const SimInstruction *row = row_of(view, index);
    bool is_unborn = died == NO_ROW;
    SimFinding finding = {.rule = is_unborn ? SIM_RULE_USE_BEFORE_BIRTH
                                            : rule_of_dead_use(view, index, buffer),
                          .buffer_id = buffer,
                          .free_row = NO_ROW,
                          .n_places = 1};
    finding.places[0] = sim_rank_view_place(view, index, "use");
    if (!is_unborn) {
        finding.places[1] = sim_rank_view_place(view, died, "free");
        finding.n_places = 2;
    }
    sim_rank_view_situate(view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(view, buffer);
    g_autofree char *read = is_write ? NULL : describe_dead_read(view, row, finding.buffer);
    if (is_unborn)
        finding.message = g_strdup_printf("row %u (%s) uses %s before its alloc", index + 1,
                                          finding.places[0].text, finding.buffer);
    else if (is_write)
        finding.message =
            g_strdup_printf("row %u (%s) writes the dead buffer %s; it was freed at row %u",
                            index + 1, finding.places[0].text, finding.buffer, died + 1);
    else
        finding.message = g_strdup_printf("row %u (%s): %s; it was freed at row %u", index + 1,
                                          finding.places[0].text, read, died + 1);
    g_autofree char *key =
        g_strdup_printf("dead %s %s %d", stem_of(view, buffer), finding.places[0].text, is_unborn);
    sim_findings_add(findings, finding, key);
}

void sim_pair_report_dead_free(const SimRankView *view, SimFindings *findings, uint32_t index,
                               uint32_t buffer, uint32_t died)
{
    bool is_unborn = died == NO_ROW;
    SimFinding finding = {.rule = is_unborn ? SIM_RULE_USE_BEFORE_BIRTH : SIM_RULE_DOUBLE_FREE,
                          .buffer_id = buffer,
                          .free_row = NO_ROW,
                          .n_places = 1};
    finding.places[0] = sim_rank_view_place(view, index, "free");
    if (!is_unborn) {
        finding.places[1] = sim_rank_view_place(view, died, "free");
        finding.n_places = 2;
    }
    sim_rank_view_situate(view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(view, buffer);
    finding.message =
        is_unborn ? g_strdup_printf("row %u frees %s before its alloc", index + 1, finding.buffer)
                  : g_strdup_printf("row %u frees %s, which was freed at row %u", index + 1,
                                    finding.buffer, died + 1);
    g_autofree char *key = g_strdup_printf("free %s %d", stem_of(view, buffer), is_unborn);
    sim_findings_add(findings, finding, key);
}

void sim_pair_report_unwritten(const SimRankView *view, SimFindings *findings, uint32_t index,
                               SimByteRange span, uint64_t unwritten)
{
    SimFinding finding = {.rule = SIM_RULE_NEVER_WRITTEN,
                          .buffer_id = span.buffer,
                          .free_row = NO_ROW,
                          .n_places = 1};
    finding.places[0] = sim_rank_view_place(view, index, "use");
    sim_rank_view_situate(view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(view, span.buffer);
    finding.message = g_strdup_printf(
        "row %u (%s) reads %" G_GUINT64_FORMAT " bytes of %s in [%" G_GUINT64_FORMAT
        ", %" G_GUINT64_FORMAT ") that nothing has written",
        index + 1, finding.places[0].text, unwritten, finding.buffer, span.begin, span.end);
    g_autofree char *key =
        g_strdup_printf("unwritten %s %s", stem_of(view, span.buffer), finding.places[0].text);
    sim_findings_add(findings, finding, key);
}

void sim_pair_report_outside(const SimRankView *view, SimFindings *findings, uint32_t index,
                             SimTouch touch)
{
    const SimBuffer *buffer = sim_plan_buffer(sim_rank_view_plan(view), touch.buffer);
    SimFinding finding = {.rule = SIM_RULE_OUTSIDE_BUFFER,
                          .buffer_id = touch.buffer,
                          .free_row = NO_ROW,
                          .n_places = 1};
    finding.places[0] = sim_rank_view_place(view, index, "use");
    sim_rank_view_situate(view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(view, touch.buffer);
    finding.message =
        g_strdup_printf("row %u (%s) touches [%s%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT
                        "] of %s, which has %" G_GUINT64_FORMAT " bytes",
                        index + 1, finding.places[0].text, touch.times_rank ? "R*" : "",
                        touch.offset, touch.bytes, finding.buffer, buffer->bytes);
    g_autofree char *key =
        g_strdup_printf("outside %s %s", stem_of(view, touch.buffer), finding.places[0].text);
    sim_findings_add(findings, finding, key);
}

void sim_pair_report_unrecorded(const SimRankView *view, SimFindings *findings, uint32_t index,
                                uint32_t recorded)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    const SimInstruction *row = row_of(view, index);
    SimName name = sim_plan_event_name(plan, row->event);
    g_autofree char *event = sim_plan_print_name(plan, name);
    SimFinding finding = {.rule = SIM_RULE_WAIT_BEFORE_RECORD,
                          .buffer_id = SIM_PLAN_NONE,
                          .free_row = NO_ROW,
                          .n_places = 1};
    finding.places[0] = sim_rank_view_place(view, index, "wait");
    sim_rank_view_situate(view, index, &finding);
    if (recorded == NO_ROW) {
        finding.message =
            g_strdup_printf("row %u waits for event %s, which is never recorded", index + 1, event);
    } else {
        finding.places[1] = sim_rank_view_place(view, recorded, "record");
        finding.n_places = 2;
        finding.message =
            g_strdup_printf("row %u waits for event %s, which is recorded only at "
                            "row %u: CUDA lets such a wait pass, so it orders nothing",
                            index + 1, event, recorded + 1);
    }
    g_autofree char *key =
        g_strdup_printf("unrecorded %s %s", sim_plan_string(plan, name.stem), finding.unit);
    sim_findings_add(findings, finding, key);
}
