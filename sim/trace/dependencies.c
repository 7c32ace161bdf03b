/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/dependencies.h"

static void free_rows(void *data)
{
    if (data != NULL) {
        g_array_unref(data);
    }
}

static GArray *new_rows(void)
{
    return g_array_new(FALSE, FALSE, sizeof(uint32_t));
}

void sim_dependencies_init(SimDependencies *order, const SimPlan *plan, uint32_t rank)
{
    uint32_t streams = sim_plan_stream_count(plan);
    *order = (SimDependencies){.plan = plan, .rank = rank, .row = SIM_PLAN_NONE};
    order->last = g_new(uint32_t, streams);
    order->pending = g_ptr_array_new_with_free_func(free_rows);
    order->events = g_ptr_array_new_with_free_func(free_rows);
    g_ptr_array_set_size(order->events, (int)sim_plan_event_count(plan));
    order->present = new_rows();
    order->behind_host = new_rows();
    order->waits = order->present;
    order->host_waits = order->behind_host;
    for (uint32_t stream = 0; stream < streams; stream++) {
        order->last[stream] = SIM_PLAN_NONE;
        g_ptr_array_add(order->pending, new_rows());
    }
}

void sim_dependencies_done(SimDependencies *order)
{
    g_free(order->last);
    g_ptr_array_unref(order->pending);
    g_ptr_array_unref(order->events);
    g_array_unref(order->present);
    g_array_unref(order->behind_host);
}

/* Keeps ROWS ascending and each row once. O(rows). */
static void add_row(GArray *rows, uint32_t row)
{
    guint at = rows->len;
    while (at > 0 && g_array_index(rows, uint32_t, at - 1) >= row) {
        at--;
    }
    if (at == rows->len || g_array_index(rows, uint32_t, at) != row) {
        g_array_insert_val(rows, at, row);
    }
}

static void add_rows(GArray *rows, const GArray *more)
{
    for (guint i = 0; i < more->len; i++) {
        add_row(rows, g_array_index(more, uint32_t, i));
    }
}

/* All that STREAM has been given so far. */
static void add_stream(const SimDependencies *order, GArray *rows, uint32_t stream)
{
    if (order->last[stream] != SIM_PLAN_NONE) {
        add_row(rows, order->last[stream]);
    }
    add_rows(rows, g_ptr_array_index(order->pending, stream));
}

static void record_event(SimDependencies *order, const SimInstruction *instruction)
{
    GArray *rows = new_rows();
    add_stream(order, rows, instruction->stream);
    free_rows(g_ptr_array_index(order->events, instruction->event));
    g_ptr_array_index(order->events, instruction->event) = rows;
}

static void wait_on_stream(SimDependencies *order, const SimInstruction *instruction)
{
    GArray *pending = g_ptr_array_index(order->pending, instruction->stream);
    if (instruction->is_event_of_stream) {
        add_stream(order, pending, instruction->event);
    } else if (g_ptr_array_index(order->events, instruction->event) != NULL) {
        add_rows(pending, g_ptr_array_index(order->events, instruction->event));
    }
}

static void take_item(SimDependencies *order, uint32_t row, const SimInstruction *instruction)
{
    GArray *pending = g_ptr_array_index(order->pending, instruction->stream);
    order->row = row;
    order->instruction = instruction;
    order->before = order->last[instruction->stream];
    order->last[instruction->stream] = row;
    g_array_set_size(order->present, 0);
    add_rows(order->present, pending);
    g_array_set_size(pending, 0);
}

static void take_host_wait(SimDependencies *order, uint32_t row, const SimInstruction *instruction)
{
    const GArray *rows = g_ptr_array_index(order->events, instruction->event);
    order->row = row;
    order->instruction = instruction;
    order->before = SIM_PLAN_NONE;
    g_array_set_size(order->present, 0);
    if (rows != NULL) {
        add_rows(order->present, rows);
        g_array_set_size(order->behind_host, 0);
        add_rows(order->behind_host, rows);
    }
}

bool sim_dependencies_next(SimDependencies *order)
{
    while (order->next_row < sim_plan_length(order->plan)) {
        uint32_t row = (uint32_t)order->next_row++;
        const SimInstruction *instruction = sim_plan_instruction(order->plan, row);
        if (!sim_plan_rank_set_has(order->plan, instruction->rank_set, order->rank)) {
            continue;
        }
        switch ((SimPlanOp)instruction->op) {
        case SIM_PLAN_RECORD:
            record_event(order, instruction);
            break;
        case SIM_PLAN_WAIT:
            wait_on_stream(order, instruction);
            break;
        case SIM_PLAN_KERNEL:
        case SIM_PLAN_COPY:
        case SIM_PLAN_COLLECTIVE:
            take_item(order, row, instruction);
            return true;
        case SIM_PLAN_HOST_WAIT:
            take_host_wait(order, row, instruction);
            return true;
        default:
            break;
        }
    }
    return false;
}
