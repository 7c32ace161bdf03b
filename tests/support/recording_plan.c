/* SPDX-License-Identifier: Apache-2.0 */
#include "recording_plan.h"

#include <string.h>

#include "base/csv.h"

/* A living buffer of a unit. */
typedef struct Living {
    uint32_t buffer;
    uint64_t remaining; /* bytes not given back: the recorder frees in pieces */
    char *name;         /* "U:layers.0#1" */
    char *unit;
    uint8_t category;
    bool is_partial;          /* a sum over the shard group that is kept for a later all-reduce */
    int32_t step, microbatch; /* of its last write */
} Living;

typedef struct Columns {
    int step, phase, op, unit, microbatch, bytes, dtype, group, stream, category, buffer, event,
        detail;
} Columns;

typedef struct Converter {
    const SimCsv *csv;
    Columns columns;
    SimPlan *plan;
    GArray *living;     /* of Living, in order of birth */
    GPtrArray *groups;  /* "shard ranks=0 1" texts, by group */
    GPtrArray *reduced; /* units whose present gradient went through its reduce-scatter */
    size_t row;
} Converter;

static const char *cell(const Converter *c, int column)
{
    return sim_csv_cell(c->csv, c->row, column);
}

/* A name of the recording as one of a plan, whose names have one serial: where a module has two
 * groups the recording has two ("P:layers.3#1#0" -> "P:layers.3.1#0"). Owned by the caller. */
static char *plan_name(const char *recorded)
{
    char *name = g_strdup(recorded);
    char *first = strchr(name, '#');
    if (first != NULL && strchr(first + 1, '#') != NULL)
        *first = '.';
    return name;
}

/* The unit likewise: "layers.3#1" -> "layers.3.1". */
static SimStringId plan_unit(SimPlan *plan, const char *recorded)
{
    g_autofree char *name = g_strdelimit(g_strdup(recorded), "#", '.');
    return sim_strings_intern(sim_plan_strings(plan), name);
}

static uint64_t bytes_of(const Converter *c)
{
    return g_ascii_strtoull(cell(c, c->columns.bytes), NULL, 10);
}

static SimStringId intern(Converter *c, const char *text)
{
    return sim_strings_intern(sim_plan_strings(c->plan), text);
}

static SimDtype dtype_of(const Converter *c)
{
    SimDtype dtype = SIM_DTYPE_NONE;
    const char *text = cell(c, c->columns.dtype);
    for (int i = 0; i < SIM_DTYPE_COUNT; i++)
        if (strcmp(text, sim_dtype_name((SimDtype)i)) == 0)
            dtype = (SimDtype)i;
    return dtype;
}

static uint8_t category_of(const Converter *c)
{
    const char *text = cell(c, c->columns.category);
    for (int i = 1; i < SIM_CATEGORY_COUNT; i++)
        if (strcmp(text, sim_plan_category_name((SimCategory)i)) == 0)
            return (uint8_t)i;
    return SIM_CATEGORY_NONE;
}

static void clear_living(gpointer data)
{
    Living *living = data;
    g_free(living->name);
    g_free(living->unit);
}

static Living *living_at(const Converter *c, guint i)
{
    return &g_array_index(c->living, Living, i);
}

/* --- kernels ------------------------------------------------------------------------------------
 */

static void start_kernel(Converter *c, const char *operator_name)
{
    const char *stream = cell(c, c->columns.stream);
    sim_plan_kernel(c->plan, sim_plan_stream(c->plan, *stream != '\0' ? stream : "compute"), 0,
                    intern(c, operator_name), dtype_of(c));
}

/* All living buffers of CATEGORY in UNIT. Returns how many. */
static guint read_all(Converter *c, const char *unit, uint8_t category)
{
    guint n = 0;
    for (guint i = 0; i < c->living->len; i++) {
        const Living *living = living_at(c, i);
        if (living->category != category || strcmp(living->unit, unit) != 0)
            continue;
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(living->buffer));
        n++;
    }
    return n;
}

static void write_all(Converter *c, const char *unit, uint8_t category)
{
    for (guint i = 0; i < c->living->len; i++) {
        Living *living = living_at(c, i);
        if (living->category != category || strcmp(living->unit, unit) != 0)
            continue;
        sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(living->buffer));
        living->step = sim_plan_context(c->plan)->step;
        living->microbatch = sim_plan_context(c->plan)->microbatch;
    }
}

/* The oldest or the youngest living buffer, or NULL. */
static Living *find_living(const Converter *c, const char *unit, uint8_t category, bool is_oldest)
{
    Living *found = NULL;
    for (guint i = 0; i < c->living->len; i++) {
        Living *living = living_at(c, i);
        if (living->category != category || strcmp(living->unit, unit) != 0)
            continue;
        if (found == NULL || !is_oldest)
            found = living;
    }
    return found;
}

static Living *find_first(const Converter *c, const char *unit, const uint8_t *categories, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Living *living = find_living(c, unit, categories[i], false);
        if (living != NULL)
            return living;
    }
    return NULL;
}

/* Reads and writes, if the buffer is the row's: FSDP1's NO_SHARD reduces a copy that the recording
 * does not show. */
static void touch_both(Converter *c, const Living *living)
{
    if (bytes_of(c) != 0 && bytes_of(c) != sim_plan_buffer(c->plan, living->buffer)->bytes)
        return;
    sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(living->buffer));
    sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(living->buffer));
}

/* --- buffers ------------------------------------------------------------------------------------
 */

/* True if OP is among the unit's next rows, up to where the model or the next use takes over. */
static bool is_followed_by(const Converter *c, const char *op)
{
    static const char *const ends[] = {"forward_begin", "backward_begin",    "free",
                                       "alloc",         "post_backward_end", NULL};
    const char *unit = cell(c, c->columns.unit);
    for (size_t at = c->row + 1; at < sim_csv_rows(c->csv); at++) {
        const char *next = sim_csv_cell(c->csv, at, c->columns.op);
        if (strcmp(sim_csv_cell(c->csv, at, c->columns.unit), unit) != 0)
            continue;
        if (strcmp(next, op) == 0)
            return true;
        if (g_strv_contains(ends, next))
            return false;
    }
    return false;
}

/* What a buffer holds from its birth on, where the recording has no row for it. */
static void fill_at_birth(Converter *c, Living born)
{
    if (born.category == SIM_CATEGORY_PARAMETER_SHARD ||
        born.category == SIM_CATEGORY_OPTIMIZER_STATE) {
        start_kernel(c, "fill");
    } else if (born.category == SIM_CATEGORY_POST_FORWARD_SHARD) {
        start_kernel(c, "clone");
        read_all(c, born.unit, SIM_CATEGORY_UNSHARDED_PARAMETER);
    } else if (born.category == SIM_CATEGORY_UNSHARDED_GRADIENT) {
        start_kernel(c, "gradient");
        read_all(c, born.unit, SIM_CATEGORY_UNSHARDED_PARAMETER);
    } else if (born.category == SIM_CATEGORY_UNSHARDED_PARAMETER) {
        /* A shard group of one rank copies the shard, and has no row for it. */
        if (is_followed_by(c, "copy_out") || is_followed_by(c, "all_gather"))
            return;
        start_kernel(c, "copy_out");
        read_all(c, born.unit, SIM_CATEGORY_PARAMETER_SHARD);
    } else if (born.category == SIM_CATEGORY_SHARDED_GRADIENT) {
        if (is_followed_by(c, "cast"))
            return;
        start_kernel(c, "cast");
        const Living *source = find_living(c, born.unit, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT, false);
        if (source != NULL)
            sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(source->buffer));
    } else if (born.category == SIM_CATEGORY_REDUCE_SCATTER_OUTPUT) {
        if (is_followed_by(c, "reduce_scatter"))
            return;
        start_kernel(c, "copy");
        read_all(c, born.unit, SIM_CATEGORY_REDUCE_SCATTER_INPUT);
    } else if (born.category == SIM_CATEGORY_REDUCE_COPY) {
        start_kernel(c, "cast");
        const uint8_t sources[] = {SIM_CATEGORY_REDUCE_COPY, SIM_CATEGORY_UNSHARDED_GRADIENT};
        const Living *source = find_first(c, born.unit, sources, G_N_ELEMENTS(sources));
        if (source != NULL)
            sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(source->buffer));
    } else {
        return;
    }
    sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(born.buffer));
}

static void forget_unit(GPtrArray *units, const char *unit)
{
    guint i;
    if (g_ptr_array_find_with_equal_func(units, unit, g_str_equal, &i))
        g_ptr_array_remove_index(units, i);
}

static void convert_alloc(Converter *c)
{
    SimPlan *plan = c->plan;
    const char *name = cell(c, c->columns.buffer);
    Living born = {.remaining = bytes_of(c),
                   .name = g_strdup(name),
                   .unit = g_strdup(cell(c, c->columns.unit)),
                   .category = category_of(c),
                   .is_partial =
                       strstr(cell(c, c->columns.detail), "partial_reduce_output") != NULL,
                   .step = sim_plan_context(plan)->step,
                   .microbatch = sim_plan_context(plan)->microbatch};
    g_autofree char *own_name = plan_name(name);
    born.buffer = sim_plan_alloc(plan, sim_plan_stream(plan, cell(c, c->columns.stream)),
                                 sim_plan_parse_name(plan, own_name), bytes_of(c),
                                 (SimCategory)born.category, dtype_of(c), 0);
    if (born.category == SIM_CATEGORY_REDUCE_SCATTER_OUTPUT)
        forget_unit(c->reduced, born.unit);
    fill_at_birth(c, born);
    g_array_append_val(c->living, born);
}

static void convert_free(Converter *c)
{
    const char *name = cell(c, c->columns.buffer);
    for (guint i = 0; i < c->living->len; i++) {
        Living *living = living_at(c, i);
        if (strcmp(living->name, name) != 0)
            continue;
        living->remaining -= MIN(living->remaining, bytes_of(c));
        if (living->remaining == 0) {
            sim_plan_free_buffer(c->plan, living->buffer);
            g_array_remove_index(c->living, i);
        }
        return;
    }
    g_assert_not_reached();
}

static void convert_record_stream(Converter *c)
{
    const char *name = cell(c, c->columns.buffer);
    for (guint i = 0; i < c->living->len; i++)
        if (strcmp(living_at(c, i)->name, name) == 0)
            sim_plan_record_stream(c->plan, living_at(c, i)->buffer,
                                   sim_plan_stream(c->plan, cell(c, c->columns.stream)));
}

/* --- communicators ------------------------------------------------------------------------------
 */

/* All lists of a group of which rank 0's is "0 2": the world cut the same way. */
static char *print_lists(uint32_t ranks, const GArray *first)
{
    uint32_t members = first->len;
    uint32_t stride = members > 1 ? g_array_index(first, uint32_t, 1) : 1;
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t start = 0; start < ranks; start++) {
        if (start / stride % members != 0)
            continue;
        for (uint32_t i = 0; i < members; i++)
            g_string_append_printf(text, "%s%u",
                                   i > 0       ? ","
                                   : start > 0 ? " "
                                               : "",
                                   start + i * stride);
    }
    return g_strdup(text->str);
}

/* The group of the collective in row AT: each set of ranks that bears a name is a group of its own.
 */
static uint32_t group_of_row(Converter *c, size_t at)
{
    const char *name = sim_csv_cell(c->csv, at, c->columns.group);
    const char *detail = sim_csv_cell(c->csv, at, c->columns.detail);
    g_assert(g_str_has_prefix(detail, "ranks="));
    size_t length = strspn(detail + 6, "0123456789 ");
    g_autofree char *ranks = g_strstrip(g_strndup(detail + 6, length));
    g_autofree char *key = g_strdup_printf("%s %s", name, ranks);
    uint32_t same_name = 0;
    for (guint i = 0; i < c->groups->len; i++) {
        const char *known = g_ptr_array_index(c->groups, i);
        if (strcmp(known, key) == 0)
            return i;
        same_name += g_str_has_prefix(known, name) ? 1 : 0;
    }
    g_auto(GStrv) parts = g_strsplit(ranks, " ", -1);
    g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (char **part = parts; *part != NULL; part++) {
        uint32_t rank = (uint32_t)g_ascii_strtoull(*part, NULL, 10);
        g_array_append_val(list, rank);
    }
    g_autofree char *lists = print_lists(sim_plan_ranks(c->plan), list);
    g_autofree char *own_name =
        same_name == 0 ? g_strdup(name) : g_strdup_printf("%s.%u", name, same_name);
    bool is_added = sim_plan_add_group(c->plan, own_name, lists, NULL);
    g_assert(is_added);
    g_ptr_array_add(c->groups, g_steal_pointer(&key));
    return c->groups->len - 1;
}

static uint32_t members_of(const Converter *c, uint32_t group)
{
    uint32_t list, place, members = 1;
    sim_plan_group_of_rank(c->plan, group, 0, &list, &place, &members);
    return members;
}

/* The group of the all-gather that follows for the same unit; SIM_PLAN_NONE if there is none. */
static uint32_t group_of_next_gather(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    for (size_t at = c->row + 1; at < sim_csv_rows(c->csv); at++)
        if (strcmp(sim_csv_cell(c->csv, at, c->columns.op), "all_gather") == 0 &&
            strcmp(sim_csv_cell(c->csv, at, c->columns.unit), unit) == 0)
            return group_of_row(c, at);
    return SIM_PLAN_NONE;
}

/* --- gathering ----------------------------------------------------------------------------------
 */

/* The sources of an all-gather's input: the smaller mesh's shards where there are some. */
static void read_shards(Converter *c, const char *unit)
{
    if (read_all(c, unit, SIM_CATEGORY_POST_FORWARD_SHARD) == 0)
        read_all(c, unit, SIM_CATEGORY_PARAMETER_SHARD);
}

static void convert_cast(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    start_kernel(c, "cast");
    if (strcmp(cell(c, c->columns.detail), "sharded gradient") == 0) {
        const Living *from = find_living(c, unit, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT, false);
        const Living *to = find_living(c, unit, SIM_CATEGORY_SHARDED_GRADIENT, false);
        if (from != NULL && to != NULL) {
            sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(from->buffer));
            sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(to->buffer));
        }
        return;
    }
    read_shards(c, unit);
    write_all(c, unit, SIM_CATEGORY_TEMPORARY);
    write_all(c, unit, SIM_CATEGORY_LOW_PRECISION_SHARD);
}

static void convert_copy_in(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    uint32_t group = group_of_next_gather(c);
    start_kernel(c, "copy_in");
    /* Casts that keep some parameters as they are leave those to be copied from the shard. */
    read_all(c, unit, SIM_CATEGORY_TEMPORARY);
    read_shards(c, unit);
    const Living *output = find_living(c, unit, SIM_CATEGORY_ALL_GATHER_OUTPUT, false);
    if (output == NULL)
        return;
    sim_plan_add_write(c->plan, (SimTouch){.buffer = output->buffer,
                                           .times_rank = true,
                                           .offset = bytes_of(c),
                                           .bytes = bytes_of(c)});
    SimInstruction *row = sim_plan_last(c->plan);
    row->group = group;
}

static void convert_all_gather(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    uint32_t group = group_of_row(c, c->row);
    uint64_t part = bytes_of(c) / members_of(c, group);
    sim_plan_collective(c->plan, sim_plan_stream(c->plan, cell(c, c->columns.stream)), 0,
                        SIM_COLLECTIVE_ALL_GATHER, group, bytes_of(c), dtype_of(c));
    const Living *output = find_living(c, unit, SIM_CATEGORY_ALL_GATHER_OUTPUT, false);
    if (output != NULL) {
        sim_plan_add_read(c->plan, (SimTouch){.buffer = output->buffer,
                                              .times_rank = true,
                                              .offset = part,
                                              .bytes = part});
        sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(output->buffer));
        return;
    }
    /* FSDP1 gathers straight from the shard into the flat parameter. */
    const uint8_t sources[] = {SIM_CATEGORY_LOW_PRECISION_SHARD, SIM_CATEGORY_PARAMETER_SHARD};
    const Living *source = find_first(c, unit, sources, G_N_ELEMENTS(sources));
    output = find_living(c, unit, SIM_CATEGORY_UNSHARDED_PARAMETER, false);
    if (source != NULL && output != NULL) {
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(source->buffer));
        sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(output->buffer));
    }
}

static void convert_copy_out(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    start_kernel(c, "copy_out");
    const Living *source = find_living(c, unit, SIM_CATEGORY_ALL_GATHER_OUTPUT, false);
    if (source != NULL)
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(source->buffer));
    else
        read_all(c, unit, SIM_CATEGORY_PARAMETER_SHARD);
    write_all(c, unit, SIM_CATEGORY_UNSHARDED_PARAMETER);
}

/* --- gradients ----------------------------------------------------------------------------------
 */

/* Gradients that an earlier microbatch left are added to in place. */
static void convert_post_backward(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    const SimPlanContext *context = sim_plan_context(c->plan);
    for (guint i = 0; i < c->living->len; i++) {
        Living *living = living_at(c, i);
        if (living->category != SIM_CATEGORY_UNSHARDED_GRADIENT ||
            strcmp(living->unit, unit) != 0 ||
            (living->step == context->step && living->microbatch == context->microbatch))
            continue;
        start_kernel(c, "gradient");
        read_all(c, unit, SIM_CATEGORY_UNSHARDED_PARAMETER);
        touch_both(c, living);
        living->step = context->step;
        living->microbatch = context->microbatch;
    }
}

static const uint8_t reduce_inputs[] = {SIM_CATEGORY_REDUCE_SCATTER_INPUT, SIM_CATEGORY_REDUCE_COPY,
                                        SIM_CATEGORY_UNSHARDED_GRADIENT};

static bool is_reduced(const Converter *c, const char *unit)
{
    return g_ptr_array_find_with_equal_func(c->reduced, unit, g_str_equal, NULL);
}

static void set_reduction(Converter *c, SimInstruction *row)
{
    const char *op = strstr(cell(c, c->columns.detail), "op=");
    if (op == NULL)
        return;
    if (g_str_has_prefix(op, "op=AVG"))
        row->arguments = intern(c, "reduction=avg");
    else if (g_str_has_prefix(op, "op=SUM"))
        row->arguments = intern(c, "reduction=sum");
}

static void convert_reduce(Converter *c, SimCollectiveKind kind)
{
    const char *unit = cell(c, c->columns.unit);
    uint32_t group = group_of_row(c, c->row);
    SimInstruction *row =
        sim_plan_collective(c->plan, sim_plan_stream(c->plan, cell(c, c->columns.stream)), 0, kind,
                            group, bytes_of(c), dtype_of(c));
    set_reduction(c, row);
    const Living *output = find_living(c, unit, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT, false);
    const Living *input = find_first(c, unit, reduce_inputs, G_N_ELEMENTS(reduce_inputs));
    if (kind == SIM_COLLECTIVE_ALL_REDUCE) {
        const Living *both = output != NULL ? output : input;
        if (both != NULL)
            touch_both(c, both);
        return;
    }
    if (input != NULL && output != NULL) {
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(input->buffer));
        sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(output->buffer));
    }
    g_ptr_array_add(c->reduced, g_strdup(unit));
    const Living *partial = find_living(c, unit, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT, true);
    if (partial == NULL || partial == output || output == NULL)
        return;
    if (strcmp(cell(c, c->columns.stream), "post_backward") == 0) {
        /* FSDP1 adds to the sharded gradient here, and has no row for it. */
        start_kernel(c, "accumulate");
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(output->buffer));
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(partial->buffer));
        sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(partial->buffer));
        return;
    }
    if (!partial->is_partial)
        return;
    /* Sums of earlier microbatches that were not all-reduced are added on the same stream. */
    start_kernel(c, "add partial");
    sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(partial->buffer));
    sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(output->buffer));
    sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(output->buffer));
}

static void convert_chunk_cat(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    start_kernel(c, "chunk_cat");
    read_all(c, unit, SIM_CATEGORY_UNSHARDED_GRADIENT);
    const Living *input = find_living(c, unit, SIM_CATEGORY_REDUCE_SCATTER_INPUT, false);
    if (input != NULL)
        sim_plan_add_write(c->plan, SIM_TOUCH_WHOLE(input->buffer));
}

/* Before the reduce-scatter of the input, after it of the output. */
static void convert_div(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    const Living *both = is_reduced(c, unit)
                             ? find_living(c, unit, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT, false)
                             : find_first(c, unit, reduce_inputs, G_N_ELEMENTS(reduce_inputs));
    if (both == NULL)
        both = find_first(c, unit, reduce_inputs, G_N_ELEMENTS(reduce_inputs));
    start_kernel(c, "divide");
    SimInstruction *row = sim_plan_last(c->plan);
    row->arguments = intern(c, cell(c, c->columns.detail));
    if (both != NULL)
        touch_both(c, both);
}

/* The new result is added to the one that an earlier microbatch left. */
static void convert_accumulate(Converter *c)
{
    const char *unit = cell(c, c->columns.unit);
    const uint8_t results[] = {SIM_CATEGORY_SHARDED_GRADIENT, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT};
    start_kernel(c, "accumulate");
    for (size_t i = 0; i < G_N_ELEMENTS(results); i++) {
        const Living *old = find_living(c, unit, results[i], true);
        const Living *new = find_living(c, unit, results[i], false);
        if (old == NULL || new == old)
            continue;
        sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(new->buffer));
        touch_both(c, old);
        return;
    }
}

/* --- optimizer ----------------------------------------------------------------------------------
 */

static void update_unit(Converter *c, const char *unit)
{
    const uint8_t gradients[] = {SIM_CATEGORY_SHARDED_GRADIENT, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT,
                                 SIM_CATEGORY_REDUCE_COPY, SIM_CATEGORY_UNSHARDED_GRADIENT};
    const Living *gradient = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(gradients) && gradient == NULL; i++)
        gradient = find_living(c, unit, gradients[i], true);
    if (gradient == NULL)
        return;
    start_kernel(c, "adamw");
    sim_plan_add_read(c->plan, SIM_TOUCH_WHOLE(gradient->buffer));
    read_all(c, unit, SIM_CATEGORY_PARAMETER_SHARD);
    write_all(c, unit, SIM_CATEGORY_PARAMETER_SHARD);
}

static void convert_optimizer_end(Converter *c)
{
    for (guint i = 0; i < c->living->len; i++) {
        const Living *living = living_at(c, i);
        if (living->category != SIM_CATEGORY_PARAMETER_SHARD)
            continue;
        sim_plan_context(c->plan)->unit = plan_unit(c->plan, living->unit);
        g_autofree char *unit = g_strdup(living->unit);
        update_unit(c, unit);
    }
}

/* --- rows ---------------------------------------------------------------------------------------
 */

static void convert_event(Converter *c, const char *op)
{
    SimPlan *plan = c->plan;
    const char *event = cell(c, c->columns.event);
    const char *stream_name = cell(c, c->columns.stream);
    uint32_t stream = *stream_name != '\0' ? sim_plan_stream(plan, stream_name) : 0;
    if (g_str_has_prefix(event, "stream:")) {
        sim_plan_wait_stream(plan, stream, sim_plan_stream(plan, event + strlen("stream:")));
        return;
    }
    g_autofree char *own_name = plan_name(event);
    SimName name = sim_plan_parse_name(plan, own_name);
    if (strcmp(op, "record") == 0)
        sim_plan_record(plan, stream, name);
    else if (strcmp(op, "host_wait") == 0)
        sim_plan_host_wait(plan, sim_plan_event(plan, name));
    else
        sim_plan_wait(plan, stream, sim_plan_event(plan, name));
}

static void run_model(Converter *c, const char *operator_name)
{
    const char *unit = cell(c, c->columns.unit);
    if (find_living(c, unit, SIM_CATEGORY_UNSHARDED_PARAMETER, true) == NULL)
        return;
    start_kernel(c, operator_name);
    read_all(c, unit, SIM_CATEGORY_UNSHARDED_PARAMETER);
}

static void set_context(Converter *c)
{
    SimPlanContext *context = sim_plan_context(c->plan);
    const char *step = cell(c, c->columns.step), *phase = cell(c, c->columns.phase);
    const char *microbatch = cell(c, c->columns.microbatch);
    bool is_evaluation = strcmp(microbatch, "eval") == 0;
    context->step = *step != '\0' ? (int32_t)g_ascii_strtoll(step, NULL, 10) : -1;
    context->microbatch =
        *microbatch != '\0' && !is_evaluation ? (int32_t)g_ascii_strtoll(microbatch, NULL, 10) : -1;
    context->unit = plan_unit(c->plan, cell(c, c->columns.unit));
    context->phase = SIM_PHASE_NONE;
    for (int i = 0; i < SIM_PHASE_COUNT; i++)
        if (strcmp(phase, sim_plan_phase_name((SimPhase)i)) == 0)
            context->phase = (SimPhase)i;
    if (is_evaluation)
        context->phase = SIM_PHASE_EVALUATION;
}

static void convert_work(Converter *c, const char *op)
{
    if (strcmp(op, "cast") == 0)
        convert_cast(c);
    else if (strcmp(op, "copy_in") == 0)
        convert_copy_in(c);
    else if (strcmp(op, "all_gather") == 0)
        convert_all_gather(c);
    else if (strcmp(op, "copy_out") == 0)
        convert_copy_out(c);
    else if (strcmp(op, "chunk_cat") == 0)
        convert_chunk_cat(c);
    else if (strcmp(op, "div") == 0)
        convert_div(c);
    else if (strcmp(op, "reduce_scatter") == 0)
        convert_reduce(c, SIM_COLLECTIVE_REDUCE_SCATTER);
    else if (strcmp(op, "all_reduce") == 0)
        convert_reduce(c, SIM_COLLECTIVE_ALL_REDUCE);
    else if (strcmp(op, "accumulate") == 0)
        convert_accumulate(c);
    else if (strcmp(op, "forward_begin") == 0)
        run_model(c, "forward");
    else if (strcmp(op, "backward_begin") == 0)
        run_model(c, "backward");
}

static void convert_row(Converter *c)
{
    const char *op = cell(c, c->columns.op);
    set_context(c);
    if (strcmp(op, "alloc") == 0)
        convert_alloc(c);
    else if (strcmp(op, "free") == 0)
        convert_free(c);
    else if (strcmp(op, "record_stream") == 0)
        convert_record_stream(c);
    else if (strcmp(op, "record") == 0 || strcmp(op, "wait") == 0 || strcmp(op, "host_wait") == 0 ||
             strcmp(op, "wait_rs_state") == 0)
        convert_event(c, op);
    else if (strcmp(op, "post_backward") == 0)
        convert_post_backward(c);
    else if (strcmp(op, "optimizer_end") == 0)
        convert_optimizer_end(c);
    else if (strcmp(op, "optimizer") == 0 && *cell(c, c->columns.unit) != '\0')
        update_unit(c, cell(c, c->columns.unit));
    else
        convert_work(c, op);
}

static uint32_t ranks_of_file(const char *file)
{
    const char *mark = strstr(file, "-w");
    for (const char *next = mark; next != NULL; next = strstr(next + 1, "-w"))
        if (g_ascii_isdigit(next[2]))
            mark = next;
    if (mark != NULL && g_ascii_isdigit(mark[2]))
        return (uint32_t)g_ascii_strtoull(mark + 2, NULL, 10);
    return 4; /* -2x2 */
}

SimPlan *recording_plan_load(const char *file, GError **error)
{
    g_autoptr(SimCsv) csv = sim_csv_load(file, NULL, error);
    if (csv == NULL)
        return NULL;
    Columns columns = {.step = sim_csv_column(csv, "step"),
                       .phase = sim_csv_column(csv, "phase"),
                       .op = sim_csv_column(csv, "op"),
                       .unit = sim_csv_column(csv, "unit"),
                       .microbatch = sim_csv_column(csv, "microbatch"),
                       .bytes = sim_csv_column(csv, "bytes"),
                       .dtype = sim_csv_column(csv, "dtype"),
                       .group = sim_csv_column(csv, "group"),
                       .stream = sim_csv_column(csv, "stream"),
                       .category = sim_csv_column(csv, "category"),
                       .buffer = sim_csv_column(csv, "buffer"),
                       .event = sim_csv_column(csv, "event"),
                       .detail = sim_csv_column(csv, "detail")};
    g_autofree char *base = g_path_get_basename(file);
    g_autoptr(SimPlan) plan = sim_plan_new(ranks_of_file(base));
    g_autoptr(GArray) living = g_array_new(FALSE, FALSE, sizeof(Living));
    g_array_set_clear_func(living, clear_living);
    g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) reduced = g_ptr_array_new_with_free_func(g_free);
    Converter converter = {.csv = csv,
                           .columns = columns,
                           .plan = plan,
                           .living = living,
                           .groups = groups,
                           .reduced = reduced};
    for (; converter.row < sim_csv_rows(csv); converter.row++)
        convert_row(&converter);
    return g_steal_pointer(&plan);
}
