/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_csv.h"

#include "base/csv.h"
#include "plan/plan_columns.h"

const char *const *sim_plan_columns(void)
{
    static const char *const names[SIM_COLUMN_COUNT + 1] = {
        [SIM_COLUMN_RANK] = "rank",
        [SIM_COLUMN_OP] = "op",
        [SIM_COLUMN_STREAM] = "stream",
        [SIM_COLUMN_NAME] = "name",
        [SIM_COLUMN_STEP] = "step",
        [SIM_COLUMN_PHASE] = "phase",
        [SIM_COLUMN_MICROBATCH] = "microbatch",
        [SIM_COLUMN_UNIT] = "unit",
        [SIM_COLUMN_BUFFER] = "buffer",
        [SIM_COLUMN_BYTES] = "bytes",
        [SIM_COLUMN_SHAPE] = "shape",
        [SIM_COLUMN_DTYPE] = "dtype",
        [SIM_COLUMN_CATEGORY] = "category",
        [SIM_COLUMN_READS] = "reads",
        [SIM_COLUMN_WRITES] = "writes",
        [SIM_COLUMN_OPERATOR] = "operator",
        [SIM_COLUMN_ARGUMENTS] = "arguments",
        [SIM_COLUMN_EVENT] = "event",
        [SIM_COLUMN_GROUP] = "group",
        [SIM_COLUMN_COLLECTIVE] = "collective",
        [SIM_COLUMN_FLOPS] = "flops",
        [SIM_COLUMN_HBM_BYTES] = "hbm_bytes",
        [SIM_COLUMN_DURATION] = "duration",
    };
    return names;
}

typedef struct Saver {
    const SimPlan *plan;
    SimCsvWriter writer;
    GString *text; /* scratch */
} Saver;

/* A row that holds a name and arguments only: meta, group. */
static void write_head_row(Saver *saver, const char *op, const char *name, const char *arguments)
{
    for (int i = 0; i < SIM_COLUMN_COUNT; i++) {
        if (i == SIM_COLUMN_OP)
            sim_csv_writer_text(&saver->writer, op);
        else if (i == SIM_COLUMN_NAME)
            sim_csv_writer_text(&saver->writer, name);
        else if (i == SIM_COLUMN_ARGUMENTS)
            sim_csv_writer_text(&saver->writer, arguments);
        else
            sim_csv_writer_empty(&saver->writer);
    }
    sim_csv_writer_end_row(&saver->writer);
}

/* Streams are numbered by first use; those that a builder made in another order are listed, so that
 * they get their numbers again. */
static void write_streams(Saver *saver)
{
    uint32_t n = sim_plan_stream_count(saver->plan);

    g_string_truncate(saver->text, 0);
    for (uint32_t i = 0; i < n; i++)
        g_string_append_printf(saver->text, "%s%s", i > 0 ? " " : "",
                               sim_plan_stream_name(saver->plan, i));
    write_head_row(saver, "meta", "streams", saver->text->str);
}

static void write_head(Saver *saver)
{
    const SimPlan *plan = saver->plan;
    g_autofree char *ranks = g_strdup_printf("%u", sim_plan_ranks(plan));

    write_head_row(saver, "meta", "schema", SIM_PLAN_SCHEMA);
    write_head_row(saver, "meta", "ranks", ranks);
    write_streams(saver);
    for (size_t i = 0; i < sim_plan_meta_count(plan); i++) {
        const char *key = sim_plan_meta_key(plan, i);
        write_head_row(saver, "meta", key, sim_plan_get_meta(plan, key));
    }
    for (uint32_t i = 0; i < sim_plan_group_count(plan); i++) {
        g_autofree char *lists = sim_plan_print_group(plan, i);
        write_head_row(saver, "group", sim_plan_group_name(plan, i), lists);
    }
}

static void write_number(Saver *saver, uint64_t value)
{
    if (value != 0)
        sim_csv_writer_uint(&saver->writer, value);
    else
        sim_csv_writer_empty(&saver->writer);
}

static void write_index(Saver *saver, int32_t value)
{
    if (value >= 0)
        sim_csv_writer_int(&saver->writer, value);
    else
        sim_csv_writer_empty(&saver->writer);
}

static void write_string(Saver *saver, SimStringId id)
{
    sim_csv_writer_text(&saver->writer, sim_plan_string(saver->plan, id));
}

static void write_name(Saver *saver, SimName name)
{
    g_string_truncate(saver->text, 0);
    sim_plan_append_name(saver->plan, name, saver->text);
    sim_csv_writer_text(&saver->writer, saver->text->str);
}

static void write_touches(Saver *saver, const SimTouch *touches, uint32_t n)
{
    g_string_truncate(saver->text, 0);
    for (uint32_t i = 0; i < n; i++) {
        const SimTouch *touch = &touches[i];
        if (i > 0)
            g_string_append_c(saver->text, ' ');
        sim_plan_append_name(saver->plan, sim_plan_buffer(saver->plan, touch->buffer)->name,
                             saver->text);
        if (touch->bytes != 0)
            g_string_append_printf(saver->text, "[%s%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT "]",
                                   touch->times_rank ? "R*" : "", touch->offset, touch->bytes);
    }
    sim_csv_writer_text(&saver->writer, saver->text->str);
}

/* Exact: in the largest unit that divides it. */
static void write_duration(Saver *saver, SimTime duration)
{
    static const struct {
        SimTime unit;
        const char *name;
    } units[] = {{SIM_SECOND, "s"},
                 {SIM_MILLISECOND, "ms"},
                 {SIM_MICROSECOND, "us"},
                 {SIM_NANOSECOND, "ns"},
                 {1, "ps"}};
    size_t i = 0;

    if (duration < 0) {
        sim_csv_writer_empty(&saver->writer);
        return;
    }
    while (duration % units[i].unit != 0)
        i++;
    g_string_printf(saver->text, "%" G_GINT64_FORMAT "%s", duration / units[i].unit, units[i].name);
    sim_csv_writer_text(&saver->writer, saver->text->str);
}

static const char *stream_text(const SimPlan *plan, const SimInstruction *row)
{
    switch ((SimPlanOp)row->op) {
    case SIM_PLAN_ALLOC:
        if (sim_plan_buffer(plan, row->buffer)->is_host)
            return "host";
        break;
    case SIM_PLAN_RECORD_STREAM:
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
    case SIM_PLAN_COLLECTIVE:
    case SIM_PLAN_RECORD:
    case SIM_PLAN_WAIT:
        break;
    case SIM_PLAN_VIEW:
    case SIM_PLAN_FREE:
    case SIM_PLAN_HOST_WAIT:
    case SIM_PLAN_HOST:
    case SIM_PLAN_MARK:
    case SIM_PLAN_OP_COUNT:
        return "";
    }
    return sim_plan_stream_name(plan, row->stream);
}

static void write_place(Saver *saver, const SimInstruction *row)
{
    sim_csv_writer_text(&saver->writer, sim_plan_rank_set_text(saver->plan, row->rank_set));
    sim_csv_writer_text(&saver->writer, sim_plan_op_name((SimPlanOp)row->op));
    sim_csv_writer_text(&saver->writer, stream_text(saver->plan, row));
    write_string(saver, row->name);
    write_index(saver, row->step);
    sim_csv_writer_text(&saver->writer, sim_plan_phase_name((SimPhase)row->phase));
    write_index(saver, row->microbatch);
    write_string(saver, row->unit);
}

static void write_buffer(Saver *saver, const SimInstruction *row)
{
    const SimBuffer *buffer =
        row->buffer != SIM_PLAN_NONE ? sim_plan_buffer(saver->plan, row->buffer) : NULL;

    if (buffer != NULL)
        write_name(saver, buffer->name);
    else
        sim_csv_writer_empty(&saver->writer);
    if (row->op == SIM_PLAN_ALLOC)
        sim_csv_writer_uint(&saver->writer, row->bytes);
    else
        write_number(saver, row->bytes);
    write_string(saver, row->shape);
    sim_csv_writer_text(&saver->writer, sim_dtype_name((SimDtype)row->dtype));
    if (row->op == SIM_PLAN_ALLOC)
        sim_csv_writer_text(&saver->writer, sim_plan_category_name((SimCategory)buffer->category));
    else
        sim_csv_writer_empty(&saver->writer);
}

static void write_arguments(Saver *saver, const SimInstruction *row)
{
    const char *arguments = sim_plan_string(saver->plan, row->arguments);

    if (row->op != SIM_PLAN_COPY) {
        sim_csv_writer_text(&saver->writer, arguments);
        return;
    }
    g_string_printf(saver->text, "%s%s%s", row->is_device_to_host ? "d2h" : "h2d",
                    *arguments != '\0' ? " " : "", arguments);
    sim_csv_writer_text(&saver->writer, saver->text->str);
}

static void write_event(Saver *saver, const SimInstruction *row)
{
    if (row->is_event_of_stream) {
        g_string_printf(saver->text, "stream:%s", sim_plan_stream_name(saver->plan, row->event));
        sim_csv_writer_text(&saver->writer, saver->text->str);
    } else if (row->event != SIM_PLAN_NONE) {
        write_name(saver, sim_plan_event_name(saver->plan, row->event));
    } else {
        sim_csv_writer_empty(&saver->writer);
    }
}

static void write_row(Saver *saver, const SimInstruction *row)
{
    const SimTouch *touches = sim_plan_touches(saver->plan, row);

    write_place(saver, row);
    write_buffer(saver, row);
    write_touches(saver, touches, row->n_reads);
    write_touches(saver, touches + row->n_reads, row->n_writes);
    write_string(saver, row->operator_name);
    write_arguments(saver, row);
    write_event(saver, row);
    sim_csv_writer_text(&saver->writer, row->group != SIM_PLAN_NONE
                                            ? sim_plan_group_name(saver->plan, row->group)
                                            : "");
    sim_csv_writer_text(&saver->writer,
                        sim_plan_collective_name((SimCollectiveKind)row->collective));
    write_number(saver, row->flops);
    write_number(saver, row->hbm_bytes);
    write_duration(saver, row->duration);
    sim_csv_writer_end_row(&saver->writer);
}

void sim_plan_csv_save(const SimPlan *plan, SimOutputFile *file)
{
    g_autoptr(GString) text = g_string_new(NULL);
    Saver saver = {.plan = plan, .text = text};
    const char *const *columns = sim_plan_columns();

    sim_csv_writer_init(&saver.writer, file);
    for (int i = 0; i < SIM_COLUMN_COUNT; i++)
        sim_csv_writer_text(&saver.writer, columns[i]);
    sim_csv_writer_end_row(&saver.writer);
    write_head(&saver);
    for (size_t i = 0; i < sim_plan_length(plan); i++)
        write_row(&saver, sim_plan_instruction(plan, i));
}
