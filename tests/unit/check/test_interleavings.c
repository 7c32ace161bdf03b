/* SPDX-License-Identifier: Apache-2.0
 *
 * The race search against all interleavings. A small random plan (three streams, some kernels on
 * two buffers, records, waits, host waits) is unsafe exactly if some reachable state lets two
 * kernels run that touch the same bytes, one of them writing. States are explored one by one: where
 * the host is and how far each stream has got.
 *
 * Pins: clocks and histories, on arbitrary graphs. Not pinned here: reuse and lives (test_cases,
 * oracle/test_check_mutations).
 */
#include <check.h>

#include "check/verifier.h"

#define STREAMS 3
#define BUFFERS 2
#define ROWS 14
#define PLANS 4000

typedef struct State {
    uint32_t host;          /* rows issued */
    uint32_t done[STREAMS]; /* of each stream's rows */
} State;

typedef struct Search {
    const SimPlan *plan;
    uint32_t n;
    uint32_t queue[STREAMS][ROWS + BUFFERS];
    uint32_t length[STREAMS];
    GHashTable *seen; /* State bytes */
    bool has_race;
} Search;

static void note_record(const Search *search, const State *state, uint32_t event, bool *is_recorded)
{
    *is_recorded = false;
    for (uint32_t s = 0; s < STREAMS; s++)
        for (uint32_t i = 0; i < state->done[s]; i++) {
            const SimInstruction *row = sim_plan_instruction(search->plan, search->queue[s][i]);
            *is_recorded |= row->op == SIM_PLAN_RECORD && row->event == event;
        }
}

/* True if the head of stream S may run now. */
static bool is_enabled(const Search *search, const State *state, uint32_t s, uint32_t *row_index)
{
    if (state->done[s] >= search->length[s])
        return false;
    *row_index = search->queue[s][state->done[s]];
    if (*row_index >= state->host)
        return false;
    const SimInstruction *row = sim_plan_instruction(search->plan, *row_index);
    if (row->op != SIM_PLAN_WAIT)
        return true;
    bool is_recorded;
    if (!row->is_event_of_stream) {
        note_record(search, state, row->event, &is_recorded);
        return is_recorded;
    }
    uint32_t other = row->event;
    return state->done[other] >= search->length[other] ||
           search->queue[other][state->done[other]] > *row_index;
}

static bool is_conflict(const SimPlan *plan, uint32_t a, uint32_t b)
{
    const SimInstruction *x = sim_plan_instruction(plan, a), *y = sim_plan_instruction(plan, b);
    for (uint32_t i = 0; i < (uint32_t)x->n_reads + x->n_writes; i++)
        for (uint32_t j = 0; j < (uint32_t)y->n_reads + y->n_writes; j++) {
            const SimTouch *p = &sim_plan_touches(plan, x)[i], *q = &sim_plan_touches(plan, y)[j];
            bool is_apart = p->bytes != 0 && q->bytes != 0 && p->offset != q->offset;
            if (p->buffer == q->buffer && !is_apart && (i >= x->n_reads || j >= y->n_reads))
                return true;
        }
    return false;
}

static bool host_may_go(const Search *search, const State *state)
{
    if (state->host >= search->n)
        return false;
    const SimInstruction *row = sim_plan_instruction(search->plan, state->host);
    bool is_recorded = true;
    if (row->op == SIM_PLAN_HOST_WAIT)
        note_record(search, state, row->event, &is_recorded);
    return is_recorded;
}

static void explore(Search *search, State state)
{
    if (search->has_race)
        return;
    GBytes *key = g_bytes_new(&state, sizeof state);
    if (!g_hash_table_add(search->seen, key))
        return;
    uint32_t enabled[STREAMS], rows[STREAMS], n = 0;
    for (uint32_t s = 0; s < STREAMS; s++)
        if (is_enabled(search, &state, s, &rows[n]))
            enabled[n++] = s;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            search->has_race |= is_conflict(search->plan, rows[i], rows[j]);
    if (host_may_go(search, &state)) {
        State next = state;
        next.host++;
        explore(search, next);
    }
    for (uint32_t i = 0; i < n; i++) {
        State next = state;
        next.done[enabled[i]]++;
        explore(search, next);
    }
}

static bool has_race(const SimPlan *plan)
{
    Search search = {.plan = plan, .n = (uint32_t)sim_plan_length(plan)};
    search.seen =
        g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    for (uint32_t i = 0; i < search.n; i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_KERNEL || row->op == SIM_PLAN_RECORD || row->op == SIM_PLAN_WAIT)
            search.queue[row->stream][search.length[row->stream]++] = i;
    }
    explore(&search, (State){0});
    g_hash_table_unref(search.seen);
    return search.has_race;
}

/* --- random plans -------------------------------------------------------------------------------
 */

static const char *const stream_names[STREAMS] = {"compute", "s1", "s2"};

static void add_kernel(SimPlan *plan, GRand *rand, const uint32_t *buffers)
{
    SimStringId name = sim_strings_intern(sim_plan_strings(plan), "k");
    sim_plan_kernel(plan, (uint32_t)g_rand_int_range(rand, 0, STREAMS), name, name, SIM_DTYPE_NONE);
    SimTouch touch = SIM_TOUCH_WHOLE(buffers[g_rand_int_range(rand, 0, BUFFERS)]);
    switch (g_rand_int_range(rand, 0, 4)) { /* a half, the other half, twice the whole */
    case 0:
        touch.bytes = 64;
        break;
    case 1:
        touch.bytes = touch.offset = 64;
        break;
    default:
        break;
    }
    if (g_rand_int_range(rand, 0, 3) == 0)
        sim_plan_add_read(plan, touch);
    else
        sim_plan_add_write(plan, touch);
}

static SimPlan *draw_plan(GRand *rand)
{
    SimPlan *plan = sim_plan_new(1);
    uint32_t buffers[BUFFERS], events[ROWS], n_events = 0;
    for (uint32_t s = 0; s < STREAMS; s++)
        sim_plan_stream(plan, stream_names[s]);
    for (uint32_t b = 0; b < BUFFERS; b++) {
        SimName name = {.stem = sim_strings_intern(sim_plan_strings(plan), "b"),
                        .serial = (int32_t)b};
        /* An input comes filled, so that a read first is no finding. */
        buffers[b] = sim_plan_alloc(plan, 0, name, 128, SIM_CATEGORY_INPUT, SIM_DTYPE_NONE, 0);
    }
    for (uint32_t i = 0; i < ROWS - BUFFERS; i++) {
        uint32_t stream = (uint32_t)g_rand_int_range(rand, 0, STREAMS);
        int choice = g_rand_int_range(rand, 0, 10);
        if (choice < 2) {
            SimName name = {.stem = sim_strings_intern(sim_plan_strings(plan), "e"),
                            .serial = (int32_t)n_events};
            events[n_events++] = sim_plan_record(plan, stream, name);
        } else if (choice < 4 && n_events > 0) {
            sim_plan_wait(plan, stream, events[g_rand_int_range(rand, 0, (gint32)n_events)]);
        } else if (choice == 4 && n_events > 0) {
            sim_plan_host_wait(plan, events[g_rand_int_range(rand, 0, (gint32)n_events)]);
        } else if (choice == 5) {
            sim_plan_wait_stream(plan, stream, (stream + 1) % STREAMS);
        } else {
            add_kernel(plan, rand, buffers);
        }
    }
    return plan;
}

START_TEST(races_are_found_exactly_where_an_interleaving_has_one)
{
    GRand *rand = g_rand_new_with_seed(20260131);
    uint32_t table[2][2] = {{0}};
    for (uint32_t i = 0; i < PLANS; i++) {
        g_autoptr(SimPlan) plan = draw_plan(rand);
        g_autoptr(SimVerdict) verdict = sim_verifier_check_plan(plan, "random", NULL);
        ck_assert_ptr_nonnull(verdict);
        bool expected = has_race(plan);
        bool reported = !sim_verdict_is_safe(verdict);
        table[expected][reported]++;
        if (expected != reported) {
            g_autofree char *text = sim_verdict_print(verdict, 3);
            ck_abort_msg("plan %u: expected %d, reported %d: %s", i, expected, reported, text);
        }
    }
    /* Both verdicts are common, or the test proves little. */
    ck_assert_uint_gt(table[0][0], PLANS / 20);
    ck_assert_uint_gt(table[1][1], PLANS / 20);
    g_rand_free(rand);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interleavings");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, races_are_found_exactly_where_an_interleaving_has_one);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
