/* SPDX-License-Identifier: Apache-2.0 */
#include "check/freshness.h"

#define NO_ROW UINT32_MAX

/* A version of a shard: the row that wrote it (NO_ROW: nothing did). */
typedef struct Stamp {
    uint32_t shard;
    uint32_t written;
} Stamp;

/* What a copy holds; number 0 = nothing known. */
typedef struct Origin {
    uint32_t first, n; /* in stamps */
    uint32_t copied;   /* row of the first copy */
} Origin;

struct SimFreshness {
    const SimRankView *view;
    const SimPlan *plan;
    SimFindings *findings;
    uint32_t *origin;    /* by buffer; of a shard: unused */
    uint32_t *written;   /* by buffer: last row that wrote the shard */
    uint32_t *updated;   /* by buffer: last row of phase optimizer that wrote the shard */
    GArray *origins;     /* of Origin */
    GArray *stamps;      /* of Stamp */
    GArray *gathered;    /* of Stamp: scratch */
    uint32_t last_write; /* of any shard */
    bool has_write;
};

SimFreshness *sim_freshness_new(const SimRankView *view, SimFindings *findings)
{
    SimFreshness *freshness = g_new0(SimFreshness, 1);
    freshness->view = view;
    freshness->plan = sim_rank_view_plan(view);
    freshness->findings = findings;
    size_t n = MAX(sim_plan_buffer_count(freshness->plan), 1);
    freshness->origin = g_new0(uint32_t, n);
    freshness->written = g_new(uint32_t, n);
    freshness->updated = g_new(uint32_t, n);
    for (size_t i = 0; i < n; i++)
        freshness->written[i] = freshness->updated[i] = NO_ROW;
    freshness->origins = g_array_new(FALSE, TRUE, sizeof(Origin));
    freshness->stamps = g_array_new(FALSE, FALSE, sizeof(Stamp));
    freshness->gathered = g_array_new(FALSE, FALSE, sizeof(Stamp));
    g_array_set_size(freshness->origins, 1);
    return freshness;
}

void sim_freshness_free(SimFreshness *freshness)
{
    if (freshness == NULL)
        return;
    g_free(freshness->origin);
    g_free(freshness->written);
    g_free(freshness->updated);
    g_array_unref(freshness->origins);
    g_array_unref(freshness->stamps);
    g_array_unref(freshness->gathered);
    g_free(freshness);
}

void sim_freshness_forget(SimFreshness *freshness, uint32_t buffer)
{
    freshness->origin[buffer] = 0;
    freshness->written[buffer] = freshness->updated[buffer] = NO_ROW;
}

static SimCategory category_of(const SimFreshness *freshness, uint32_t buffer)
{
    return (SimCategory)sim_plan_buffer(freshness->plan, buffer)->category;
}

/* Categories whose buffers hold weights and nothing else. */
static bool holds_copies(SimCategory category)
{
    return category == SIM_CATEGORY_ALL_GATHER_OUTPUT ||
           category == SIM_CATEGORY_UNSHARDED_PARAMETER ||
           category == SIM_CATEGORY_POST_FORWARD_SHARD ||
           category == SIM_CATEGORY_LOW_PRECISION_SHARD;
}

static void gather_stamp(GArray *stamps, Stamp stamp)
{
    for (guint i = stamps->len; i > 0; i--) {
        Stamp *known = &g_array_index(stamps, Stamp, i - 1);
        if (known->shard != stamp.shard)
            continue;
        /* The older version counts. */
        if (known->written != NO_ROW && (stamp.written == NO_ROW || stamp.written < known->written))
            known->written = stamp.written;
        return;
    }
    g_array_append_val(stamps, stamp);
}

static void gather_origin(SimFreshness *freshness, uint32_t origin)
{
    const Origin *o = &g_array_index(freshness->origins, Origin, origin);
    for (uint32_t i = 0; i < o->n; i++)
        gather_stamp(freshness->gathered, g_array_index(freshness->stamps, Stamp, o->first + i));
}

static uint32_t new_origin(SimFreshness *freshness, uint32_t copied)
{
    GArray *gathered = freshness->gathered;
    if (gathered->len == 0)
        return 0;
    Origin origin = {.first = freshness->stamps->len, .n = gathered->len, .copied = copied};
    g_array_append_vals(freshness->stamps, gathered->data, gathered->len);
    g_array_append_val(freshness->origins, origin);
    return freshness->origins->len - 1;
}

/* What the reads of the row hold together. */
static uint32_t origin_of_reads(SimFreshness *freshness, uint32_t index, const SimByteRange *spans,
                                uint32_t n)
{
    uint32_t single = 0, copied = index;
    bool is_single = true;
    g_array_set_size(freshness->gathered, 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t origin = freshness->origin[spans[i].buffer];
        if (category_of(freshness, spans[i].buffer) == SIM_CATEGORY_PARAMETER_SHARD)
            is_single = false;
        else if (origin != 0 && single == 0)
            single = origin;
        else if (origin != single)
            is_single = false;
    }
    if (is_single)
        return single;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t buffer = spans[i].buffer;
        if (category_of(freshness, buffer) == SIM_CATEGORY_PARAMETER_SHARD) {
            gather_stamp(freshness->gathered,
                         (Stamp){.shard = buffer, .written = freshness->written[buffer]});
        } else if (freshness->origin[buffer] != 0) {
            gather_origin(freshness, freshness->origin[buffer]);
            copied =
                MIN(copied,
                    g_array_index(freshness->origins, Origin, freshness->origin[buffer]).copied);
        }
    }
    return new_origin(freshness, copied);
}

static void report_stale(SimFreshness *freshness, uint32_t index, uint32_t buffer,
                         const Origin *origin, uint32_t shard)
{
    const SimRankView *view = freshness->view;
    uint32_t written = freshness->written[shard];
    SimFinding finding = {.rule = SIM_RULE_NO_STALE_UNSHARDED,
                          .buffer_id = buffer,
                          .free_row = UINT32_MAX,
                          .n_places = 3};
    finding.places[0] = sim_rank_view_place(view, origin->copied, "copied");
    finding.places[1] = sim_rank_view_place(view, written, "written");
    finding.places[2] = sim_rank_view_place(view, index, "used");
    sim_rank_view_situate(view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(view, buffer);
    g_autofree char *shard_name = sim_rank_view_buffer_name(view, shard);
    finding.message = g_strdup_printf("stale weights: row %u (%s) uses %s, gathered at row %u, but "
                                      "%s was written at row %u since",
                                      index + 1, finding.places[2].text, finding.buffer,
                                      origin->copied + 1, shard_name, written + 1);
    finding.remedy =
        g_strdup_printf("reshard the unit before row %u and gather it again after", written + 1);
    g_autofree char *key = g_strdup_printf("2 %s %s", finding.unit, shard_name);
    sim_findings_add(freshness->findings, finding, key);
}

/* The copy in BUFFER is older than a write of one of its shards. */
static void check_use(SimFreshness *freshness, uint32_t index, uint32_t buffer)
{
    const Origin *origin = &g_array_index(freshness->origins, Origin, freshness->origin[buffer]);
    if (freshness->origin[buffer] == 0 || !freshness->has_write ||
        freshness->last_write < origin->copied)
        return;
    for (uint32_t i = 0; i < origin->n; i++) {
        Stamp stamp = g_array_index(freshness->stamps, Stamp, origin->first + i);
        if (freshness->written[stamp.shard] == stamp.written)
            continue;
        report_stale(freshness, index, buffer, origin, stamp.shard);
        return;
    }
}

static void report_twice(SimFreshness *freshness, uint32_t index, uint32_t shard)
{
    const SimRankView *view = freshness->view;
    SimFinding finding = {
        .rule = SIM_RULE_UPDATED_TWICE, .buffer_id = shard, .free_row = UINT32_MAX, .n_places = 2};
    finding.places[0] = sim_rank_view_place(view, freshness->updated[shard], "earlier");
    finding.places[1] = sim_rank_view_place(view, index, "later");
    sim_rank_view_situate(view, index, &finding);
    finding.buffer = sim_rank_view_buffer_name(view, shard);
    finding.message = g_strdup_printf(
        "%s is updated twice in step %d: row %u (%s), and row %u again", finding.buffer,
        finding.step, freshness->updated[shard] + 1, finding.places[0].text, index + 1);
    g_autofree char *key = g_strdup_printf("twice %s", finding.buffer);
    sim_findings_add(freshness->findings, finding, key);
}

/* The same operator writes the shard again in the same step: an optimizer made of several kernels
 * has different ones. */
static void write_shard(SimFreshness *freshness, uint32_t index, uint32_t shard)
{
    const SimInstruction *row = sim_plan_instruction(freshness->plan, index);
    if (row->phase == SIM_PHASE_OPTIMIZER) {
        uint32_t before = freshness->updated[shard];
        if (before != NO_ROW && before != index) {
            const SimInstruction *earlier = sim_plan_instruction(freshness->plan, before);
            if (earlier->step == row->step && earlier->microbatch == row->microbatch &&
                earlier->operator_name == row->operator_name && earlier->name == row->name)
                report_twice(freshness, index, shard);
        }
        freshness->updated[shard] = index;
    }
    freshness->written[shard] = index;
    freshness->last_write = index;
    freshness->has_write = true;
}

/* True if the reads hold weights and nothing else: then what they are copied to does too. */
static bool reads_weights_only(const SimFreshness *freshness, const SimByteRange *spans, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        SimCategory category = category_of(freshness, spans[i].buffer);
        if (category != SIM_CATEGORY_PARAMETER_SHARD && !holds_copies(category) &&
            (category != SIM_CATEGORY_TEMPORARY || freshness->origin[spans[i].buffer] == 0))
            return false;
    }
    return n > 0;
}

void sim_freshness_run(SimFreshness *freshness, uint32_t index, const SimByteRange *spans,
                       uint32_t n_reads, uint32_t n_writes)
{
    bool has_copy = false, is_copy = reads_weights_only(freshness, spans, n_reads);
    for (uint32_t i = 0; i < n_reads; i++)
        check_use(freshness, index, spans[i].buffer);
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++) {
        SimCategory category = category_of(freshness, spans[i].buffer);
        has_copy |= holds_copies(category) || (is_copy && category == SIM_CATEGORY_TEMPORARY);
    }
    uint32_t origin = has_copy ? origin_of_reads(freshness, index, spans, n_reads) : 0;
    for (uint32_t i = n_reads; i < n_reads + n_writes; i++) {
        uint32_t buffer = spans[i].buffer;
        SimCategory category = category_of(freshness, buffer);
        uint64_t bytes = sim_plan_buffer(freshness->plan, buffer)->bytes;
        if (category == SIM_CATEGORY_PARAMETER_SHARD) {
            write_shard(freshness, index, buffer);
            continue;
        }
        if (!holds_copies(category) && !(is_copy && category == SIM_CATEGORY_TEMPORARY))
            continue;
        bool is_whole = spans[i].begin == 0 && spans[i].end == bytes;
        uint32_t held = freshness->origin[buffer];
        if (is_whole || held == 0 || held == origin) {
            freshness->origin[buffer] = origin;
            continue;
        }
        g_array_set_size(freshness->gathered, 0);
        gather_origin(freshness, held);
        gather_origin(freshness, origin);
        freshness->origin[buffer] =
            new_origin(freshness, g_array_index(freshness->origins, Origin, held).copied);
    }
}
