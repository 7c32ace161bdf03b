/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/report.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/units.h"
#include "trace/timeline_csv.h"

/* This rank's bytes behind those of the ranks before it, on rank 0; SIZES gets their lengths. */
static char *gather_bytes(const void *own, int n, MPI_Comm world, int **sizes)
{
    int rank, ranks, total = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    *sizes = g_new0(int, (gsize)ranks);
    g_autofree int *offsets = g_new0(int, (gsize)ranks);
    PMPI_Gather(&n, 1, MPI_INT, *sizes, 1, MPI_INT, 0, world);
    for (int i = 0; i < ranks; i++) {
        offsets[i] = total;
        total += (*sizes)[i];
    }
    char *all = g_malloc0((size_t)total + 1);
    PMPI_Gatherv(own, n, MPI_BYTE, all, *sizes, offsets, MPI_BYTE, 0, world);
    return all;
}

static cJSON *make_faults(SimRun *run, MPI_Comm world)
{
    g_autofree char *own = sim_faults_print(sim_run_faults(run));
    g_autofree int *sizes = NULL;
    g_autofree char *all = gather_bytes(own, (int)strlen(own), world, &sizes);
    g_auto(GStrv) lines = g_strsplit(all, "\n", -1);
    cJSON *faults = cJSON_CreateArray();
    for (size_t i = 0; lines[i] != NULL; i++)
        if (*lines[i] != '\0')
            cJSON_AddItemToArray(faults, cJSON_CreateString(lines[i]));
    return faults;
}

static cJSON *make_memory(const SimRun *run)
{
    const GArray *rows = sim_run_memory(run);
    uint64_t allocated = 0, reserved = 0, wrong = 0;
    for (guint i = 0; i < rows->len; i++) {
        const SimRunMemory *row = &g_array_index(rows, SimRunMemory, i);
        allocated = MAX(allocated, row->allocated_bytes);
        reserved = MAX(reserved, row->reserved_bytes);
        wrong += row->allocated_bytes != row->live_bytes;
    }
    cJSON *memory = cJSON_CreateObject();
    cJSON_AddNumberToObject(memory, "peak_allocated_bytes", (double)allocated);
    cJSON_AddNumberToObject(memory, "peak_reserved_bytes", (double)reserved);
    cJSON_AddNumberToObject(memory, "rows_that_differ", (double)wrong);
    return memory;
}

static cJSON *make_difference(const SimValuesDifference *d)
{
    if (d == NULL)
        return cJSON_CreateNull();
    cJSON *difference = cJSON_CreateObject();
    cJSON_AddNumberToObject(difference, "loss", isfinite(d->loss) ? d->loss : 1e300);
    cJSON_AddNumberToObject(difference, "first_gradient",
                            isfinite(d->first_gradient) ? d->first_gradient : 1e300);
    cJSON_AddNumberToObject(difference, "gradient", isfinite(d->gradient) ? d->gradient : 1e300);
    cJSON_AddNumberToObject(difference, "parameter", isfinite(d->parameter) ? d->parameter : 1e300);
    cJSON_AddNumberToObject(difference, "gradient_of_worst",
                            isfinite(d->gradient_of_worst) ? d->gradient_of_worst : 1e300);
    cJSON_AddNumberToObject(difference, "parameter_of_worst",
                            isfinite(d->parameter_of_worst) ? d->parameter_of_worst : 1e300);
    cJSON_AddStringToObject(difference, "worst_gradient",
                            d->worst_gradient != NULL ? d->worst_gradient : "");
    cJSON_AddStringToObject(difference, "worst_parameter",
                            d->worst_parameter != NULL ? d->worst_parameter : "");
    cJSON_AddNumberToObject(difference, "losses", d->losses);
    cJSON_AddNumberToObject(difference, "gradients", d->gradients);
    cJSON_AddNumberToObject(difference, "parameters", d->parameters);
    return difference;
}

/* [step][rank] seconds. */
static cJSON *make_steps(const SimRun *run, const SimPlan *plan, MPI_Comm world)
{
    int ranks;
    MPI_Comm_size(world, &ranks);
    int32_t last = -1;
    for (size_t i = 0; i < sim_plan_length(plan); i++)
        last = MAX(last, sim_plan_instruction(plan, i)->step);
    cJSON *steps = cJSON_CreateArray();
    g_autofree double *seconds = g_new0(double, (gsize)ranks);
    for (int32_t step = 0; step <= last; step++) {
        double own = sim_units_seconds(sim_run_step_time(run, step));
        PMPI_Gather(&own, 1, MPI_DOUBLE, seconds, 1, MPI_DOUBLE, 0, world);
        cJSON_AddItemToArray(steps, cJSON_CreateDoubleArray(seconds, ranks));
    }
    return steps;
}

void sim_report_save_json(SimRun *run, const SimPlan *plan, const SimValues *whole,
                          const SimValuesDifference *difference, MPI_Comm world,
                          SimOutputFile *file)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "schema", "fsdpsim.run/1");
    cJSON_AddNumberToObject(json, "ranks", sim_plan_ranks(plan));
    cJSON_AddNumberToObject(json, "rows", (double)sim_plan_length(plan));
    cJSON_AddItemToObject(json, "faults", make_faults(run, world));
    cJSON *losses = cJSON_AddArrayToObject(json, "losses");
    for (uint32_t i = 0; whole != NULL && i < sim_values_steps(whole); i++)
        cJSON_AddItemToArray(losses, cJSON_CreateNumber(sim_values_loss(whole, i)));
    cJSON_AddItemToObject(json, "difference", make_difference(difference));
    cJSON_AddItemToObject(json, "memory", make_memory(run));
    cJSON_AddItemToObject(json, "step_seconds", make_steps(run, plan, world));
    if (file != NULL) {
        char *text = cJSON_Print(json);
        sim_output_file_puts(file, text);
        sim_output_file_puts(file, "\n");
        cJSON_free(text);
    }
    cJSON_Delete(json);
}

static void write_name(SimCsvWriter *writer, const SimPlan *plan, uint32_t buffer)
{
    g_autofree char *name = sim_plan_print_name(plan, sim_plan_buffer(plan, buffer)->name);
    sim_csv_writer_text(writer, name);
}

static void write_header(SimCsvWriter *writer, const char *const *columns)
{
    for (size_t i = 0; columns[i] != NULL; i++)
        sim_csv_writer_text(writer, columns[i]);
    sim_csv_writer_end_row(writer);
}

void sim_report_save_memory(const SimRun *run, const SimPlan *plan, SimOutputFile *file)
{
    static const char *const columns[] = {
        "row",        "action",         "buffer", "bytes", "allocated_bytes",
        "live_bytes", "reserved_bytes", NULL};
    const GArray *rows = sim_run_memory(run);
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    write_header(&writer, columns);
    for (guint i = 0; i < rows->len; i++) {
        const SimRunMemory *row = &g_array_index(rows, SimRunMemory, i);
        sim_csv_writer_uint(&writer, row->row + UINT64_C(1));
        sim_csv_writer_text(&writer, row->is_alloc ? "alloc" : "free_requested");
        write_name(&writer, plan, row->buffer);
        sim_csv_writer_uint(&writer, sim_plan_buffer(plan, row->buffer)->bytes);
        sim_csv_writer_uint(&writer, row->allocated_bytes);
        sim_csv_writer_uint(&writer, row->live_bytes);
        sim_csv_writer_uint(&writer, row->reserved_bytes);
        sim_csv_writer_end_row(&writer);
    }
}

static void write_row(SimCsvWriter *writer, uint32_t row)
{
    if (row == SIM_PLAN_NONE)
        sim_csv_writer_empty(writer);
    else
        sim_csv_writer_uint(writer, row + UINT64_C(1));
}

void sim_report_save_lives(const SimRun *run, const SimPlan *plan, SimOutputFile *file)
{
    static const char *const columns[] = {"buffer",      "address",  "bytes", "birth",
                                          "first_write", "last_use", "death", NULL};
    const SimLedger *ledger = sim_run_ledger(run);
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    write_header(&writer, columns);
    for (uint32_t i = 0; ledger != NULL && i < sim_plan_buffer_count(plan); i++) {
        const SimLedgerLife *life = sim_ledger_life(ledger, i);
        if (life->birth == SIM_PLAN_NONE)
            continue;
        write_name(&writer, plan, i);
        sim_csv_writer_uint(&writer, life->address);
        sim_csv_writer_uint(&writer, life->bytes);
        write_row(&writer, life->birth);
        write_row(&writer, life->first_write);
        write_row(&writer, life->last_use);
        write_row(&writer, life->death);
        sim_csv_writer_end_row(&writer);
    }
}

void sim_report_save_timeline(const SimRun *run, const SimPlan *plan, MPI_Comm world,
                              SimOutputFile *file)
{
    const GArray *own = sim_run_spans(run);
    int ranks;
    MPI_Comm_size(world, &ranks);
    g_autofree int *sizes = NULL;
    g_autofree char *all =
        gather_bytes(own->data, (int)(own->len * sizeof(SimSpan)), world, &sizes);
    if (file == NULL)
        return;
    g_autoptr(SimRecorder) recorder = sim_recorder_new(plan);
    const char *at = all;
    for (int rank = 0; rank < ranks; rank++) {
        SimTrack *track = sim_recorder_add(recorder, (uint32_t)rank);
        for (int done = 0; done < sizes[rank]; done += (int)sizeof(SimSpan)) {
            SimSpan span;
            memcpy(&span, at, sizeof span);
            at += sizeof span;
            g_array_append_val(track->spans, span);
        }
        sim_recorder_sort(track);
    }
    sim_timeline_csv_save(recorder, file);
}
