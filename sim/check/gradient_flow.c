/* SPDX-License-Identifier: Apache-2.0 */
#include "check/gradient_flow.h"

#include <math.h>
#include <string.h>

#include "check/part_map.h"

/* Factors are products of small whole numbers and powers of two; a double holds them to 1e-15. */
#define SCALE_TOLERANCE 1e-9
#define GROUP_BITS 64

/* What one microbatch brought to a gradient. */
typedef struct Contribution {
    SimStringId unit;
    int32_t step, microbatch;
    uint32_t reached; /* ranks summed over */
    uint64_t groups;  /* communicators gone through, by bit */
    double scale;     /* NAN = a reduction that does not say how it reduces */
} Contribution;

/* Number 0 = none. */
typedef struct Set {
    uint32_t first, n;
} Set;

/* Microbatches of the present step in which a unit made gradients. */
typedef struct Produced {
    int32_t step;
    GArray *microbatches; /* of int32_t */
} Produced;

struct SimGradientFlow {
    const SimRankView *view;
    const SimPlan *plan;
    SimFindings *findings;
    SimPartMap *held;      /* by part of a buffer: its set */
    bool *is_reduced;      /* by buffer: reduced since its last write */
    uint32_t *written_at;  /* by buffer: last row that writes it, plus 1 */
    uint32_t *read_at;     /* by buffer: last row that reads it, plus 1 */
    GArray *sets;          /* of Set */
    GArray *contributions; /* of Contribution */
    GArray *scratch;       /* of Contribution: what the row's reads bring */
    GArray *result;        /* of Contribution: what one of its writes then holds */
    GHashTable *produced;  /* unit -> Produced; look-up only */
    uint32_t replicate;    /* group named so with more than one rank, or NONE */
    double scale;          /* of the first gradient judged; NAN = none yet */
    double mean;           /* the same times the ranks it reached: 1 for a mean */
    uint32_t scale_row;
    uint64_t judged;
};

static void free_produced(gpointer data)
{
    Produced *produced = data;
    g_array_unref(produced->microbatches);
    g_free(produced);
}

SimGradientFlow *sim_gradient_flow_new(const SimRankView *view, SimFindings *findings)
{
    SimGradientFlow *flow = g_new0(SimGradientFlow, 1);
    flow->view = view;
    flow->plan = sim_rank_view_plan(view);
    flow->findings = findings;
    size_t n = MAX(sim_plan_buffer_count(flow->plan), 1);
    flow->held = sim_part_map_new(n);
    flow->is_reduced = g_new0(bool, n);
    flow->written_at = g_new0(uint32_t, n);
    flow->read_at = g_new0(uint32_t, n);
    flow->sets = g_array_new(FALSE, TRUE, sizeof(Set));
    g_array_set_size(flow->sets, 1);
    flow->contributions = g_array_new(FALSE, FALSE, sizeof(Contribution));
    flow->scratch = g_array_new(FALSE, FALSE, sizeof(Contribution));
    flow->result = g_array_new(FALSE, FALSE, sizeof(Contribution));
    flow->produced = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, free_produced);
    flow->replicate = sim_plan_find_group(flow->plan, "replicate");
    if (sim_rank_view_members(view, flow->replicate) <= 1)
        flow->replicate = SIM_PLAN_NONE;
    flow->scale = NAN;
    return flow;
}

void sim_gradient_flow_free(SimGradientFlow *flow)
{
    if (flow == NULL)
        return;
    sim_part_map_free(flow->held);
    g_free(flow->is_reduced);
    g_free(flow->written_at);
    g_free(flow->read_at);
    g_array_unref(flow->sets);
    g_array_unref(flow->contributions);
    g_array_unref(flow->scratch);
    g_array_unref(flow->result);
    g_hash_table_unref(flow->produced);
    g_free(flow);
}

void sim_gradient_flow_forget(SimGradientFlow *flow, uint32_t buffer)
{
    sim_part_map_clear(flow->held, buffer);
    flow->is_reduced[buffer] = false;
}

uint64_t sim_gradient_flow_judged(const SimGradientFlow *flow)
{
    return flow->judged;
}

static uint64_t group_bit(uint32_t group)
{
    return group < GROUP_BITS ? UINT64_C(1) << group : 0;
}

/* Temporaries hold gradients only on the way to a reduction: those of clipping hold norms. */
static bool holds_gradients(uint8_t category, const SimInstruction *row)
{
    switch (category) {
    case SIM_CATEGORY_TEMPORARY:
        return row->phase == SIM_PHASE_BACKWARD;
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_SCATTER_INPUT:
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT:
    case SIM_CATEGORY_SHARDED_GRADIENT:
    case SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT:
    case SIM_CATEGORY_REDUCE_COPY:
    case SIM_CATEGORY_BUCKET:
        return true;
    default:
        return false;
    }
}

static void merge(GArray *set, Contribution value)
{
    for (guint i = 0; i < set->len; i++) {
        Contribution *known = &g_array_index(set, Contribution, i);
        if (known->unit != value.unit || known->step != value.step ||
            known->microbatch != value.microbatch)
            continue;
        /* What is made of several parts is as far as the one that is least far. */
        known->reached = MIN(known->reached, value.reached);
        known->groups &= value.groups;
        return;
    }
    g_array_append_val(set, value);
}

static void merge_set(const SimGradientFlow *flow, GArray *into, uint32_t set)
{
    Set s = g_array_index(flow->sets, Set, set);
    for (uint32_t i = 0; i < s.n; i++)
        merge(into, g_array_index(flow->contributions, Contribution, s.first + i));
}

/* What the parts in SPAN bring. */
static void merge_span(const SimGradientFlow *flow, GArray *into, SimByteRange span)
{
    uint32_t i = sim_part_map_find(flow->held, span.buffer, span.begin);
    while (i != SIM_PART_MAP_NONE) {
        SimPart part = sim_part_map_get(flow->held, i);
        if (part.begin >= span.end)
            break;
        merge_set(flow, into, part.value);
        i = part.next;
    }
}

static bool holds_any(const SimGradientFlow *flow, SimByteRange span)
{
    uint32_t i = sim_part_map_find(flow->held, span.buffer, span.begin);
    while (i != SIM_PART_MAP_NONE) {
        SimPart part = sim_part_map_get(flow->held, i);
        if (part.begin >= span.end)
            break;
        if (part.value != 0)
            return true;
        i = part.next;
    }
    return false;
}

/* What RESULT holds, kept. */
static uint32_t new_set(SimGradientFlow *flow)
{
    if (flow->result->len == 0)
        return 0;
    Set set = {.first = flow->contributions->len, .n = flow->result->len};
    g_array_append_vals(flow->contributions, flow->result->data, flow->result->len);
    g_array_append_val(flow->sets, set);
    return flow->sets->len - 1;
}

static void note_produced(SimGradientFlow *flow, const SimInstruction *row)
{
    Produced *produced = g_hash_table_lookup(flow->produced, GUINT_TO_POINTER(row->unit));
    if (produced == NULL) {
        produced = g_new0(Produced, 1);
        produced->step = row->step;
        produced->microbatches = g_array_new(FALSE, FALSE, sizeof(int32_t));
        g_hash_table_insert(flow->produced, GUINT_TO_POINTER(row->unit), produced);
    }
    if (produced->step != row->step) {
        produced->step = row->step;
        g_array_set_size(produced->microbatches, 0);
    }
    for (guint i = 0; i < produced->microbatches->len; i++)
        if (g_array_index(produced->microbatches, int32_t, i) == row->microbatch)
            return;
    g_array_append_val(produced->microbatches, row->microbatch);
}

/* The number behind "KEY" in the row's arguments, or FALLBACK. */
static double argument(const SimGradientFlow *flow, const SimInstruction *row, const char *key,
                       double fallback)
{
    const char *text = sim_plan_string(flow->plan, row->arguments);
    const char *found = strstr(text, key);
    return found != NULL ? g_ascii_strtod(found + strlen(key), NULL) : fallback;
}

static double reduction_scale(const SimGradientFlow *flow, const SimInstruction *row,
                              uint32_t members)
{
    const char *text = sim_plan_string(flow->plan, row->arguments);
    if (strstr(text, "reduction=avg") != NULL)
        return 1.0 / members;
    if (strstr(text, "reduction=sum") != NULL)
        return 1.0;
    return argument(flow, row, "reduction=premul:", NAN);
}

/* What a kernel multiplies by, if its operator says so. */
static double kernel_scale(const SimGradientFlow *flow, const SimInstruction *row)
{
    const char *name = sim_plan_string(flow->plan, row->operator_name);
    double factor = argument(flow, row, "factor=", 1.0);
    return strstr(name, "div") != NULL && factor != 0 ? 1.0 / factor : factor;
}

G_GNUC_PRINTF(6, 7)
static void report(SimGradientFlow *flow, SimRuleId rule, uint32_t index, uint32_t buffer,
                   const char *kind, const char *format, ...)
{
    SimFinding finding = {.rule = rule, .buffer_id = buffer, .free_row = UINT32_MAX, .n_places = 1};
    va_list arguments;
    va_start(arguments, format);
    finding.message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    finding.places[0] = sim_rank_view_place(flow->view, index, "row");
    sim_rank_view_situate(flow->view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(flow->view, buffer);
    /* One a unit and kind, not one a step: the serial in a buffer's name does not count. */
    SimName name = sim_plan_buffer(flow->plan, buffer)->name;
    g_autofree char *key =
        g_strdup_printf("%u %s %s", rule, kind, sim_plan_string(flow->plan, name.stem));
    sim_findings_add(flow->findings, finding, key);
}

/* What collective INDEX, a reduction, makes of the contributions in SET. */
static void reduce(SimGradientFlow *flow, uint32_t index, GArray *set, uint32_t buffer)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    uint32_t members = sim_rank_view_members(flow->view, row->group);
    double scale = reduction_scale(flow, row, members);
    for (uint32_t i = 0; i < set->len; i++) {
        Contribution *c = &g_array_index(set, Contribution, i);
        bool is_again = members > 1 && (c->groups & group_bit(row->group)) != 0;
        if (is_again && row->collective == SIM_COLLECTIVE_ALL_REDUCE) {
            /* The members hold the same by now: their sum is so many times that. DDP's accumulated
             * gradients go this way, divided each time. */
            c->scale *= scale * members;
            continue;
        }
        if (is_again) {
            report(flow, SIM_RULE_REDUCED_EVERYWHERE_ONCE, index, buffer, "twice",
                   "row %u reduces the gradient of %s (microbatch %d) over group %s a second time",
                   index + 1, sim_plan_string(flow->plan, c->unit), c->microbatch,
                   sim_plan_group_name(flow->plan, row->group));
            break;
        }
        c->reached *= members;
        c->groups |= group_bit(row->group);
        c->scale *= scale;
    }
}

static void check_reduction(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                            uint32_t n_reads)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    for (uint32_t i = 0; i < n_reads; i++) {
        uint32_t buffer = spans[i].buffer;
        if (flow->is_reduced[buffer] && holds_any(flow, spans[i])) {
            g_autofree char *name = sim_rank_view_buffer_name(flow->view, buffer);
            report(flow, SIM_RULE_LEGAL_STATES, index, buffer, "again",
                   "row %u reduces %s again: nothing was written to it since the last reduction",
                   index + 1, name);
        }
        flow->is_reduced[buffer] = true;
    }
    if (sim_rank_view_members(flow->view, row->group) == 1)
        report(flow, SIM_RULE_NO_NEEDLESS_REDUCE, index, spans[0].buffer, "alone",
               "row %u reduces over group %s, which has one rank", index + 1,
               sim_plan_group_name(flow->plan, row->group));
}

static void judge_reach(SimGradientFlow *flow, uint32_t index, uint32_t buffer,
                        const Contribution *c, const Contribution *furthest)
{
    const char *unit = sim_plan_string(flow->plan, c->unit);
    uint32_t ranks = sim_plan_ranks(flow->plan);
    if (c->reached < furthest->reached || c->groups != furthest->groups) {
        report(flow, SIM_RULE_REDUCED_EVERYWHERE_ONCE, index, buffer, "behind",
               "microbatch %d's gradient of %s has reached %u of the %u ranks that microbatch %d's "
               "has when row %u applies it",
               c->microbatch, unit, c->reached, furthest->reached, furthest->microbatch, index + 1);
    } else if (flow->replicate != SIM_PLAN_NONE && c->reached < ranks &&
               (c->groups & group_bit(flow->replicate)) == 0) {
        report(
            flow, SIM_RULE_REDUCED_EVERYWHERE_ONCE, index, buffer, "replicate",
            "microbatch %d's gradient of %s was not all-reduced over group replicate when row %u "
            "applies it: it has reached %u of %u ranks",
            c->microbatch, unit, index + 1, c->reached, ranks);
    } else if (c->reached == 1 && ranks > 1) {
        report(flow, SIM_RULE_REDUCED_EVERYWHERE_ONCE, index, buffer, "nowhere",
               "row %u applies microbatch %d's gradient of %s, which was never reduced: it is this "
               "rank's own",
               index + 1, c->microbatch, unit);
    }
}

static void judge_scale(SimGradientFlow *flow, uint32_t index, uint32_t buffer,
                        const Contribution *c)
{
    if (isnan(c->scale))
        return;
    const char *unit = sim_plan_string(flow->plan, c->unit);
    double mean = c->scale * c->reached;
    if (isnan(flow->scale)) {
        flow->scale = c->scale;
        flow->mean = mean;
        flow->scale_row = index;
    } else if (fabs(c->scale / flow->scale - 1.0) > SCALE_TOLERANCE &&
               fabs(mean / flow->mean - 1.0) > SCALE_TOLERANCE) {
        report(flow, SIM_RULE_SCALED_ONCE, index, buffer, "other",
               "the gradient of %s is scaled by %.9g at row %u, others by %.9g (row %u)", unit,
               c->scale, index + 1, flow->scale, flow->scale_row + 1);
        return;
    }
    bool is_mean = fabs(mean - 1.0) <= SCALE_TOLERANCE;
    bool is_sum = fabs(c->scale - 1.0) <= SCALE_TOLERANCE;
    if (!is_mean && !is_sum && sim_plan_get_meta(flow->plan, "gradient_scale") == NULL)
        report(flow, SIM_RULE_SCALED_ONCE, index, buffer, "amount",
               "the gradient of %s is scaled by %.9g at row %u; expected 1/%u (the mean over the "
               "ranks reached) or 1",
               unit, c->scale, index + 1, c->reached);
}

static void judge_lost(SimGradientFlow *flow, uint32_t index, uint32_t buffer, const Set *set,
                       const Contribution *c)
{
    const Produced *produced = g_hash_table_lookup(flow->produced, GUINT_TO_POINTER(c->unit));
    if (produced == NULL || produced->step != c->step)
        return;
    for (guint i = 0; i < produced->microbatches->len; i++) {
        int32_t microbatch = g_array_index(produced->microbatches, int32_t, i);
        bool is_in = false;
        for (uint32_t j = 0; j < set->n && !is_in; j++) {
            const Contribution *other =
                &g_array_index(flow->contributions, Contribution, set->first + j);
            is_in =
                other->unit == c->unit && other->step == c->step && other->microbatch == microbatch;
        }
        if (!is_in)
            report(flow, SIM_RULE_REDUCED_EVERYWHERE_ONCE, index, buffer, "lost",
                   "microbatch %d's gradient of %s is lost: it is not in what row %u applies",
                   microbatch, sim_plan_string(flow->plan, c->unit), index + 1);
    }
}

static void judge_set(SimGradientFlow *flow, uint32_t index, uint32_t buffer, uint32_t number)
{
    Set set = g_array_index(flow->sets, Set, number);
    if (set.n == 0)
        return;
    const Contribution *all = &g_array_index(flow->contributions, Contribution, set.first);
    const Contribution *furthest = all;
    for (uint32_t i = 1; i < set.n; i++)
        if (all[i].reached > furthest->reached)
            furthest = &all[i];
    for (uint32_t i = 0; i < set.n; i++) {
        judge_reach(flow, index, buffer, &all[i], furthest);
        judge_scale(flow, index, buffer, &all[i]);
        judge_lost(flow, index, buffer, &set, &all[i]);
    }
}

/* Row INDEX applies the gradient in SPAN. */
static void judge(SimGradientFlow *flow, uint32_t index, SimByteRange span)
{
    uint32_t last = 0; /* judged; neighbours often hold the same */
    uint32_t i = sim_part_map_find(flow->held, span.buffer, span.begin);
    while (i != SIM_PART_MAP_NONE) {
        SimPart part = sim_part_map_get(flow->held, i);
        if (part.begin >= span.end)
            break;
        if (part.value != 0 && part.value != last) {
            judge_set(flow, index, span.buffer, part.value);
            last = part.value;
        }
        i = part.next;
    }
    flow->judged += last != 0;
}

/* True if a kernel of the backward pass makes a new gradient: it reads no other gradient, and more
 * than what it writes (a division in place makes nothing new). */
static bool is_source(const SimGradientFlow *flow, const SimInstruction *row,
                      const SimByteRange *spans, uint32_t n_reads, uint32_t written)
{
    if (row->op != SIM_PLAN_KERNEL || row->phase != SIM_PHASE_BACKWARD ||
        sim_plan_buffer(flow->plan, written)->category != SIM_CATEGORY_UNSHARDED_GRADIENT)
        return false;
    bool has_other = n_reads == 0;
    for (uint32_t i = 0; i < n_reads; i++) {
        if (spans[i].buffer == written)
            continue;
        if (holds_any(flow, spans[i]))
            return false;
        has_other = true;
    }
    return has_other;
}

/* Whether the row works in place on BUFFER, byte by byte: each part keeps its own contributions. */
static bool is_in_place(const SimGradientFlow *flow, uint32_t index, uint32_t buffer)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    return flow->read_at[buffer] == index + 1 && flow->written_at[buffer] == index + 1 &&
           (row->op != SIM_PLAN_COLLECTIVE || row->collective == SIM_COLLECTIVE_ALL_REDUCE);
}

/* What a write of the row does to what it brings, which is in scratch. */
typedef struct Effect {
    double scale;
    bool is_new;    /* it makes a gradient */
    bool is_reduce; /* of what it works in place on; scratch is reduced already */
} Effect;

/* The set of what row INDEX writes where OLD was and stays. */
static uint32_t combine(SimGradientFlow *flow, uint32_t index, uint32_t buffer, uint32_t old,
                        Effect effect)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    g_array_set_size(flow->result, 0);
    merge_set(flow, flow->result, old);
    if (effect.is_reduce)
        reduce(flow, index, flow->result, buffer);
    for (guint i = 0; i < flow->scratch->len; i++)
        merge(flow->result, g_array_index(flow->scratch, Contribution, i));
    for (guint i = 0; i < flow->result->len; i++)
        g_array_index(flow->result, Contribution, i).scale *= effect.scale;
    if (effect.is_new)
        merge(flow->result, (Contribution){.unit = row->unit,
                                           .step = row->step,
                                           .microbatch = row->microbatch,
                                           .reached = 1,
                                           .scale = 1.0});
    return new_set(flow);
}

/* Row INDEX writes WRITTEN. A kernel that works in place on many buffers at once leaves each with
 * its own. */
static void write_gradient(SimGradientFlow *flow, uint32_t index, SimByteRange written,
                           Effect effect)
{
    uint32_t buffer = written.buffer;
    flow->is_reduced[buffer] = false;
    if (written.begin >= written.end)
        return;
    if (!is_in_place(flow, index, buffer)) {
        sim_part_map_put(flow->held, buffer, written.begin, written.end,
                         combine(flow, index, buffer, 0, effect));
        return;
    }
    bool is_kept =
        !effect.is_new && !effect.is_reduce && flow->scratch->len == 0 && effect.scale == 1.0;
    if (is_kept)
        return;
    uint32_t part = sim_part_map_cut(flow->held, buffer, written.begin, written.end);
    uint32_t old = SIM_PART_MAP_NONE, made = 0; /* neighbours often hold the same */
    while (part != SIM_PART_MAP_NONE && sim_part_map_get(flow->held, part).begin < written.end) {
        SimPart present = sim_part_map_get(flow->held, part);
        if (present.value != old)
            made = combine(flow, index, buffer, present.value, effect);
        old = present.value;
        sim_part_map_set(flow->held, part, made);
        part = present.next;
    }
}

static void judge_reads(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                        uint32_t n_reads)
{
    for (uint32_t i = 0; i < n_reads; i++)
        judge(flow, index, spans[i]);
}

/* Scratch: what the row's reads bring from elsewhere. */
static void gather_reads(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                         uint32_t n_reads, uint32_t n_writes)
{
    g_array_set_size(flow->scratch, 0);
    for (uint32_t i = 0; i < n_reads; i++)
        flow->read_at[spans[i].buffer] = index + 1;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++)
        flow->written_at[spans[i].buffer] = index + 1;
    for (uint32_t i = 0; i < n_reads; i++)
        if (!is_in_place(flow, index, spans[i].buffer))
            merge_span(flow, flow->scratch, spans[i]);
}

void sim_gradient_flow_run(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                           uint32_t n_reads, uint32_t n_writes)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    bool has_write = false, has_shard = false;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++) {
        uint8_t category = sim_plan_buffer(flow->plan, spans[i].buffer)->category;
        has_write |= holds_gradients(category, row);
        has_shard |= category == SIM_CATEGORY_PARAMETER_SHARD;
    }
    if (has_shard)
        judge_reads(flow, index, spans, n_reads);
    if (has_shard || !has_write)
        return;
    gather_reads(flow, index, spans, n_reads, n_writes);
    Effect effect = {.scale = row->op == SIM_PLAN_KERNEL ? kernel_scale(flow, row) : 1.0};
    effect.is_reduce = row->op == SIM_PLAN_COLLECTIVE &&
                       row->collective != SIM_COLLECTIVE_ALL_GATHER &&
                       row->collective != SIM_COLLECTIVE_BROADCAST && n_reads > 0;
    if (effect.is_reduce) {
        check_reduction(flow, index, spans, n_reads);
        reduce(flow, index, flow->scratch, spans[0].buffer);
    }
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++) {
        if (!holds_gradients(sim_plan_buffer(flow->plan, spans[i].buffer)->category, row))
            continue;
        effect.is_new = is_source(flow, row, spans, n_reads, spans[i].buffer);
        if (effect.is_new)
            note_produced(flow, row);
        write_gradient(flow, index, spans[i], effect);
    }
}
