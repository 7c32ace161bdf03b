/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/waiting.h"

static GArray *collect_classes(const SimSimulation *simulation, const SimResult *result)
{
    uint32_t classes = sim_simulation_classes(simulation);
    GArray *lines = g_array_sized_new(FALSE, TRUE, sizeof(SimWaitingLine), classes);
    g_array_set_size(lines, classes);
    for (guint i = 0; i < result->classes->len; i++) {
        const SimClassResult *class_ = &g_array_index(result->classes, SimClassResult, i);
        SimWaitingLine *line = &g_array_index(
            lines, SimWaitingLine, sim_simulation_class_of_rank(simulation, class_->rank));
        if (line->ranks == 0) {
            line->rank = class_->rank;
            line->late = class_->late;
        }
        line->ranks += class_->count;
        line->waited = class_->waited;
        line->caused += class_->caused;
    }
    return lines;
}

static int compare_waited(const void *a, const void *b)
{
    const SimWaitingLine *x = a;
    const SimWaitingLine *y = b;
    if (x->waited != y->waited) {
        return x->waited > y->waited ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int compare_caused(const void *a, const void *b)
{
    const SimWaitingLine *x = a;
    const SimWaitingLine *y = b;
    if (x->caused != y->caused) {
        return x->caused > y->caused ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int compare_causes(const void *a, const void *b)
{
    const SimWaitingCause *x = a;
    const SimWaitingCause *y = b;
    if (x->time != y->time) {
        return x->time > y->time ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* What holds at PLACE (0 .. ranks - 1) of all ranks in the order of LINES, the longest first. */
static SimTime waited_at(const GArray *lines, uint32_t place)
{
    uint32_t behind = 0;
    for (guint i = 0; i < lines->len; i++) {
        const SimWaitingLine *line = &g_array_index(lines, SimWaitingLine, i);
        behind += line->ranks;
        if (place < behind) {
            return line->waited;
        }
    }
    return 0;
}

static void add_cause(GArray *causes, uint32_t rank, SimTime time)
{
    for (guint i = 0; i < causes->len; i++) {
        SimWaitingCause *cause = &g_array_index(causes, SimWaitingCause, i);
        if (cause->rank == rank) {
            cause->time += time;
            return;
        }
    }
    SimWaitingCause cause = {rank, time};
    g_array_append_val(causes, cause);
}

/* For whom LINE's first rank waits. */
static void find_causes(SimWaitingLine *line, const SimSimulation *simulation)
{
    g_autoptr(GArray) causes = g_array_new(FALSE, FALSE, sizeof(SimWaitingCause));
    for (guint i = 0; line->late != NULL && i < line->late->len; i++) {
        const SimLateness *late = &g_array_index(line->late, SimLateness, i);
        add_cause(causes,
                  sim_simulation_late_rank(simulation, line->rank, late->group, late->entity),
                  late->waited);
    }
    g_array_sort(causes, compare_causes);
    line->n_causes = MIN(causes->len, SIM_WAITING_CAUSES);
    for (uint32_t i = 0; i < line->n_causes; i++) {
        line->causes[i] = g_array_index(causes, SimWaitingCause, i);
    }
}

SimWaiting *sim_waiting_new(const SimSimulation *simulation, const SimResult *result)
{
    g_autoptr(GArray) lines = collect_classes(simulation, result);
    SimWaiting *waiting = g_new0(SimWaiting, 1);
    waiting->waiters = g_array_new(FALSE, FALSE, sizeof(SimWaitingLine));
    waiting->causers = g_array_new(FALSE, FALSE, sizeof(SimWaitingLine));

    g_array_sort(lines, compare_waited);
    waiting->max = waited_at(lines, 0);
    waiting->median = waited_at(lines, result->ranks / 2);
    waiting->min = waited_at(lines, result->ranks - 1);
    for (guint i = 0; i < MIN(lines->len, SIM_WAITING_LINES); i++) {
        SimWaitingLine line = g_array_index(lines, SimWaitingLine, i);
        if (line.waited > 0 && lines->len > 1) {
            find_causes(&line, simulation);
            g_array_append_val(waiting->waiters, line);
        }
    }
    g_array_sort(lines, compare_caused);
    for (guint i = 0; i < MIN(lines->len, SIM_WAITING_LINES); i++) {
        const SimWaitingLine *line = &g_array_index(lines, SimWaitingLine, i);
        if (line->caused > 0 && lines->len > 1) {
            g_array_append_vals(waiting->causers, line, 1);
        }
    }
    return waiting;
}

void sim_waiting_free(SimWaiting *waiting)
{
    if (waiting == NULL) {
        return;
    }
    g_array_unref(waiting->waiters);
    g_array_unref(waiting->causers);
    g_free(waiting);
}
