/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/summary.h"

#include <string.h>

#include "engine/clock.h"
#include "predict/communication.h"
#include "predict/memory_summary.h"
#include "predict/schedule_name.h"

#define MUCH_PADDING 0.1 /* of the parameters; less is not worth a note */

uint32_t sim_summary_communicators(const SimPlan *plan)
{
    uint32_t groups = sim_plan_group_count(plan), used = 0, count = 0;
    g_autofree bool *is_used = g_new0(bool, groups + 1);
    for (size_t i = 0; used < groups && i < sim_plan_length(plan); i++) {
        const SimInstruction *instruction = sim_plan_instruction(plan, i);
        if (instruction->op == SIM_PLAN_COLLECTIVE && !is_used[instruction->group]) {
            uint32_t ranges;
            const SimRange *first = sim_plan_group_ranges(plan, instruction->group, 0, &ranges);
            is_used[instruction->group] = true;
            used++;
            count += ranges > 1 || first->last > first->first;
        }
    }
    return count;
}

/* --- time --------------------------------------------------------------------------------------
 */

static int32_t find_last_step(const GArray *phases)
{
    int32_t last = -1;
    for (guint i = 0; i < phases->len; i++) {
        last = MAX(last, g_array_index(phases, SimPhaseRange, i).step);
    }
    return last;
}

static SimTime end_of_phase(const SimClassResult *class_, guint phase)
{
    return class_->phase_ends[phase];
}

/* Times of the last step on one class: each phase from where the one before has ended. */
static SimTimeSummary compute_step(const SimClassResult *class_)
{
    const GArray *phases = class_->program->phases;
    SimTimeSummary time = {.rank = class_->rank, .step = find_last_step(phases)};
    bool has_begun = false;
    SimTime before = 0;
    for (guint i = 0; i < phases->len; i++) {
        const SimPhaseRange *range = &g_array_index(phases, SimPhaseRange, i);
        SimTime end = end_of_phase(class_, i);
        if (range->step == time.step) {
            time.begin = has_begun ? time.begin : before;
            has_begun = true;
            time.end = end;
            if (range->phase == SIM_PHASE_FORWARD) {
                time.forward += end - before;
            } else if (range->phase == SIM_PHASE_BACKWARD) {
                time.backward += end - before;
            } else {
                time.optimizer += end - before;
            }
        }
        before = end;
    }
    return time;
}

static SimTimeSummary find_slowest(const SimResult *result)
{
    SimTimeSummary slowest = {.rank = SIM_PLAN_NONE};
    for (guint i = 0; i < result->classes->len; i++) {
        const SimClassResult *class_ = &g_array_index(result->classes, SimClassResult, i);
        SimTimeSummary time = compute_step(class_);
        if (slowest.rank == SIM_PLAN_NONE || time.end - time.begin > slowest.end - slowest.begin) {
            slowest = time;
        }
    }
    return slowest;
}

static void add_time(SimSummary *summary, const SimSimulation *simulation)
{
    g_autoptr(SimRecorder) recorder = sim_recorder_new(summary->plan);
    SimTimeSummary *time = &summary->time;
    *time = find_slowest(summary->result);
    sim_simulation_record(simulation, time->rank, recorder);
    const SimTrack *track = sim_recorder_track(recorder, 0);
    time->split = sim_time_split_compute(summary->plan, track, time->begin, time->end);
    summary->communication = sim_communication_compute(summary->plan, track, time->step);
    summary->waiting = sim_waiting_new(simulation, summary->result);
    summary->has_time = true;
}

/* --- throughput --------------------------------------------------------------------------------
 */

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(member) ? member->valuedouble : 0;
}

/* MFU as torchtitan has it (components/metrics.py): FLOPs a token of the model, without
 * recomputation, of the GPU's bf16 peak. */
static void add_throughput(SimSummary *summary, const SimCluster *cluster)
{
    double tokens = number_of(summary->model, "tokens_per_rank");
    double flops = number_of(summary->model, "flops_per_token");
    double seconds = sim_units_seconds(summary->time.end - summary->time.begin);
    double peak = cluster->gpu->flops_per_s[SIM_PRECISION_BF16];
    if (!summary->has_time || tokens <= 0 || seconds <= 0) {
        return;
    }
    SimThroughput *throughput = &summary->throughput;
    throughput->tokens_per_second_per_gpu = tokens / seconds;
    throughput->tokens_per_second = throughput->tokens_per_second_per_gpu * cluster->gpus;
    throughput->model_flops_utilization =
        peak > 0 ? throughput->tokens_per_second_per_gpu * flops / peak : 0;
    throughput->gpu_hours_per_billion_tokens = 1e9 / throughput->tokens_per_second_per_gpu / 3600;
    summary->has_throughput = true;
}

/* --- basis -------------------------------------------------------------------------------------
 */

static void add_basis(SimSummary *summary, const SimCluster *cluster)
{
    SimBasis basis = MIN(cluster->gpu->basis, cluster->comm->basis);
    g_autofree char *schedule = sim_schedule_name_print(summary->config);
    summary->memory_basis = g_strdup_printf("PyTorch's rules for %s", schedule);
    summary->time_basis =
        g_strdup_printf("%s: GPU %s %s, collectives %s %s, eager mode", sim_basis_name(basis),
                        cluster->gpu->name, sim_basis_name(cluster->gpu->basis),
                        cluster->comm->name, sim_basis_name(cluster->comm->basis));
}

/* Modules of a module tree of which the file gives no calls. */
static void add_unknown_modules(SimSummary *summary)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(summary->model, "modules_without_calls");
    int n = cJSON_GetArraySize(list);
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    if (n == 0 || !cJSON_IsString(first)) {
        return;
    }
    const char *path = first->valuestring[0] != '\0' ? first->valuestring : "the root";
    g_autofree char *others = n > 1 ? g_strdup_printf(" and %d more", n - 1) : g_strdup("");
    g_ptr_array_add(summary->warnings,
                    g_strdup_printf("the model file gives no calls for %s%s: neither activations "
                                    "inside nor the work of kernels there is counted",
                                    path, others));
}

static bool is_set(const SimSummary *summary, const char *key, const char *value)
{
    const cJSON *setting = cJSON_GetObjectItemCaseSensitive(summary->config, key);
    return cJSON_IsString(setting) && strcmp(setting->valuestring, value) == 0;
}

/* What PyTorch runs without a word, and trains wrongly. Sources: FullyShardedDataParallel's
 * docstring on cpu_offload; FSDPModule.set_reshard_after_backward. */
static void add_dangers(SimSummary *summary)
{
    const cJSON *accumulate = cJSON_GetObjectItemCaseSensitive(summary->config, "accumulate");
    bool accumulates = cJSON_IsNumber(accumulate) && accumulate->valuedouble > 1;
    if (is_set(summary, "api", "fsdp1") && is_set(summary, "offload", "cpu") &&
        is_set(summary, "gradient_sync", "every") && accumulates) {
        g_ptr_array_add(summary->warnings,
                        g_strdup("fsdp1 with offload loses the gradients of earlier microbatches; "
                                 "--gradient-sync last keeps them"));
    }
    if (is_set(summary, "api", "fsdp2") && is_set(summary, "reshard_after_backward", "false")) {
        g_ptr_array_add(summary->warnings,
                        g_strdup("parameters that stay gathered over the optimizer step are stale "
                                 "in the next forward (--reshard-after-backward false)"));
    }
}

/* Rows of zeros that make dimension 0 divide: little in most models, a lot where it counts experts.
 */
static void add_padding(SimSummary *summary)
{
    const cJSON *padding = cJSON_GetObjectItemCaseSensitive(summary->model, "padding_fraction");
    if (cJSON_IsNumber(padding) && padding->valuedouble >= MUCH_PADDING) {
        g_ptr_array_add(summary->warnings,
                        g_strdup_printf("shards are padded by %.0f %%: dimension 0 of some "
                                        "parameters does not divide by the shard group's ranks "
                                        "(smaller groups: --strategy hybrid_shard)",
                                        100 * padding->valuedouble));
    }
}

static void add_warnings(SimSummary *summary, const SimCluster *cluster)
{
    add_dangers(summary);
    add_padding(summary);
    add_unknown_modules(summary);
    if (!sim_cluster_is_even(cluster)) {
        g_ptr_array_add(summary->warnings,
                        g_strdup_printf("the last node is not full: %u of its %u GPUs are used",
                                        cluster->gpus % cluster->gpus_per_node,
                                        cluster->gpus_per_node));
    }
    if (cluster->gpu->basis != SIM_BASIS_CALIBRATED) {
        g_ptr_array_add(summary->warnings,
                        g_strdup_printf("kernel times of GPU %s are not calibrated (%s)",
                                        cluster->gpu->name, sim_basis_name(cluster->gpu->basis)));
    }
    if (cluster->comm->basis != SIM_BASIS_CALIBRATED) {
        g_ptr_array_add(summary->warnings,
                        g_strdup_printf("collective times of %s are not calibrated (%s)",
                                        cluster->comm->name, sim_basis_name(cluster->comm->basis)));
    }
}

static cJSON *parse_meta(const SimPlan *plan, const char *key)
{
    const char *text = sim_plan_get_meta(plan, key);
    return text != NULL ? cJSON_Parse(text) : NULL;
}

SimSummary *sim_summary_new(const SimPlan *plan, const SimCluster *cluster,
                            const SimSimulation *simulation, const SimResult *result,
                            uint64_t hbm_bytes)
{
    SimSummary *summary = g_new0(SimSummary, 1);
    summary->plan = plan;
    summary->result = result;
    summary->config = parse_meta(plan, "config");
    summary->model = parse_meta(plan, "model");
    summary->warnings = g_ptr_array_new_with_free_func(g_free);
    summary->memory = sim_memory_summary_compute(plan, cluster, result, hbm_bytes);
    if (!result->is_oom && result->blocked->len == 0 && sim_plan_length(plan) > 0) {
        add_time(summary, simulation);
    } else {
        summary->communication = g_array_new(FALSE, FALSE, sizeof(SimCommunicationLine));
    }
    add_throughput(summary, cluster);
    add_basis(summary, cluster);
    add_warnings(summary, cluster);
    return summary;
}

void sim_summary_free(SimSummary *summary)
{
    if (summary == NULL) {
        return;
    }
    g_ptr_array_unref(summary->warnings);
    g_array_unref(summary->communication);
    g_free(summary->memory_basis);
    g_free(summary->time_basis);
    cJSON_Delete(summary->model);
    cJSON_Delete(summary->config);
    sim_waiting_free(summary->waiting);
    g_free(summary);
}
