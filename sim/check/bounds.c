/* SPDX-License-Identifier: Apache-2.0 */
#include "check/bounds.h"

#include "base/json.h"

#define NO_ROW UINT32_MAX
/* The one that is reduced and the one before. */
#define KEPT_BOUND 2

typedef struct Life {
    uint32_t born;     /* row; NO_ROW = not alive */
    uint32_t gathered; /* row of the all-gather that filled it, or NO_ROW */
    bool is_used;      /* read by something other than a collective since */
    bool is_reduced;   /* went through an all-reduce */
    bool is_kept;      /* its value was cast since: it lives only for the all-reduce */
} Life;

/* Gathers issued and not yet used, in order of issue. */
typedef struct Pending {
    uint32_t buffer;
    uint32_t row;
} Pending;

struct SimBounds {
    const SimRankView *view;
    const SimPlan *plan;
    SimFindings *findings;
    SimBoundsLimits limits;
    Life *lives;                                     /* by buffer */
    GPtrArray *live_by_category[SIM_CATEGORY_COUNT]; /* ids, only of watched categories */
    uint64_t live_bytes[SIM_CATEGORY_COUNT];
    uint64_t step_bytes[SIM_CATEGORY_COUNT]; /* at the end of the step before */
    int32_t step;
    uint32_t steps_ended;
    uint32_t last_row;
    SimPhase phase;
    int32_t microbatch;
    bool has_backward;   /* of this step, since the last end of backward */
    GArray *pending;     /* of Pending */
    GHashTable *gathers; /* unit -> count in this phase and microbatch; look-up only */
    uint32_t n_kept;     /* lives that are */
    uint32_t reduce_row; /* a reduction in backward with no gather pending; NO_ROW */
    uint32_t reduce_group;
};

/* A number, or the text of one; FALLBACK for another word ("auto"). */
static uint32_t config_number(const cJSON *config, const char *key, uint32_t fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, key);
    int64_t value;
    if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e6)
        return (uint32_t)item->valuedouble;
    if (cJSON_IsString(item) && sim_units_parse_int64(item->valuestring, 0, 1000000, &value, NULL))
        return (uint32_t)value;
    return fallback;
}

static bool config_is_off(const cJSON *config, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, key);
    return cJSON_IsFalse(item) || (cJSON_IsString(item) && g_str_equal(item->valuestring, "false"));
}

void sim_bounds_read_limits(SimBoundsLimits *limits, const SimPlan *plan)
{
    *limits = (SimBoundsLimits){.gathers_forward = 2, .gathers_backward = 1, .reduce_inputs = 1};
    const char *text = sim_plan_get_meta(plan, "config");
    g_autoptr(cJSON) config = text != NULL ? cJSON_Parse(text) : NULL;
    if (config == NULL)
        return;
    limits->gathers_forward += config_number(config, "forward_prefetch", 0);
    uint32_t backward = config_number(config, "backward_prefetch", 1);
    limits->gathers_backward = MAX(backward, 1);
    limits->reduce_inputs = MAX(config_number(config, "reduce_scatter_buffers", 1), 1);
    limits->keeps_unsharded = config_is_off(config, "reshard_after_backward");
}

static bool is_watched(uint8_t category)
{
    return category == SIM_CATEGORY_ALL_GATHER_OUTPUT ||
           category == SIM_CATEGORY_REDUCE_SCATTER_INPUT ||
           category == SIM_CATEGORY_UNSHARDED_PARAMETER;
}

SimBounds *sim_bounds_new(const SimRankView *view, SimFindings *findings,
                          const SimBoundsLimits *limits)
{
    SimBounds *bounds = g_new0(SimBounds, 1);
    bounds->view = view;
    bounds->plan = sim_rank_view_plan(view);
    bounds->findings = findings;
    bounds->limits = *limits;
    size_t n = sim_plan_buffer_count(bounds->plan);
    bounds->lives = g_new0(Life, MAX(n, 1));
    for (size_t i = 0; i < n; i++)
        bounds->lives[i].born = NO_ROW;
    for (uint8_t c = 0; c < SIM_CATEGORY_COUNT; c++)
        if (is_watched(c))
            bounds->live_by_category[c] = g_ptr_array_new();
    bounds->step = -1;
    bounds->microbatch = -1;
    bounds->pending = g_array_new(FALSE, FALSE, sizeof(Pending));
    bounds->gathers = g_hash_table_new(g_direct_hash, g_direct_equal);
    bounds->reduce_row = NO_ROW;
    return bounds;
}

void sim_bounds_free(SimBounds *bounds)
{
    if (bounds == NULL)
        return;
    g_free(bounds->lives);
    for (uint8_t c = 0; c < SIM_CATEGORY_COUNT; c++)
        g_clear_pointer(&bounds->live_by_category[c], g_ptr_array_unref);
    g_array_unref(bounds->pending);
    g_hash_table_unref(bounds->gathers);
    g_free(bounds);
}

/* BUFFER may be SIM_PLAN_NONE. One finding a KEY. */
G_GNUC_PRINTF(6, 7)
static void report(SimBounds *bounds, SimRuleId rule, uint32_t index, uint32_t buffer,
                   const char *key, const char *format, ...)
{
    SimFinding finding = {.rule = rule, .buffer_id = buffer, .free_row = UINT32_MAX, .n_places = 1};
    va_list arguments;
    va_start(arguments, format);
    finding.message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    finding.places[0] = sim_rank_view_place(bounds->view, index, "row");
    if (buffer != SIM_PLAN_NONE) {
        finding.buffer = sim_rank_view_buffer_name(bounds->view, buffer);
        if (bounds->lives[buffer].born != NO_ROW)
            finding.places[finding.n_places++] =
                sim_rank_view_place(bounds->view, bounds->lives[buffer].born, "alloc");
    }
    sim_rank_view_situate(bounds->view, index, &finding);
    g_autofree char *full_key = g_strdup_printf("bound %u %s", rule, key);
    sim_findings_add(bounds->findings, finding, full_key);
}

static const char *stem_of(const SimBounds *bounds, uint32_t buffer)
{
    return sim_plan_string(bounds->plan, sim_plan_buffer(bounds->plan, buffer)->name.stem);
}

static uint32_t live_count(const SimBounds *bounds, SimCategory category)
{
    return bounds->live_by_category[category]->len;
}

static uint32_t live_buffer(const SimBounds *bounds, SimCategory category, uint32_t i)
{
    return GPOINTER_TO_UINT(g_ptr_array_index(bounds->live_by_category[category], i));
}

/* --- ends of forward, backward, step ------------------------------------------------------------
 */

static void finish_forward(SimBounds *bounds, uint32_t index)
{
    for (uint32_t i = 0; i < live_count(bounds, SIM_CATEGORY_ALL_GATHER_OUTPUT); i++) {
        uint32_t buffer = live_buffer(bounds, SIM_CATEGORY_ALL_GATHER_OUTPUT, i);
        g_autofree char *name = sim_rank_view_buffer_name(bounds->view, buffer);
        report(bounds, SIM_RULE_NO_GATHER_AFTER_FORWARD, index, buffer, stem_of(bounds, buffer),
               "%s is still held when backward begins at row %u", name, index + 1);
    }
}

static void report_survivors(SimBounds *bounds, uint32_t index, SimCategory category,
                             const char *what)
{
    for (uint32_t i = 0; i < live_count(bounds, category); i++) {
        uint32_t buffer = live_buffer(bounds, category, i);
        const Life *life = &bounds->lives[buffer];
        g_autofree char *name = sim_rank_view_buffer_name(bounds->view, buffer);
        bool is_unused = life->gathered != NO_ROW && !life->is_used;
        report(bounds, is_unused ? SIM_RULE_UNSHARD_IS_WAITED : SIM_RULE_ALL_FREED, index, buffer,
               stem_of(bounds, buffer),
               is_unused
                   ? "%s %s (alloc row %u) was gathered, never used, and is still held at the "
                     "end of backward, row %u"
                   : "%s %s (alloc row %u) is still held at the end of backward, row %u",
               what, name, life->born + 1, index + 1);
    }
}

/* INDEX is the first row that is no longer part of backward. */
static void finish_backward(SimBounds *bounds, uint32_t index)
{
    bounds->has_backward = false;
    bounds->reduce_row = NO_ROW;
    report_survivors(bounds, index, SIM_CATEGORY_ALL_GATHER_OUTPUT, "all-gather output");
    report_survivors(bounds, index, SIM_CATEGORY_REDUCE_SCATTER_INPUT, "reduce-scatter input");
    if (!bounds->limits.keeps_unsharded)
        report_survivors(bounds, index, SIM_CATEGORY_UNSHARDED_PARAMETER, "unsharded parameter");
}

static uint32_t find_newcomer(const SimBounds *bounds, uint8_t category)
{
    size_t n = sim_plan_buffer_count(bounds->plan);
    for (size_t i = n; i > 0; i--)
        if (bounds->lives[i - 1].born != NO_ROW &&
            sim_plan_buffer(bounds->plan, (uint32_t)i - 1)->category == category)
            return (uint32_t)i - 1;
    return SIM_PLAN_NONE;
}

/* The step that ends with row INDEX. The first step is apart: states appear in it. */
static void finish_step(SimBounds *bounds, uint32_t index)
{
    bounds->steps_ended++;
    for (uint8_t c = 0; c < SIM_CATEGORY_COUNT; c++) {
        uint64_t now = bounds->live_bytes[c], before = bounds->step_bytes[c];
        bounds->step_bytes[c] = now;
        if (bounds->steps_ended <= 2 || now <= before)
            continue;
        uint32_t buffer = find_newcomer(bounds, c);
        g_autofree char *name = sim_rank_view_buffer_name(bounds->view, buffer);
        g_autofree char *key = g_strdup_printf("%u", c);
        report(bounds, SIM_RULE_STEADY_STATE, index, buffer, key,
               "step %d ends with %" G_GUINT64_FORMAT " bytes more of %s than the step before; "
               "the youngest is %s",
               bounds->step, now - before, sim_plan_category_name((SimCategory)c), name);
    }
}

/* Gradients that wait, unsharded, for a later microbatch's reduction. */
static void finish_microbatch(SimBounds *bounds, uint32_t index)
{
    uint64_t bytes = bounds->live_bytes[SIM_CATEGORY_UNSHARDED_GRADIENT];
    if (bytes > 0)
        report(bounds, SIM_RULE_UNSYNCED_CHARGED, index, SIM_PLAN_NONE, "microbatch",
               "%" G_GUINT64_FORMAT " bytes of unsharded gradients are kept for the next "
               "microbatch at row %u",
               bytes, index + 1);
}

static void change_phase(SimBounds *bounds, uint32_t index, SimPhase phase)
{
    if (phase == SIM_PHASE_BACKWARD && bounds->phase == SIM_PHASE_FORWARD)
        finish_forward(bounds, index);
    if (phase == SIM_PHASE_FORWARD && bounds->phase == SIM_PHASE_BACKWARD && bounds->has_backward)
        finish_microbatch(bounds, index);
    bool is_after = phase == SIM_PHASE_CLIP || phase == SIM_PHASE_OPTIMIZER ||
                    phase == SIM_PHASE_ZERO_GRAD || phase == SIM_PHASE_EVALUATION;
    if (bounds->has_backward && is_after)
        finish_backward(bounds, index);
    if (phase == SIM_PHASE_BACKWARD)
        bounds->has_backward = true;
    bounds->phase = phase;
    bounds->reduce_row = NO_ROW;
    g_hash_table_remove_all(bounds->gathers);
    g_array_set_size(bounds->pending, 0);
}

void sim_bounds_row(SimBounds *bounds, uint32_t index)
{
    const SimInstruction *row = sim_plan_instruction(bounds->plan, index);
    if (row->step > bounds->step) {
        if (bounds->has_backward)
            finish_backward(bounds, index);
        if (bounds->step >= 0)
            finish_step(bounds, bounds->last_row);
        bounds->step = row->step;
    }
    /* A free that comes late says to which phase it belongs, not which one it is now.
     * Recomputation happens within backward. */
    SimPhase phase = row->phase == SIM_PHASE_RECOMPUTE ? SIM_PHASE_BACKWARD : (SimPhase)row->phase;
    if (row->op != SIM_PLAN_FREE && phase != SIM_PHASE_NONE &&
        (phase != bounds->phase || row->microbatch != bounds->microbatch)) {
        bounds->microbatch = row->microbatch;
        change_phase(bounds, index, phase);
    }
    bounds->last_row = index;
    if (row->op == SIM_PLAN_HOST_WAIT && bounds->live_bytes[SIM_CATEGORY_ALL_GATHER_OUTPUT] > 0)
        report(bounds, SIM_RULE_HOST_NOT_BLOCKED, index, SIM_PLAN_NONE, "host",
               "the host waits at row %u, and issues nothing meanwhile", index + 1);
}

void sim_bounds_finish(SimBounds *bounds)
{
    if (sim_plan_length(bounds->plan) == 0)
        return;
    if (bounds->has_backward)
        finish_backward(bounds, bounds->last_row);
    if (bounds->step >= 0)
        finish_step(bounds, bounds->last_row);
}

/* --- births and deaths --------------------------------------------------------------------------
 */

static void check_count(SimBounds *bounds, uint32_t index, uint32_t buffer, SimCategory category)
{
    bool is_gather = category == SIM_CATEGORY_ALL_GATHER_OUTPUT;
    if (!is_gather && category != SIM_CATEGORY_REDUCE_SCATTER_INPUT)
        return;
    /* A reduce-scatter input that is given back only after the next was made is still bounded. */
    uint32_t bound = !is_gather                            ? bounds->limits.reduce_inputs + 1
                     : bounds->phase == SIM_PHASE_BACKWARD ? bounds->limits.gathers_backward
                                                           : bounds->limits.gathers_forward;
    uint32_t count = live_count(bounds, category);
    if (count <= bound)
        return;
    report(bounds, is_gather ? SIM_RULE_GATHER_BOUND : SIM_RULE_REDUCE_INPUT_BOUND, index, buffer,
           sim_plan_phase_name(bounds->phase), "%u %s live at row %u; expected at most %u", count,
           is_gather ? "all-gather outputs" : "reduce-scatter inputs", index + 1, bound);
}

void sim_bounds_alloc(SimBounds *bounds, uint32_t index, uint32_t buffer)
{
    const SimBuffer *b = sim_plan_buffer(bounds->plan, buffer);
    bounds->lives[buffer] = (Life){.born = index, .gathered = NO_ROW};
    bounds->live_bytes[b->category] += b->bytes;
    if (!is_watched(b->category))
        return;
    g_ptr_array_add(bounds->live_by_category[b->category], GUINT_TO_POINTER(buffer));
    check_count(bounds, index, buffer, (SimCategory)b->category);
}

void sim_bounds_free_buffer(SimBounds *bounds, uint32_t index, uint32_t buffer)
{
    const SimBuffer *b = sim_plan_buffer(bounds->plan, buffer);
    Life *life = &bounds->lives[buffer];
    bounds->live_bytes[b->category] -= b->bytes;
    if (is_watched(b->category)) {
        GPtrArray *live = bounds->live_by_category[b->category];
        for (guint i = live->len; i > 0; i--) {
            if (GPOINTER_TO_UINT(g_ptr_array_index(live, i - 1)) != buffer)
                continue;
            g_ptr_array_remove_index(live, i - 1);
            break;
        }
    }
    if (life->is_kept)
        bounds->n_kept--;
    if (life->gathered != NO_ROW && !life->is_used &&
        b->category == SIM_CATEGORY_ALL_GATHER_OUTPUT) {
        g_autofree char *name = sim_rank_view_buffer_name(bounds->view, buffer);
        report(bounds, SIM_RULE_NO_REDUNDANT_GATHER, index, buffer, stem_of(bounds, buffer),
               "%s was gathered at row %u and is freed at row %u without a use", name,
               life->gathered + 1, index + 1);
    }
    life->born = NO_ROW;
}

/* --- collectives and uses -----------------------------------------------------------------------
 */

static void check_parts(SimBounds *bounds, uint32_t index, const SimInstruction *row,
                        const SimByteRange *spans, uint32_t n_reads, uint32_t n_writes)
{
    uint64_t members = sim_rank_view_members(bounds->view, row->group);
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < n_reads; i++)
        read += spans[i].end - spans[i].begin;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++)
        written += spans[i].end - spans[i].begin;
    if (n_reads == 0 || n_writes == 0)
        return;
    bool is_gather = row->collective == SIM_COLLECTIVE_ALL_GATHER;
    bool is_scatter = row->collective == SIM_COLLECTIVE_REDUCE_SCATTER;
    uint64_t part = is_gather ? read : written, whole = is_gather ? written : read;
    if ((is_gather || is_scatter) && part * members != whole) {
        report(bounds, SIM_RULE_SHARD_PARTITION, index, spans[0].buffer,
               sim_plan_string(bounds->plan, row->unit),
               "row %u: %" G_GUINT64_FORMAT " bytes a rank times %" G_GUINT64_FORMAT
               " ranks of group %s are not the %" G_GUINT64_FORMAT " bytes of the whole",
               index + 1, part, members, sim_plan_group_name(bounds->plan, row->group), whole);
    } else if (row->bytes != 0 && MAX(part, whole) != row->bytes) {
        report(bounds, SIM_RULE_SHARD_PARTITION, index, spans[0].buffer,
               sim_plan_string(bounds->plan, row->unit),
               "row %u says %" G_GUINT64_FORMAT " bytes, its buffer has %" G_GUINT64_FORMAT,
               index + 1, row->bytes, MAX(part, whole));
    }
}

static void check_dtype(SimBounds *bounds, uint32_t index, const SimInstruction *row,
                        const SimByteRange *spans, uint32_t n)
{
    if (row->collective == SIM_COLLECTIVE_ALL_GATHER ||
        row->collective == SIM_COLLECTIVE_BROADCAST || row->dtype == SIM_DTYPE_NONE)
        return;
    for (uint32_t i = 0; i < n; i++) {
        SimDtype dtype = (SimDtype)sim_plan_buffer(bounds->plan, spans[i].buffer)->dtype;
        if (dtype == SIM_DTYPE_NONE || dtype == row->dtype)
            continue;
        g_autofree char *name = sim_rank_view_buffer_name(bounds->view, spans[i].buffer);
        report(bounds, SIM_RULE_ONE_DTYPE_A_REDUCE, index, spans[i].buffer,
               sim_plan_string(bounds->plan, row->unit), "row %u reduces in %s, but %s holds %s",
               index + 1, sim_dtype_name((SimDtype)row->dtype), name, sim_dtype_name(dtype));
        return;
    }
}

static void note_gather(SimBounds *bounds, uint32_t index, const SimInstruction *row,
                        const SimByteRange *spans, uint32_t n_reads, uint32_t n_writes)
{
    const char *unit = sim_plan_string(bounds->plan, row->unit);
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++) {
        uint32_t buffer = spans[i].buffer;
        bounds->lives[buffer].gathered = index;
        bounds->lives[buffer].is_used = false;
        Pending pending = {.buffer = buffer, .row = index};
        g_array_append_val(bounds->pending, pending);
    }
    if (row->phase == SIM_PHASE_RECOMPUTE)
        report(bounds, SIM_RULE_RECOMPUTE_NEUTRAL, index, SIM_PLAN_NONE, unit,
               "row %u gathers %s in a recomputation", index + 1, unit);
    gpointer key = GUINT_TO_POINTER(row->unit);
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(bounds->gathers, key)) + 1;
    g_hash_table_insert(bounds->gathers, key, GUINT_TO_POINTER(count));
    if (count > n_writes)
        report(bounds, SIM_RULE_NO_REDUNDANT_GATHER, index, SIM_PLAN_NONE, unit,
               "row %u gathers %s for the %u. time in this %s", index + 1, unit, count,
               sim_plan_phase_name((SimPhase)row->phase));
    if (bounds->reduce_row != NO_ROW && bounds->reduce_group == row->group)
        report(bounds, SIM_RULE_GATHER_BEFORE_REDUCE, index, SIM_PLAN_NONE, "order",
               "row %u gathers %s only after the reduction of row %u on the same communicator",
               index + 1, unit, bounds->reduce_row + 1);
    bounds->reduce_row = NO_ROW;
}

static void use_gather(SimBounds *bounds, uint32_t index, uint32_t buffer)
{
    Life *life = &bounds->lives[buffer];
    if (life->gathered == NO_ROW || life->is_used)
        return;
    life->is_used = true;
    for (guint i = 0; i < bounds->pending->len; i++) {
        const Pending *pending = &g_array_index(bounds->pending, Pending, i);
        if (pending->buffer != buffer)
            continue;
        if (i > 0)
            report(bounds, SIM_RULE_PREFETCH_ORDER, index, buffer, stem_of(bounds, buffer),
                   "row %u uses the all-gather of row %u before the one of row %u, issued earlier",
                   index + 1, pending->row + 1, g_array_index(bounds->pending, Pending, 0).row + 1);
        g_array_remove_index(bounds->pending, i);
        return;
    }
}

/* A kernel that makes a sharded gradient of an all-reduced buffer has all that is in it; what holds
 * the buffer on is the all-reduce. */
static void keep_reduced(SimBounds *bounds, uint32_t index, const SimByteRange *spans,
                         uint32_t n_reads, uint32_t n_writes)
{
    if (n_writes == 0 || sim_plan_buffer(bounds->plan, spans[n_reads].buffer)->category !=
                             SIM_CATEGORY_SHARDED_GRADIENT)
        return;
    for (uint32_t i = 0; i < n_reads; i++) {
        Life *life = &bounds->lives[spans[i].buffer];
        if (!life->is_reduced || life->is_kept)
            continue;
        life->is_kept = true;
        if (++bounds->n_kept > KEPT_BOUND)
            report(bounds, SIM_RULE_ALL_REDUCE_BOUND, index, spans[i].buffer, "kept",
                   "%u buffers are kept for all-reduces at row %u; expected at most %u",
                   bounds->n_kept, index + 1, KEPT_BOUND);
    }
}

void sim_bounds_run(SimBounds *bounds, uint32_t index, const SimByteRange *spans, uint32_t n_reads,
                    uint32_t n_writes)
{
    const SimInstruction *row = sim_plan_instruction(bounds->plan, index);
    if (row->op != SIM_PLAN_COLLECTIVE) {
        for (uint32_t i = 0; i < n_reads; i++)
            use_gather(bounds, index, spans[i].buffer);
        keep_reduced(bounds, index, spans, n_reads, n_writes);
        return;
    }
    for (uint32_t i = 0; i < n_reads && row->collective == SIM_COLLECTIVE_ALL_REDUCE; i++)
        bounds->lives[spans[i].buffer].is_reduced = true;
    check_parts(bounds, index, row, spans, n_reads, n_writes);
    check_dtype(bounds, index, row, spans, n_reads + n_writes);
    if (row->collective == SIM_COLLECTIVE_ALL_GATHER) {
        note_gather(bounds, index, row, spans, n_reads, n_writes);
    } else if (row->phase == SIM_PHASE_BACKWARD &&
               row->collective == SIM_COLLECTIVE_REDUCE_SCATTER && bounds->pending->len == 0) {
        bounds->reduce_row = index;
        bounds->reduce_group = row->group;
    }
}
