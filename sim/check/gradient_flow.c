/* SPDX-License-Identifier: Apache-2.0 */
#include "check/gradient_flow.h"

#include <math.h>
#include <string.h>

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
    uint32_t *held;        /* by buffer: its set */
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
    flow->held = g_new0(uint32_t, n);
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
    g_free(flow->held);
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
    flow->held[buffer] = 0;
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
        /* A buffer is as far as its part that is least far. */
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

static void reduce(SimGradientFlow *flow, uint32_t index, const SimInstruction *row,
                   const SimByteRange *spans, uint32_t n_reads)
{
    uint32_t members = sim_rank_view_members(flow->view, row->group);
    const char *group = sim_plan_group_name(flow->plan, row->group);
    double scale = reduction_scale(flow, row, members);
    for (uint32_t i = 0; i < flow->scratch->len; i++) {
        Contribution *c = &g_array_index(flow->scratch, Contribution, i);
        bool is_again = members > 1 && (c->groups & group_bit(row->group)) != 0;
        if (is_again && row->collective == SIM_COLLECTIVE_ALL_REDUCE) {
            /* The members hold the same by now: their sum is so many times that. DDP's accumulated
             * gradients go this way, divided each time. */
            c->scale *= scale * members;
            continue;
        }
        if (is_again) {
            report(flow, SIM_RULE_REDUCED_EVERYWHERE_ONCE, index, spans[0].buffer, "twice",
                   "row %u reduces the gradient of %s (microbatch %d) over group %s a second time",
                   index + 1, sim_plan_string(flow->plan, c->unit), c->microbatch, group);
            break;
        }
        c->reached *= members;
        c->groups |= group_bit(row->group);
        c->scale *= scale;
    }
    for (uint32_t i = 0; i < n_reads; i++) {
        uint32_t buffer = spans[i].buffer;
        if (flow->is_reduced[buffer] && flow->held[buffer] != 0) {
            g_autofree char *name = sim_rank_view_buffer_name(flow->view, buffer);
            report(flow, SIM_RULE_LEGAL_STATES, index, buffer, "again",
                   "row %u reduces %s again: nothing was written to it since the last reduction",
                   index + 1, name);
        }
        flow->is_reduced[buffer] = true;
    }
    if (members == 1)
        report(flow, SIM_RULE_NO_NEEDLESS_REDUCE, index, spans[0].buffer, "alone",
               "row %u reduces over group %s, which has one rank", index + 1, group);
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

/* Row INDEX applies the gradient in BUFFER. */
static void judge(SimGradientFlow *flow, uint32_t index, uint32_t buffer)
{
    Set set = g_array_index(flow->sets, Set, flow->held[buffer]);
    if (set.n == 0)
        return;
    flow->judged++;
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
        if (flow->held[spans[i].buffer] != 0)
            return false;
        has_other = true;
    }
    return has_other;
}

/* A part of BUFFER is written with what RESULT holds; the rest keeps what it had. What has been
 * reduced further than the new part is about to be replaced too: a bucket is filled piece by piece.
 */
static void merge_rest(SimGradientFlow *flow, uint32_t buffer)
{
    Set rest = g_array_index(flow->sets, Set, flow->held[buffer]);
    uint32_t reached = UINT32_MAX;
    for (guint i = 0; i < flow->result->len; i++)
        reached = MIN(reached, g_array_index(flow->result, Contribution, i).reached);
    for (uint32_t i = 0; i < rest.n; i++) {
        Contribution old = g_array_index(flow->contributions, Contribution, rest.first + i);
        if (old.reached <= reached)
            merge(flow->result, old);
    }
}

/* Row INDEX writes WRITTEN; scratch holds what its other reads bring. A kernel that works in place
 * on many buffers at once leaves each with its own. */
static void write_gradient(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                           uint32_t n_reads, SimByteRange written, double scale)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    uint32_t buffer = written.buffer;
    bool is_in_place = row->op != SIM_PLAN_COLLECTIVE && flow->read_at[buffer] == index + 1;
    bool is_new = is_source(flow, row, spans, n_reads, buffer);
    if (is_new)
        note_produced(flow, row);
    flow->is_reduced[buffer] = false;
    if (is_in_place && !is_new && flow->scratch->len == 0 && scale == 1.0)
        return;
    g_array_set_size(flow->result, 0);
    g_array_append_vals(flow->result, flow->scratch->data, flow->scratch->len);
    if (is_in_place)
        merge_set(flow, flow->result, flow->held[buffer]);
    for (guint i = 0; i < flow->result->len; i++)
        g_array_index(flow->result, Contribution, i).scale *= scale;
    if (is_new)
        merge(flow->result, (Contribution){.unit = row->unit,
                                           .step = row->step,
                                           .microbatch = row->microbatch,
                                           .reached = 1,
                                           .scale = 1.0});
    if (!is_in_place &&
        (written.begin > 0 || written.end < sim_plan_buffer(flow->plan, buffer)->bytes))
        merge_rest(flow, buffer);
    flow->held[buffer] = new_set(flow);
}

void sim_gradient_flow_run(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                           uint32_t n_reads, uint32_t n_writes)
{
    const SimInstruction *row = sim_plan_instruction(flow->plan, index);
    g_array_set_size(flow->scratch, 0);
    bool has_write = false, has_shard = false;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++) {
        uint8_t category = sim_plan_buffer(flow->plan, spans[i].buffer)->category;
        has_write |= holds_gradients(category, row);
        has_shard |= category == SIM_CATEGORY_PARAMETER_SHARD;
    }
    if (has_shard) {
        for (uint32_t i = 0; i < n_reads; i++)
            judge(flow, index, spans[i].buffer);
        return;
    }
    if (!has_write)
        return;
    bool is_collective = row->op == SIM_PLAN_COLLECTIVE;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++)
        flow->written_at[spans[i].buffer] = index + 1;
    for (uint32_t i = 0; i < n_reads; i++) {
        flow->read_at[spans[i].buffer] = index + 1;
        if (is_collective || flow->written_at[spans[i].buffer] != index + 1)
            merge_set(flow, flow->scratch, flow->held[spans[i].buffer]);
    }
    if (is_collective && row->collective != SIM_COLLECTIVE_ALL_GATHER &&
        row->collective != SIM_COLLECTIVE_BROADCAST && n_reads > 0)
        reduce(flow, index, row, spans, n_reads);
    double scale = row->op == SIM_PLAN_KERNEL ? kernel_scale(flow, row) : 1.0;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++)
        if (holds_gradients(sim_plan_buffer(flow->plan, spans[i].buffer)->category, row))
            write_gradient(flow, index, spans, n_reads, spans[i], scale);
}
