/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a plan's columns, and names in their parts.
 */
#include "plan/plan.h"

#include <string.h>

const char *sim_plan_op_name(SimPlanOp op)
{
    static const char *const names[SIM_PLAN_OP_COUNT] = {
        [SIM_PLAN_ALLOC] = "alloc",
        [SIM_PLAN_VIEW] = "view",
        [SIM_PLAN_FREE] = "free",
        [SIM_PLAN_RECORD_STREAM] = "record_stream",
        [SIM_PLAN_KERNEL] = "kernel",
        [SIM_PLAN_COPY] = "copy",
        [SIM_PLAN_COLLECTIVE] = "collective",
        [SIM_PLAN_RECORD] = "record",
        [SIM_PLAN_WAIT] = "wait",
        [SIM_PLAN_HOST_WAIT] = "host_wait",
        [SIM_PLAN_HOST] = "host",
        [SIM_PLAN_MARK] = "mark",
    };
    g_assert(op < SIM_PLAN_OP_COUNT);
    return names[op];
}

const char *sim_plan_phase_name(SimPhase phase)
{
    static const char *const names[SIM_PHASE_COUNT] = {
        [SIM_PHASE_NONE] = "",
        [SIM_PHASE_INIT] = "init",
        [SIM_PHASE_FORWARD] = "forward",
        [SIM_PHASE_BACKWARD] = "backward",
        [SIM_PHASE_RECOMPUTE] = "recompute",
        [SIM_PHASE_CLIP] = "clip",
        [SIM_PHASE_OPTIMIZER] = "optimizer",
        [SIM_PHASE_ZERO_GRAD] = "zero_grad",
        [SIM_PHASE_EVALUATION] = "evaluation",
    };
    g_assert(phase < SIM_PHASE_COUNT);
    return names[phase];
}

const char *sim_plan_category_name(SimCategory category)
{
    static const char *const names[SIM_CATEGORY_COUNT] = {
        [SIM_CATEGORY_NONE] = "",
        [SIM_CATEGORY_PARAMETER_SHARD] = "parameter_shard",
        [SIM_CATEGORY_ALL_GATHER_OUTPUT] = "all_gather_output",
        [SIM_CATEGORY_UNSHARDED_PARAMETER] = "unsharded_parameter",
        [SIM_CATEGORY_UNSHARDED_GRADIENT] = "unsharded_gradient",
        [SIM_CATEGORY_REDUCE_SCATTER_INPUT] = "reduce_scatter_input",
        [SIM_CATEGORY_REDUCE_SCATTER_OUTPUT] = "reduce_scatter_output",
        [SIM_CATEGORY_SHARDED_GRADIENT] = "sharded_gradient",
        [SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT] = "partial_reduce_output",
        [SIM_CATEGORY_POST_FORWARD_SHARD] = "post_forward_shard",
        [SIM_CATEGORY_LOW_PRECISION_SHARD] = "low_precision_shard",
        [SIM_CATEGORY_REDUCE_COPY] = "reduce_copy",
        [SIM_CATEGORY_BUCKET] = "bucket",
        [SIM_CATEGORY_OPTIMIZER_STATE] = "optimizer_state",
        [SIM_CATEGORY_ACTIVATION] = "activation",
        [SIM_CATEGORY_TEMPORARY] = "temporary",
        [SIM_CATEGORY_LOGITS_LOSS] = "logits_loss",
        [SIM_CATEGORY_INPUT] = "input",
        [SIM_CATEGORY_WORKSPACE] = "workspace",
        [SIM_CATEGORY_BUFFER] = "buffer",
    };
    g_assert(category < SIM_CATEGORY_COUNT);
    return names[category];
}

const char *sim_plan_collective_name(SimCollectiveKind kind)
{
    static const char *const names[SIM_COLLECTIVE_COUNT] = {
        [SIM_COLLECTIVE_NONE] = "",
        [SIM_COLLECTIVE_ALL_GATHER] = "all_gather",
        [SIM_COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
        [SIM_COLLECTIVE_ALL_REDUCE] = "all_reduce",
        [SIM_COLLECTIVE_BROADCAST] = "broadcast",
    };
    g_assert(kind < SIM_COLLECTIVE_COUNT);
    return names[kind];
}

/* The number after "#" if it is printed as a serial is (no leading zero, fits) and the text ends
 * there or goes on with ":TAIL"; -1 otherwise. */
static int32_t parse_serial(const char *digits, const char **end)
{
    int64_t value = 0;
    const char *p = digits;

    while (g_ascii_isdigit(*p) && value <= INT32_MAX)
        value = value * 10 + (*p++ - '0');
    *end = p;
    if (p == digits || value > INT32_MAX || (*digits == '0' && p > digits + 1))
        return -1;
    return *p == '\0' || (p[0] == ':' && p[1] != '\0') ? (int32_t)value : -1;
}

SimName sim_plan_parse_name(SimPlan *plan, const char *text)
{
    SimStrings *strings = sim_plan_strings(plan);

    for (const char *mark = strchr(text, '#'); mark != NULL; mark = strchr(mark + 1, '#')) {
        const char *end;
        int32_t serial = parse_serial(mark + 1, &end);
        if (serial < 0)
            continue;
        char room[256];
        size_t length = (size_t)(mark - text);
        g_autofree char *longer = length < sizeof room ? NULL : g_strndup(text, length);
        if (longer == NULL) {
            memcpy(room, text, length);
            room[length] = '\0';
        }
        return (SimName){.stem = sim_strings_intern(strings, longer != NULL ? longer : room),
                         .tail = *end == ':' ? sim_strings_intern(strings, end + 1) : 0,
                         .serial = serial};
    }
    return (SimName){.stem = sim_strings_intern(strings, text), .serial = -1};
}

void sim_plan_append_name(const SimPlan *plan, SimName name, GString *text)
{
    g_string_append(text, sim_plan_string(plan, name.stem));
    if (name.serial < 0)
        return;
    g_string_append_c(text, '#');
    /* By hand: this is in the path of every row that is written. */
    char digits[11];
    char *p = digits + sizeof digits;
    uint32_t rest = (uint32_t)name.serial;
    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    g_string_append_len(text, p, digits + sizeof digits - p);
    if (name.tail != 0) {
        g_string_append_c(text, ':');
        g_string_append(text, sim_plan_string(plan, name.tail));
    }
}

char *sim_plan_print_name(const SimPlan *plan, SimName name)
{
    GString *text = g_string_new(NULL);

    sim_plan_append_name(plan, name, text);
    return g_string_free(text, FALSE);
}
