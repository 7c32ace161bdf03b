/* SPDX-License-Identifier: Apache-2.0 */
#include "model/operator.h"

#include "model/operator_describe.h"

const char *sim_operator_name(SimOperator operator_)
{
    static const char *const names[] = {
#define X(constant, name) name,
        SIM_OPERATORS(X)
#undef X
    };
    g_assert(operator_ < SIM_OPERATOR_COUNT);
    return names[operator_];
}

static void add_event(SimOperatorCall *call, SimOperatorEventKind kind, uint32_t number,
                      uint64_t bytes)
{
    g_assert(call->n_events < SIM_OPERATOR_MAX_EVENTS);
    call->events[call->n_events++] =
        (SimOperatorEvent){.kind = kind, .number = number, .bytes = bytes};
}

void sim_operator_describe_output(SimOperatorCall *call, const SimLayout *layout)
{
    g_assert(call->n_outputs < SIM_OPERATOR_MAX_OUTPUTS);
    call->outputs[call->n_outputs] = *layout;
    call->offsets[call->n_outputs] = 0;
    add_event(call, SIM_OPERATOR_EVENT_OUTPUT, call->n_outputs, 0);
    call->n_outputs++;
}

void sim_operator_describe_view(SimOperatorCall *call, const SimLayout *layout, uint64_t offset)
{
    g_assert(call->n_outputs < SIM_OPERATOR_MAX_OUTPUTS);
    call->is_view = true;
    call->outputs[call->n_outputs] = *layout;
    call->offsets[call->n_outputs] = offset;
    call->n_outputs++;
}

void sim_operator_describe_scratch(SimOperatorCall *call, uint64_t bytes)
{
    add_event(call, SIM_OPERATOR_EVENT_SCRATCH, 0, bytes);
    call->n_scratch++;
}

void sim_operator_describe_release(SimOperatorCall *call, uint32_t n)
{
    g_assert(n <= call->n_scratch);
    add_event(call, SIM_OPERATOR_EVENT_RELEASE, n, 0);
    call->n_scratch -= n;
}

void sim_operator_describe_release_below(SimOperatorCall *call)
{
    g_assert(call->n_scratch >= 2);
    add_event(call, SIM_OPERATOR_EVENT_RELEASE_BELOW, 0, 0);
    call->n_scratch--;
}

SimOperatorKernel *sim_operator_describe_kernel(SimOperatorCall *call, SimOperator name,
                                                uint32_t reads, uint32_t writes)
{
    g_assert(call->n_kernels < G_N_ELEMENTS(call->kernels));
    SimOperatorKernel *kernel = &call->kernels[call->n_kernels];
    *kernel = (SimOperatorKernel){.name = name, .reads = reads, .writes = writes};
    for (uint32_t i = 0; i < call->n_inputs; i++)
        if ((reads >> i & 1) != 0)
            kernel->hbm_bytes += sim_layout_bytes(call->inputs[i]);
    for (uint32_t i = 0; i < call->n_outputs; i++)
        if ((writes >> i & 1) != 0)
            kernel->hbm_bytes += sim_layout_bytes(&call->outputs[i]);
    add_event(call, SIM_OPERATOR_EVENT_KERNEL, call->n_kernels, 0);
    call->n_kernels++;
    return kernel;
}

void sim_operator_describe(SimOperatorCall *call)
{
    call->is_view = call->is_same = false;
    call->n_outputs = call->n_kernels = call->n_events = call->n_scratch = 0;
    bool is_known = sim_operator_describe_views(call) || sim_operator_describe_pointwise(call) ||
                    sim_operator_describe_matrix(call) || sim_operator_describe_norm(call) ||
                    sim_operator_describe_attention(call) || sim_operator_describe_tokens(call) ||
                    sim_operator_describe_mask(call) || sim_operator_describe_softmax(call) ||
                    sim_operator_describe_efficient(call) || sim_operator_describe_experts(call) ||
                    sim_operator_describe_index(call) || sim_operator_describe_opaque(call);
    g_assert(is_known);
    if (call->n_scratch > 0)
        sim_operator_describe_release(call, call->n_scratch);
}
