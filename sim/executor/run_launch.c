/* SPDX-License-Identifier: Apache-2.0
 *
 * From a row of the plan to work on a stream. The host finds out where the operands are while they
 * live, as a real one passes pointers; the stream computes.
 */
#include <string.h>

#include "base/error.h"
#include "executor/arguments.h"
#include "executor/run_private.h"

typedef struct Work {
    SimRun *run;
    uint32_t row;
    SimTime issued; /* nominal */
    SimComputeFunc function;
    SimComputeCall call;
    SimOperand *operands;
    char *problem; /* found at the launch: reported when its turn comes */
} Work;

unsigned char *sim_run_locate(const SimRun *run, const SimInstruction *instruction, SimTouch touch,
                              uint64_t *bytes)
{
    const SimBuffer *buffer = sim_plan_buffer(run->plan, touch.buffer);
    uint32_t group = instruction->group != SIM_PLAN_NONE ? instruction->group : run->shard_group;
    uint64_t place = group != SIM_PLAN_NONE ? run->places[group] : 0;
    *bytes = touch.bytes != 0 ? touch.bytes : buffer->bytes;
    return run->data[touch.buffer] + touch.offset * (touch.times_rank ? place : 1);
}

/* --- operands ----------------------------------------------------------------------------------
 */

/* The item of TEXT, a list of them separated by ";"; what is left begins at *REST. */
static const char *next_item(const char **rest, const char *end, size_t *length)
{
    const char *item = *rest;
    if (item == NULL || item > end)
        return NULL;
    const char *stop = memchr(item, ';', (size_t)(end - item));
    *length = (size_t)((stop != NULL ? stop : end) - item);
    *rest = stop != NULL ? stop + 1 : end + 1;
    return item;
}

static bool describe_operands(Work *work, const SimInstruction *instruction, const char *key,
                              const SimTouch *touches, uint32_t n, SimOperand *operands,
                              GError **error)
{
    const SimRun *run = work->run;
    size_t length = 0, item_length = 0;
    const char *rest = sim_arguments_find(work->call.arguments, key, &length);
    const char *end = rest != NULL ? rest + length : NULL;
    work->call.is_described = work->call.is_described || rest != NULL;
    for (uint32_t i = 0; i < n; i++) {
        const SimBuffer *buffer = sim_plan_buffer(run->plan, touches[i].buffer);
        SimOperand *operand = &operands[i];
        operand->buffer = touches[i].buffer;
        operand->start = sim_run_locate(run, instruction, touches[i], &operand->bytes);
        const char *item = next_item(&rest, end, &item_length);
        bool is_whole = operand->bytes == buffer->bytes;
        if (item == NULL)
            sim_operand_set_shape(operand,
                                  is_whole ? sim_plan_string(run->plan, buffer->shape) : "",
                                  (SimDtype)buffer->dtype);
        else if (!sim_operand_parse(operand, item, item_length, error))
            return false;
    }
    return true;
}

/* --- what the run keeps ------------------------------------------------------------------------
 */

/* The gradient of each tensor that an optimizer row of the first or last step takes. */
static void note_gradients(const Work *work, uint32_t operands_a_tensor)
{
    SimRun *run = work->run;
    int32_t step = work->call.step;
    if (step != run->first_step && step != run->last_step)
        return;
    g_autofree char *kind = g_strdup_printf("gradient:%d", step);
    for (uint32_t i = 0; i + 1 < work->call.n_in; i += operands_a_tensor) {
        const SimOperand *value = &work->call.in[i];
        uint32_t root = sim_plan_root_buffer(run->plan, value->buffer);
        const SimRunShard *shard = &run->shards[root];
        if (shard->name == NULL)
            continue;
        uint64_t offset = (uint64_t)(value->data - run->data[root]) / sim_dtype_bytes(value->dtype);
        g_autofree float *elements = sim_operand_load(&work->call.in[i + 1]);
        sim_run_note_elements(run, shard, kind, offset, sim_operand_elements(&work->call.in[i + 1]),
                              elements);
    }
}

static void note_before(const Work *work)
{
    if (strcmp(work->call.operator_name, "adamw") == 0)
        note_gradients(work, 5);
    else if (strcmp(work->call.operator_name, "sgd") == 0)
        note_gradients(work, 2);
}

static void note_after(const Work *work)
{
    if (strcmp(work->call.operator_name, "nll_loss") != 0)
        return;
    g_autofree float *loss = sim_operand_load(&work->call.out[0]);
    sim_values_push_loss(work->run->values, work->call.step, loss[0]);
}

static void note_span(SimRun *run, uint32_t row, SimTime start, SimTime end)
{
    const SimInstruction *instruction = sim_plan_instruction(run->plan, row);
    SimSpan span = {.instruction = row,
                    .stream = instruction->stream,
                    .arrival = start,
                    .start = start,
                    .end = end,
                    .wire_bytes = 0};
    g_mutex_lock(&run->spans_lock);
    g_array_append_val(run->spans, span);
    if (instruction->step >= 0) {
        SimTime *last = &g_array_index(run->step_ends, SimTime, (guint)instruction->step);
        *last = MAX(*last, end);
    }
    g_mutex_unlock(&run->spans_lock);
}

/* --- work --------------------------------------------------------------------------------------
 */

static void start_touches(SimRun *run, uint32_t row, const SimOperand *operands, uint32_t n,
                          bool is_write)
{
    for (uint32_t i = 0; run->ledger != NULL && i < n; i++) {
        uint32_t root = sim_plan_root_buffer(run->plan, operands[i].buffer);
        if (sim_plan_buffer(run->plan, root)->is_host)
            continue;
        char *problem =
            sim_ledger_start(run->ledger, row, root, (uint64_t)(uintptr_t)operands[i].start,
                             operands[i].bytes, is_write);
        if (problem != NULL)
            sim_faults_push(
                run->faults, row,
                g_strdup_printf(
                    "%s of unit '%s' %s",
                    sim_plan_string(run->plan, sim_plan_instruction(run->plan, row)->name),
                    sim_plan_string(run->plan, sim_plan_instruction(run->plan, row)->unit),
                    problem));
        g_free(problem);
    }
}

static void finish_touches(SimRun *run, uint32_t row)
{
    if (run->ledger != NULL)
        sim_ledger_finish(run->ledger, row);
}

static void delay(const SimRun *run, SimStream *stream, uint32_t row)
{
    if (row == run->options.delayed_row)
        sim_stream_sleep_until(stream, sim_stream_now(stream) + run->options.delay);
}

/* Paced: nothing is computed, and the end is due at an absolute time. */
static void pace(SimStream *stream, SimTime ready, SimTime duration)
{
    SimTime end = MAX(sim_stream_nominal(stream), ready) + MAX(duration, 0);
    sim_stream_set_nominal(stream, end);
    sim_stream_sleep_until(stream, end);
}

static void compute(const Work *work)
{
    g_autoptr(GError) error = NULL;
    note_before(work);
    if (work->function(&work->call, &error))
        note_after(work);
    else
        sim_faults_push(work->run->faults, work->row, g_strdup(error->message));
}

static void run_kernel(SimStream *stream, void *data)
{
    Work *work = data;
    SimRun *run = work->run;
    delay(run, stream, work->row);
    SimTime start = sim_stream_now(stream);
    if (run->options.is_paced) {
        pace(stream, work->issued, sim_plan_instruction(run->plan, work->row)->duration);
    } else if (work->problem != NULL) {
        sim_faults_push(run->faults, work->row, g_steal_pointer(&work->problem));
    } else {
        start_touches(run, work->row, work->call.in, work->call.n_in, false);
        start_touches(run, work->row, work->call.out, work->call.n_out, true);
        compute(work);
        finish_touches(run, work->row);
    }
    note_span(run, work->row, start, sim_stream_now(stream));
    g_free(work->operands);
    g_free(work->problem);
    g_free(work);
}

static const char *operator_of(const SimRun *run, const SimInstruction *instruction)
{
    if (instruction->op == SIM_PLAN_COPY)
        return instruction->n_reads > 0 ? "copy" : "fill";
    return sim_plan_string(run->plan, instruction->operator_name);
}

static Work *make_work(SimRun *run, uint32_t row)
{
    const SimInstruction *instruction = sim_plan_instruction(run->plan, row);
    const SimTouch *touches = sim_plan_touches(run->plan, instruction);
    uint32_t group = instruction->group != SIM_PLAN_NONE ? instruction->group : run->shard_group;
    Work *work = g_new0(Work, 1);
    work->run = run;
    work->row = row;
    work->issued = run->host_nominal;
    work->operands = g_new0(SimOperand, (size_t)instruction->n_reads + instruction->n_writes + 1);
    work->call = (SimComputeCall){
        .operator_name = operator_of(run, instruction),
        .arguments = sim_plan_string(run->plan, instruction->arguments),
        .n_in = instruction->n_reads,
        .n_out = instruction->n_writes,
        .in = work->operands,
        .out = work->operands + instruction->n_reads,
        .place = group != SIM_PLAN_NONE ? run->places[group] : 0,
        .members = group != SIM_PLAN_NONE ? run->members[group] : 1,
        .rank = run->rank,
        .ranks = run->ranks,
        .step = instruction->step,
        .microbatch = instruction->microbatch,
    };
    work->function = sim_compute_find(work->call.operator_name);
    g_autoptr(GError) error = NULL;
    if (!describe_operands(work, instruction, "in", touches, instruction->n_reads, work->operands,
                           &error) ||
        !describe_operands(work, instruction, "out", touches + instruction->n_reads,
                           instruction->n_writes, work->operands + instruction->n_reads, &error))
        work->problem = g_strdup(error->message);
    return work;
}

void sim_run_launch_kernel(SimRun *run, uint32_t row)
{
    const SimInstruction *instruction = sim_plan_instruction(run->plan, row);
    sim_stream_push(g_ptr_array_index(run->streams, instruction->stream), run_kernel,
                    make_work(run, row));
}

void sim_run_launch_input(SimRun *run, uint32_t row, int32_t step, int32_t microbatch)
{
    Work *work = make_work(run, row);
    work->call.step = step;
    work->call.microbatch = microbatch;
    sim_stream_push(g_ptr_array_index(run->streams, sim_plan_instruction(run->plan, row)->stream),
                    run_kernel, work);
}

/* --- collectives -------------------------------------------------------------------------------
 */

static void run_payload(Work *work, SimCollective *collective, SimCommunicator *communicator)
{
    SimRun *run = work->run;
    g_autoptr(GError) error = NULL;
    start_touches(run, work->row, work->call.in, work->call.n_in, false);
    start_touches(run, work->row, work->call.out, work->call.n_out, true);
    collective->send = work->call.in[0].data;
    collective->receive = work->call.out[0].data;
    if (!sim_communicator_run(communicator, collective, &error))
        sim_faults_push(run->faults, work->row, g_strdup(error->message));
    finish_touches(run, work->row);
}

static SimTime collective_duration(const SimRun *run, const SimInstruction *instruction)
{
    if (instruction->duration >= 0)
        return instruction->duration;
    return run->options.bytes_per_s > 0
               ? sim_units_transfer_time(instruction->bytes, run->options.bytes_per_s)
               : 0;
}

/* On the thread of its communicator, which has waited for the stream. */
static void run_collective(SimStream *worker, void *data)
{
    Work *work = data;
    SimRun *run = work->run;
    const SimInstruction *instruction = sim_plan_instruction(run->plan, work->row);
    SimCommunicator *communicator = g_ptr_array_index(run->communicators, instruction->group);
    g_autofree char *reduction = sim_arguments_text(work->call.arguments, "reduction");
    SimCollective collective = {.row = work->row,
                                .kind = (SimCollectiveKind)instruction->collective,
                                .bytes = instruction->bytes,
                                .dtype = (SimDtype)instruction->dtype,
                                .reduction = reduction != NULL ? reduction : "",
                                .nominal = MAX(sim_stream_nominal(worker), work->issued)};
    delay(run, worker, work->row);
    SimTime start = sim_stream_now(worker), nominal;
    g_autoptr(GError) error = NULL;
    if (!sim_communicator_meet(communicator, &collective, &nominal, &error)) {
        sim_faults_push(run->faults, work->row, g_strdup(error->message));
        sim_run_give_up(run, "ranks disagree");
    }
    if (run->options.is_paced)
        pace(worker, nominal, collective_duration(run, instruction));
    else if (work->problem == NULL && work->call.n_in == 1 && work->call.n_out == 1)
        run_payload(work, &collective, communicator);
    else
        sim_faults_push(run->faults, work->row,
                        work->problem != NULL
                            ? g_steal_pointer(&work->problem)
                            : g_strdup("expected one buffer to read and one to write"));
    note_span(run, work->row, start, sim_stream_now(worker));
    g_free(work->operands);
    g_free(work->problem);
    g_free(work);
}

void sim_run_launch_collective(SimRun *run, uint32_t row)
{
    const SimInstruction *instruction = sim_plan_instruction(run->plan, row);
    SimStream *stream = g_ptr_array_index(run->streams, instruction->stream);
    SimStream *worker = g_ptr_array_index(run->workers, instruction->group);
    sim_stream_wait(worker, sim_stream_mark(stream));
    sim_stream_push(worker, run_collective, make_work(run, row));
    sim_stream_wait(stream, sim_stream_mark(worker));
}

/* --- lives -------------------------------------------------------------------------------------
 */

typedef struct Life {
    SimRun *run;
    uint32_t buffer, row;
} Life;

static void give_birth(SimStream *stream, void *data)
{
    (void)stream;
    g_autofree Life *life = data;
    SimRun *run = life->run;
    const SimBuffer *buffer = sim_plan_buffer(run->plan, life->buffer);
    unsigned char *memory = run->data[life->buffer];
    char *problem = run->ledger != NULL ? sim_ledger_birth(run->ledger, life->buffer) : NULL;
    if (problem != NULL)
        sim_faults_push(run->faults, life->row, problem);
    if (buffer->category != SIM_CATEGORY_OPTIMIZER_STATE)
        return;
    if (run->ledger != NULL)
        g_free(sim_ledger_start(run->ledger, life->row, life->buffer, (uint64_t)(uintptr_t)memory,
                                buffer->bytes, true));
    memset(memory, 0, buffer->bytes);
    finish_touches(run, life->row);
}

static void die(SimStream *stream, void *data)
{
    (void)stream;
    g_autofree Life *life = data;
    sim_ledger_death(life->run->ledger, life->buffer);
}

static void push_life(SimRun *run, uint32_t buffer, uint32_t stream, SimStreamFunc function)
{
    Life *life = g_new(Life, 1);
    *life = (Life){run, buffer, run->row};
    sim_stream_push(g_ptr_array_index(run->streams, stream), function, life);
}

void sim_run_launch_birth(SimRun *run, uint32_t buffer)
{
    push_life(run, buffer, sim_plan_buffer(run->plan, buffer)->stream, give_birth);
}

void sim_run_launch_death(SimRun *run, uint32_t buffer, uint32_t stream)
{
    if (run->ledger != NULL)
        push_life(run, buffer, stream, die);
}
