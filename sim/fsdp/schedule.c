/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/schedule.h"

#include "fsdp/ddp.h"
#include "fsdp/fsdp1.h"
#include "fsdp/fsdp2.h"

/* One of them is there. */
struct SimSchedule {
    SimFsdp2 *fsdp2;
    SimFsdp1 *fsdp1;
    SimDdp *ddp;
};

SimSchedule *sim_schedule_new(const SimJob *job, const SimModel *model, SimPlan *plan,
                              GError **error)
{
    g_autoptr(SimSchedule) schedule = g_new0(SimSchedule, 1);
    switch (job->api) {
    case SIM_API_FSDP2:
        schedule->fsdp2 = sim_fsdp2_new(job, model, plan, error);
        break;
    case SIM_API_FSDP1:
        schedule->fsdp1 = sim_fsdp1_new(job, model, plan, error);
        break;
    case SIM_API_DDP:
        schedule->ddp = sim_ddp_new(job, model, plan);
        break;
    }
    bool is_made = schedule->fsdp2 != NULL || schedule->fsdp1 != NULL || schedule->ddp != NULL;
    return is_made ? g_steal_pointer(&schedule) : NULL;
}

void sim_schedule_free(SimSchedule *schedule)
{
    if (schedule == NULL)
        return;
    sim_fsdp2_free(schedule->fsdp2);
    sim_fsdp1_free(schedule->fsdp1);
    sim_ddp_free(schedule->ddp);
    g_free(schedule);
}

void sim_schedule_set_multiprocessors(SimSchedule *schedule, uint32_t multiprocessors)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_set_multiprocessors(schedule->fsdp2, multiprocessors);
    else if (schedule->fsdp1 != NULL)
        sim_fsdp1_set_multiprocessors(schedule->fsdp1, multiprocessors);
}

SimAutogradHooks sim_schedule_hooks(SimSchedule *schedule)
{
    if (schedule->fsdp2 != NULL)
        return sim_fsdp2_hooks(schedule->fsdp2);
    return schedule->fsdp1 != NULL ? sim_fsdp1_hooks(schedule->fsdp1)
                                   : sim_ddp_hooks(schedule->ddp);
}

SimDtype *sim_schedule_parameter_dtypes(const SimSchedule *schedule)
{
    return schedule->fsdp2 == NULL ? NULL : sim_fsdp2_parameter_dtypes(schedule->fsdp2);
}

void sim_schedule_start(SimSchedule *schedule)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_start(schedule->fsdp2);
    else if (schedule->fsdp1 != NULL)
        sim_fsdp1_start(schedule->fsdp1);
    else
        sim_ddp_start(schedule->ddp);
}

void sim_schedule_finish_backward(SimSchedule *schedule)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_finish_backward(schedule->fsdp2);
    else if (schedule->fsdp1 != NULL)
        sim_fsdp1_finish_backward(schedule->fsdp1);
    else
        sim_ddp_finish_backward(schedule->ddp);
}

void sim_schedule_clip(SimSchedule *schedule)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_clip(schedule->fsdp2);
    else if (schedule->fsdp1 != NULL)
        sim_fsdp1_clip(schedule->fsdp1);
    else
        sim_ddp_clip(schedule->ddp);
}

void sim_schedule_step(SimSchedule *schedule)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_step(schedule->fsdp2);
    else if (schedule->fsdp1 != NULL)
        sim_fsdp1_step(schedule->fsdp1);
    else
        sim_ddp_step(schedule->ddp);
}

void sim_schedule_zero_grad(SimSchedule *schedule, bool keeps)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_zero_grad(schedule->fsdp2, keeps);
    else if (schedule->fsdp1 != NULL)
        sim_fsdp1_zero_grad(schedule->fsdp1, keeps);
    else
        sim_ddp_zero_grad(schedule->ddp, keeps);
}

void sim_schedule_set_flag(SimSchedule *schedule, uint32_t unit, SimJobFlag flag, bool value)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_set_flag(schedule->fsdp2, unit, flag, value);
    if (flag != SIM_FLAG_GRADIENT_SYNC)
        return;
    if (schedule->fsdp1 != NULL)
        sim_fsdp1_set_synchronization(schedule->fsdp1, value);
    if (schedule->ddp != NULL)
        sim_ddp_set_synchronization(schedule->ddp, value);
}

void sim_schedule_reshard(SimSchedule *schedule, uint32_t unit)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_reshard(schedule->fsdp2, unit);
}

void sim_schedule_unshard(SimSchedule *schedule, uint32_t unit)
{
    if (schedule->fsdp2 != NULL)
        sim_fsdp2_unshard(schedule->fsdp2, unit);
}

bool sim_schedule_check(const SimSchedule *schedule, GError **error)
{
    return schedule->ddp == NULL || sim_ddp_check(schedule->ddp, error);
}
