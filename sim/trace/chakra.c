/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra.h"

#include <chakra.pb-c.h>

#include "trace/dependencies.h"

#define MOST_ATTRIBUTES 8

/* A node while it is being made. */
typedef struct Draft {
    Chakra__Node node;
    Chakra__Attribute attributes[MOST_ATTRIBUTES];
    Chakra__Attribute *pointers[MOST_ATTRIBUTES];
    GArray *data, *control; /* of uint64_t */
} Draft;

/* MESSAGE behind its length. */
static void write_message(const ProtobufCMessage *message, SimOutputFile *file)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    g_autofree uint8_t *bytes = g_new(uint8_t, MAX(1, length));
    for (size_t rest = length;; rest >>= 7) {
        char byte = (char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
        sim_output_file_write(file, &byte, 1);
        if (rest <= 0x7f) {
            break;
        }
    }
    protobuf_c_message_pack(message, bytes);
    sim_output_file_write(file, (const char *)bytes, length);
}

/* protobuf-c declares texts that it only reads as not constant. */
static char *borrow(const char *text)
{
    return (char *)(uintptr_t)text;
}

static Chakra__Attribute *add_attribute(Draft *draft, const char *name)
{
    size_t index = draft->node.n_attr++;
    g_assert(index < MOST_ATTRIBUTES);
    draft->attributes[index] = (Chakra__Attribute)CHAKRA__ATTRIBUTE__INIT;
    draft->attributes[index].name = borrow(name);
    draft->pointers[index] = &draft->attributes[index];
    return draft->pointers[index];
}

static void add_bool(Draft *draft, const char *name, bool value)
{
    Chakra__Attribute *attribute = add_attribute(draft, name);
    attribute->value_case = CHAKRA__ATTRIBUTE__VALUE_BOOL_VAL;
    attribute->bool_val = value;
}

static void add_int(Draft *draft, const char *name, uint64_t value)
{
    Chakra__Attribute *attribute = add_attribute(draft, name);
    attribute->value_case = CHAKRA__ATTRIBUTE__VALUE_INT64_VAL;
    attribute->int64_val = (int64_t)value;
}

static void add_uint(Draft *draft, const char *name, uint64_t value)
{
    Chakra__Attribute *attribute = add_attribute(draft, name);
    attribute->value_case = CHAKRA__ATTRIBUTE__VALUE_UINT64_VAL;
    attribute->uint64_val = value;
}

static void add_text(Draft *draft, const char *name, const char *value)
{
    Chakra__Attribute *attribute = add_attribute(draft, name);
    attribute->value_case = CHAKRA__ATTRIBUTE__VALUE_STRING_VAL;
    attribute->string_val = borrow(value);
}

/* --- nodes -------------------------------------------------------------------------------------
 */

static int comm_type(SimCollectiveKind kind)
{
    switch (kind) {
    case SIM_COLLECTIVE_ALL_GATHER:
        return 2;
    case SIM_COLLECTIVE_REDUCE_SCATTER:
        return 7;
    case SIM_COLLECTIVE_BROADCAST:
        return 5;
    case SIM_COLLECTIVE_ALL_REDUCE:
    case SIM_COLLECTIVE_NONE:
    case SIM_COLLECTIVE_COUNT:
        break;
    }
    return 0;
}

/* The number of list LIST of GROUP in the file of groups. */
static uint32_t communicator_number(const SimPlan *plan, uint32_t group, uint32_t list)
{
    uint32_t number = 1 + list;
    for (uint32_t before = 0; before < group; before++) {
        number += sim_plan_group_lists(plan, before);
    }
    return number;
}

static void describe_collective(Draft *draft, const SimInstruction *instruction,
                                const char *communicator, uint32_t members)
{
    SimCollectiveKind kind = (SimCollectiveKind)instruction->collective;
    uint64_t bytes = instruction->bytes;
    if (kind == SIM_COLLECTIVE_ALL_GATHER) {
        bytes /= members;
    }
    draft->node.type = CHAKRA__NODE_TYPE__COMM_COLL_NODE;
    add_int(draft, "comm_type", (uint64_t)comm_type(kind));
    add_int(draft, "comm_size", bytes);
    add_text(draft, "pg_name", communicator);
}

static void describe_work(Draft *draft, const SimInstruction *instruction)
{
    if (instruction->op == SIM_PLAN_COPY) {
        draft->node.type = instruction->is_device_to_host ? CHAKRA__NODE_TYPE__MEM_STORE_NODE
                                                          : CHAKRA__NODE_TYPE__MEM_LOAD_NODE;
        add_uint(draft, "tensor_size", instruction->bytes);
    } else {
        draft->node.type = CHAKRA__NODE_TYPE__COMP_NODE;
        add_int(draft, "num_ops", instruction->flops);
        add_uint(draft, "tensor_size", instruction->hbm_bytes);
    }
}

static void set_ids(GArray *ids, uint32_t before, const GArray *rows)
{
    g_array_set_size(ids, 0);
    if (before != SIM_PLAN_NONE) {
        uint64_t id = (uint64_t)before + 1;
        g_array_append_val(ids, id);
    }
    for (guint i = 0; i < rows->len; i++) {
        uint64_t id = (uint64_t)g_array_index(rows, uint32_t, i) + 1;
        if (id != (uint64_t)before + 1) {
            g_array_append_val(ids, id);
        }
    }
}

static void time_node(Draft *draft, const SimSpan *span)
{
    if (span != NULL) {
        draft->node.start_time_micros = (uint64_t)(span->arrival / SIM_MICROSECOND);
        draft->node.duration_micros =
            (uint64_t)((span->end - span->start + SIM_MICROSECOND / 2) / SIM_MICROSECOND);
    }
}

static void write_node(Draft *draft, const SimDependencies *order, const SimSpan *span,
                       SimOutputFile *file)
{
    const SimInstruction *instruction = order->instruction;
    uint32_t list, place, members;
    char communicator[16] = "";
    draft->node = (Chakra__Node)CHAKRA__NODE__INIT;
    draft->node.attr = draft->pointers;
    draft->node.id = (uint64_t)order->row + 1;
    draft->node.name = borrow(sim_plan_string(order->plan, instruction->name));
    set_ids(draft->data, order->before, order->waits);
    set_ids(draft->control, SIM_PLAN_NONE, order->host_waits);
    draft->node.n_data_deps = draft->data->len;
    draft->node.data_deps = (uint64_t *)(void *)draft->data->data;
    draft->node.n_ctrl_deps = draft->control->len;
    draft->node.ctrl_deps = (uint64_t *)(void *)draft->control->data;
    time_node(draft, span);
    add_bool(draft, "is_cpu_op", false);
    if (instruction->op == SIM_PLAN_COLLECTIVE &&
        sim_plan_group_of_rank(order->plan, instruction->group, order->rank, &list, &place,
                               &members)) {
        g_snprintf(communicator, sizeof communicator, "%u",
                   communicator_number(order->plan, instruction->group, list));
        describe_collective(draft, instruction, communicator, members);
    } else {
        describe_work(draft, instruction);
    }
    add_int(draft, "stream", instruction->stream);
    add_text(draft, "unit", sim_plan_string(order->plan, instruction->unit));
    add_text(draft, "phase", sim_plan_phase_name((SimPhase)instruction->phase));
    write_message(&draft->node.base, file);
}

static void write_metadata(SimOutputFile *file)
{
    Chakra__GlobalMetadata metadata = CHAKRA__GLOBAL_METADATA__INIT;
    metadata.version = borrow("0.0.4");
    write_message(&metadata.base, file);
}

/* Where each row's span is, or NULL. Owned by the caller. */
static const SimSpan **index_spans(const SimPlan *plan, const SimTrack *track)
{
    const SimSpan **spans = g_new0(const SimSpan *, sim_plan_length(plan) + 1);
    for (guint i = 0; i < track->spans->len; i++) {
        const SimSpan *span = &g_array_index(track->spans, SimSpan, i);
        spans[span->instruction] = span;
    }
    return spans;
}

void sim_chakra_save(const SimPlan *plan, const SimTrack *track, SimOutputFile *file)
{
    g_autofree const SimSpan **spans = index_spans(plan, track);
    Draft draft = {.data = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
                   .control = g_array_new(FALSE, FALSE, sizeof(uint64_t))};
    SimDependencies order;
    write_metadata(file);
    sim_dependencies_init(&order, plan, track->rank);
    while (sim_dependencies_next(&order)) {
        if (order.instruction->op != SIM_PLAN_HOST_WAIT) {
            write_node(&draft, &order, spans[order.row], file);
        }
    }
    sim_dependencies_done(&order);
    g_array_unref(draft.data);
    g_array_unref(draft.control);
}

void sim_chakra_save_groups(const SimPlan *plan, SimOutputFile *file)
{
    uint32_t number = 0;
    sim_output_file_puts(file, "{");
    for (uint32_t group = 0; group < sim_plan_group_count(plan); group++) {
        for (uint32_t list = 0; list < sim_plan_group_lists(plan, group); list++) {
            uint32_t n_ranges;
            const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n_ranges);
            const char *comma = "";
            sim_output_file_printf(file, "%s\n  \"%u\": [", number > 0 ? "," : "", number + 1);
            number++;
            for (uint32_t i = 0; i < n_ranges; i++) {
                for (uint32_t rank = ranges[i].first; rank <= ranges[i].last; rank++) {
                    sim_output_file_printf(file, "%s%u", comma, rank);
                    comma = ", ";
                }
            }
            sim_output_file_puts(file, "]");
        }
    }
    sim_output_file_puts(file, "\n}\n");
}
