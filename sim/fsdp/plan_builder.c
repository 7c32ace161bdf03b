/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/plan_builder.h"

#include "fsdp/fsdp2.h"

/* A training loop holds the losses whose backward is done until the next loss exists or until
 * zero_grad: BACKWARDED are the microbatches of those. */
static void drop_losses(SimAutograd *autograd, GArray *backwarded)
{
    for (uint32_t i = 0; i < backwarded->len; i++)
        sim_autograd_drop_loss(autograd, g_array_index(backwarded, uint32_t, i));
    g_array_set_size(backwarded, 0);
}

static void run_action(SimPlan *plan, SimFsdp2 *fsdp, SimAutograd *autograd, GArray *backwarded,
                       const SimJobAction *action)
{
    SimPlanContext *context = sim_plan_context(plan);
    context->microbatch = -1;
    switch (action->kind) {
    case SIM_ACTION_FORWARD:
        context->phase = SIM_PHASE_FORWARD;
        context->microbatch = (int32_t)action->microbatch;
        sim_autograd_forward(autograd, action->microbatch, true);
        drop_losses(autograd, backwarded);
        break;
    case SIM_ACTION_BACKWARD:
        context->phase = SIM_PHASE_BACKWARD;
        context->microbatch = (int32_t)action->microbatch;
        sim_autograd_backward(autograd, action->microbatch);
        sim_fsdp2_finish_backward(fsdp);
        g_array_append_val(backwarded, action->microbatch);
        break;
    case SIM_ACTION_CLIP:
        context->phase = SIM_PHASE_CLIP;
        sim_fsdp2_clip(fsdp);
        break;
    case SIM_ACTION_OPTIMIZER:
        context->phase = SIM_PHASE_OPTIMIZER;
        sim_fsdp2_step(fsdp);
        break;
    case SIM_ACTION_ZERO_GRAD:
        context->phase = SIM_PHASE_ZERO_GRAD;
        sim_fsdp2_zero_grad(fsdp);
        drop_losses(autograd, backwarded);
        break;
    case SIM_ACTION_SET:
        sim_fsdp2_set_flag(fsdp, action->unit, action->flag, action->value);
        break;
    case SIM_ACTION_RESHARD:
        sim_fsdp2_reshard(fsdp, action->unit);
        break;
    case SIM_ACTION_UNSHARD:
        context->phase = SIM_PHASE_FORWARD;
        sim_fsdp2_unshard(fsdp, action->unit);
        break;
    case SIM_ACTION_EVALUATE:
        context->phase = SIM_PHASE_EVALUATION;
        sim_autograd_forward(autograd, action->microbatch, false);
        sim_autograd_drop_loss(autograd, action->microbatch);
        break;
    }
}

SimPlan *sim_plan_builder_build(const SimJob *job, const SimModel *model,
                                const SimAutogradOptions *options, GError **error)
{
    g_autoptr(SimPlan) plan = sim_plan_new(job->ranks);
    g_autoptr(SimFsdp2) fsdp = sim_fsdp2_new(job, model, plan, error);
    if (fsdp == NULL)
        return NULL;
    SimAutogradHooks hooks = sim_fsdp2_hooks(fsdp);
    g_autoptr(SimAutograd) autograd = sim_autograd_new(model, plan, options, &hooks);
    g_autoptr(GArray) backwarded = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    sim_plan_context(plan)->phase = SIM_PHASE_INIT;
    sim_fsdp2_start(fsdp);
    sim_autograd_start(autograd);
    for (uint32_t step = 0; step < job->steps; step++) {
        sim_plan_context(plan)->step = (int32_t)step;
        for (uint32_t i = 0; i < job->actions->len; i++)
            run_action(plan, fsdp, autograd, backwarded,
                       &g_array_index(job->actions, SimJobAction, i));
    }
    return g_steal_pointer(&plan);
}
