/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/plan_builder.h"

#include "base/error.h"
#include "fsdp/schedule.h"

/* The fused optimizer is one row that reads five tensors a parameter (parameter, gradient, two
 * moments, step), and a row counts its operands in 16 bits. */
#define MAX_PARAMETERS 13000

typedef struct Script {
    SimPlan *plan;
    SimSchedule *schedule;
    SimAutograd *autograd;
    GArray *losses; /* of uint32_t: microbatches whose loss a variable still holds after backward */
} Script;

static void drop_losses(Script *script)
{
    for (uint32_t i = 0; i < script->losses->len; i++)
        sim_autograd_drop_loss(script->autograd, g_array_index(script->losses, uint32_t, i));
    g_array_set_size(script->losses, 0);
}

/* `loss = ...` rebinds the script's variable: an older loss dies when the new one exists. */
static void run_forward(Script *script, uint32_t microbatch)
{
    for (uint32_t i = script->losses->len; i-- > 0;) /* the same one, of a step without zero_grad */
        if (g_array_index(script->losses, uint32_t, i) == microbatch)
            drop_losses(script);
    sim_autograd_forward(script->autograd, microbatch, true);
    drop_losses(script);
}

static void run_backward(Script *script, uint32_t first, uint32_t count)
{
    sim_autograd_backward_sum(script->autograd, first, count);
    sim_schedule_finish_backward(script->schedule);
    sim_autograd_finish_backward(script->autograd);
    for (uint32_t microbatch = first; microbatch < first + count; microbatch++)
        g_array_append_val(script->losses, microbatch);
}

/* The training loop forgets a step's losses where it clears the gradients. */
static void zero_grad(Script *script, bool keeps)
{
    sim_schedule_zero_grad(script->schedule, keeps);
    drop_losses(script);
}

static SimPhase get_phase(SimJobActionKind kind)
{
    switch (kind) {
    case SIM_ACTION_FORWARD:
    case SIM_ACTION_UNSHARD:
    case SIM_ACTION_RESHARD:
    case SIM_ACTION_SET:
        return SIM_PHASE_FORWARD;
    case SIM_ACTION_BACKWARD:
        return SIM_PHASE_BACKWARD;
    case SIM_ACTION_CLIP:
        return SIM_PHASE_CLIP;
    case SIM_ACTION_OPTIMIZER:
        return SIM_PHASE_OPTIMIZER;
    case SIM_ACTION_ZERO_GRAD:
        return SIM_PHASE_ZERO_GRAD;
    case SIM_ACTION_EVALUATE:
        return SIM_PHASE_EVALUATION;
    }
    g_assert_not_reached();
}

static void run_action(Script *script, const SimJobAction *action)
{
    bool has_microbatch = action->kind == SIM_ACTION_FORWARD || action->kind == SIM_ACTION_BACKWARD;
    SimPlanContext *context = sim_plan_context(script->plan);
    context->phase = get_phase(action->kind);
    context->microbatch = has_microbatch ? (int32_t)action->microbatch : -1;
    switch (action->kind) {
    case SIM_ACTION_FORWARD:
        run_forward(script, action->microbatch);
        break;
    case SIM_ACTION_BACKWARD:
        run_backward(script, action->microbatch, MAX(action->summed, 1));
        break;
    case SIM_ACTION_CLIP:
        sim_schedule_clip(script->schedule);
        break;
    case SIM_ACTION_OPTIMIZER:
        sim_schedule_step(script->schedule);
        break;
    case SIM_ACTION_ZERO_GRAD:
        zero_grad(script, action->value);
        break;
    case SIM_ACTION_SET:
        sim_schedule_set_flag(script->schedule, action->unit, action->flag, action->value);
        break;
    case SIM_ACTION_RESHARD:
        sim_schedule_reshard(script->schedule, action->unit);
        break;
    case SIM_ACTION_UNSHARD:
        sim_schedule_unshard(script->schedule, action->unit);
        break;
    case SIM_ACTION_EVALUATE:
        sim_autograd_evaluate(script->autograd);
        break;
    }
}

static void run_steps(Script *script, const SimJob *job)
{
    for (uint32_t step = 0; step < job->steps; step++) {
        sim_plan_context(script->plan)->step = (int32_t)step;
        for (uint32_t i = 0; i < job->actions->len; i++)
            run_action(script, &g_array_index(job->actions, SimJobAction, i));
    }
}

/* By module. */
static SimAutogradCheckpoint *find_checkpoints(const SimJob *job, const SimModel *model)
{
    SimAutogradCheckpoint *checkpoints = g_new0(SimAutogradCheckpoint, model->modules->len);
    for (uint32_t i = 0; job->checkpoints != NULL && i < job->checkpoints->len; i++) {
        const SimJobCheckpoint *checkpoint = &g_array_index(job->checkpoints, SimJobCheckpoint, i);
        checkpoints[checkpoint->module] =
            (SimAutogradCheckpoint){.is_used = true,
                                    .is_outside = checkpoint->is_outside,
                                    .is_selective = checkpoint->is_selective,
                                    .stops_early = checkpoint->stops_early};
    }
    return checkpoints;
}

SimPlan *sim_plan_builder_build(const SimJob *job, const SimModel *model,
                                const SimAutogradOptions *options, GError **error)
{
    if (model->parameters->len > MAX_PARAMETERS) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s: expected at most %d parameter tensors, found %u", model->name,
                    MAX_PARAMETERS, model->parameters->len);
        return NULL;
    }
    g_autoptr(SimPlan) plan = sim_plan_new(job->ranks);
    g_autoptr(SimSchedule) schedule = sim_schedule_new(job, model, plan, error);
    if (schedule == NULL)
        return NULL;
    sim_schedule_set_multiprocessors(schedule, options->sm_count);
    SimAutogradHooks hooks = sim_schedule_hooks(schedule);
    g_autofree SimDtype *dtypes = sim_schedule_parameter_dtypes(schedule);
    SimAutogradOptions completed = *options;
    completed.parameter_dtypes = dtypes;
    g_autofree SimAutogradCheckpoint *checkpoints = find_checkpoints(job, model);
    completed.checkpoints = checkpoints;
    completed.loss_chunks = job->loss_chunks;
    g_autoptr(SimAutograd) autograd = sim_autograd_new(model, plan, &completed, &hooks);
    sim_plan_context(plan)->phase = SIM_PHASE_INIT;
    sim_schedule_start(schedule);
    sim_autograd_start(autograd);
    Script script = {
        .plan = plan,
        .schedule = schedule,
        .autograd = autograd,
        .losses = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
    };
    run_steps(&script, job);
    g_array_unref(script.losses);
    return sim_schedule_check(schedule, error) ? g_steal_pointer(&plan) : NULL;
}
