/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/validation.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "hbm/allocator.h"

#define EXACT_BOUND 1e-5
/* AdamW divides by |g| at first: where a gradient is near 0 its rounding moves the weight by a good
 * part of the learning rate, and later gradients show it. */
#define LATER_BOUND 1e-4
#define HALF_BOUND 2e-2

typedef enum Verdict { AGREES, DISAGREES, NOTED } Verdict;

typedef struct Line {
    const char *part;
    char *what, *found, *expected;
    Verdict verdict;
} Line;

struct SimValidation {
    GArray *lines; /* of Line */
};

static void clear_line(void *data)
{
    Line *line = data;
    g_free(line->what);
    g_free(line->found);
    g_free(line->expected);
}

SimValidation *sim_validation_new(void)
{
    SimValidation *validation = g_new0(SimValidation, 1);
    validation->lines = g_array_new(FALSE, FALSE, sizeof(Line));
    g_array_set_clear_func(validation->lines, clear_line);
    return validation;
}

void sim_validation_free(SimValidation *validation)
{
    if (validation == NULL)
        return;
    g_array_unref(validation->lines);
    g_free(validation);
}

/* Takes FOUND and EXPECTED. */
static void add(SimValidation *validation, const char *part, const char *what, char *found,
                char *expected, Verdict verdict)
{
    Line line = {part, g_strdup(what), found, expected, verdict};
    g_array_append_val(validation->lines, line);
}

static char *print_number(double number)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    return g_strdup(g_ascii_formatd(text, sizeof text, "%.2g", number));
}

static void add_bounded(SimValidation *validation, const char *what, double found, double bound)
{
    g_autofree char *limit = print_number(bound);
    add(validation, "numbers", what, print_number(found), g_strdup_printf("<= %s", limit),
        found <= bound ? AGREES : DISAGREES);
}

static void add_count(SimValidation *validation, const char *part, const char *what, uint64_t found,
                      uint64_t expected)
{
    add(validation, part, what, g_strdup_printf("%" PRIu64, found),
        g_strdup_printf("%" PRIu64, expected), found == expected ? AGREES : DISAGREES);
}

/* --- numbers -----------------------------------------------------------------------------------
 */

static cJSON *load_run(const char *folder, GError **error)
{
    g_autofree char *file = g_build_filename(folder, "run.json", NULL);
    return sim_json_load(file, error);
}

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : INFINITY;
}

bool sim_validation_check_numbers(SimValidation *validation, const char *folder, bool is_exact,
                                  GError **error)
{
    g_autoptr(cJSON) run = load_run(folder, error);
    if (run == NULL)
        return false;
    const cJSON *difference = cJSON_GetObjectItem(run, "difference");
    double bound = is_exact ? EXACT_BOUND : HALF_BOUND;
    add_bounded(validation, "losses", number_of(difference, "loss"), bound);
    add_bounded(validation, "gradients of the first step", number_of(difference, "first_gradient"),
                bound);
    double last = number_of(difference, "gradient");
    /* By then rounding has led the weights of half-precision runs apart. */
    if (is_exact)
        add_bounded(validation, "gradients of the last step", last, LATER_BOUND);
    else
        add(validation, "numbers", "gradients of the last step", print_number(last),
            g_strdup("not judged"), NOTED);
    add_bounded(validation, "parameters at the end", number_of(difference, "parameter"), bound);
    return true;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static uint64_t parse(const SimCsv *csv, size_t row, const char *column)
{
    return g_ascii_strtoull(sim_csv_cell(csv, row, sim_csv_column(csv, column)), NULL, 10);
}

static bool is_counted(const SimMemoryEvent *event)
{
    return event->action == SIM_ALLOCATOR_ALLOC || event->action == SIM_ALLOCATOR_FREE_REQUESTED;
}

/* What of a row is compared besides its buffer and bytes. */
typedef enum Depth { REQUESTS, BLOCKS, SEGMENTS } Depth;

/* Rows at which the real run's memory differs from the simulator's. */
static uint64_t count_differences(const SimPlan *plan, const SimTrack *track, const SimCsv *csv,
                                  Depth depth, uint64_t *compared)
{
    uint64_t differ = 0;
    size_t row = 0, rows = sim_csv_rows(csv);
    for (guint i = 0; i < track->memory_events->len; i++) {
        const SimMemoryEvent *event = &g_array_index(track->memory_events, SimMemoryEvent, i);
        if (!is_counted(event))
            continue;
        if (row >= rows)
            return differ + 1;
        g_autofree char *name =
            sim_plan_print_name(plan, sim_plan_buffer(plan, event->buffer)->name);
        bool is_equal = strcmp(sim_csv_cell(csv, row, sim_csv_column(csv, "buffer")), name) == 0 &&
                        parse(csv, row, "row") == event->instruction + UINT64_C(1);
        is_equal = is_equal && parse(csv, row, "bytes") == event->bytes;
        if (depth >= BLOCKS)
            is_equal = is_equal && parse(csv, row, "live_bytes") == event->allocated_bytes;
        if (depth == SEGMENTS)
            is_equal = is_equal && parse(csv, row, "reserved_bytes") == event->reserved_bytes;
        differ += !is_equal;
        row++;
    }
    *compared = row;
    return differ + (rows - row);
}

static bool has_record_stream(const SimPlan *plan)
{
    for (size_t i = 0; i < sim_plan_length(plan); i++)
        if (sim_plan_instruction(plan, i)->op == SIM_PLAN_RECORD_STREAM)
            return true;
    return false;
}

/* Buffers that work touched outside of alloc and free. */
static uint64_t count_outliers(const SimCsv *lives)
{
    uint64_t outliers = 0;
    for (size_t row = 0; row < sim_csv_rows(lives); row++) {
        uint64_t birth = parse(lives, row, "birth"), death = parse(lives, row, "death");
        uint64_t first = parse(lives, row, "first_write"), last = parse(lives, row, "last_use");
        outliers += (first != 0 && first < birth) || (death != 0 && last > death);
    }
    return outliers;
}

bool sim_validation_check_memory(SimValidation *validation, const SimPlan *plan,
                                 const SimRecorder *recorder, const char *folder, GError **error)
{
    g_autoptr(cJSON) run = load_run(folder, error);
    g_autofree char *memory_file = g_build_filename(folder, "memory.csv", NULL);
    g_autofree char *lives_file = g_build_filename(folder, "lives.csv", NULL);
    g_autoptr(SimCsv) csv = run != NULL ? sim_csv_load(memory_file, NULL, error) : NULL;
    g_autoptr(SimCsv) lives = csv != NULL ? sim_csv_load(lives_file, NULL, error) : NULL;
    if (lives == NULL)
        return false;
    add_count(validation, "memory", "faults: patterns read, owners mixed up, races",
              (uint64_t)cJSON_GetArraySize(cJSON_GetObjectItem(run, "faults")), 0);
    const SimTrack *track = sim_recorder_track(recorder, 0);
    uint64_t compared = 0;
    /* With record_stream it depends on time which cached block comes next, and how large it is. */
    bool is_timed = has_record_stream(plan);
    uint64_t differ = count_differences(plan, track, csv, is_timed ? REQUESTS : BLOCKS, &compared);
    g_autofree char *what = g_strdup_printf("rows of %" PRIu64 " where %s bytes differ", compared,
                                            is_timed ? "requested" : "live");
    add_count(validation, "memory", what, differ, 0);
    if (!is_timed)
        add_count(validation, "memory", "the same for reserved bytes",
                  count_differences(plan, track, csv, SEGMENTS, &compared), 0);
    g_autofree char *buffers = g_strdup_printf(
        "buffers of %" G_GSIZE_FORMAT " used outside of their lives", sim_csv_rows(lives));
    add_count(validation, "memory", buffers, count_outliers(lives), 0);
    return true;
}

/* --- collectives -------------------------------------------------------------------------------
 */

/* What GROUP of RANK should have seen, one line each. */
static GString *list_planned(const SimPlan *plan, uint32_t rank, const char *group)
{
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_COLLECTIVE && sim_plan_rank_set_has(plan, row->rank_set, rank) &&
            strcmp(sim_plan_group_name(plan, row->group), group) == 0)
            g_string_append_printf(text, "%s %s %" PRIu64 "\n", group,
                                   sim_plan_collective_name((SimCollectiveKind)row->collective),
                                   row->bytes);
    }
    return text;
}

static GString *list_seen(const char *log, const char *group)
{
    GString *text = g_string_new(NULL);
    g_auto(GStrv) lines = g_strsplit(log, "\n", -1);
    g_autofree char *prefix = g_strconcat(group, " ", NULL);
    for (size_t i = 0; lines[i] != NULL; i++)
        if (g_str_has_prefix(lines[i], prefix))
            g_string_append_printf(text, "%s\n", lines[i]);
    return text;
}

static uint64_t count_lines(const char *text)
{
    uint64_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

bool sim_validation_check_collectives(SimValidation *validation, const SimPlan *plan,
                                      const char *folder, GError **error)
{
    uint64_t seen = 0, planned = 0, wrong = 0;
    for (uint32_t rank = 0; rank < sim_plan_ranks(plan); rank++) {
        g_autofree char *name = g_strdup_printf("mpi.%u", rank);
        g_autofree char *file = g_build_filename(folder, name, NULL);
        g_autofree char *log = NULL;
        /* A rank that sends nothing leaves no file. */
        if (!g_file_test(file, G_FILE_TEST_EXISTS))
            log = g_strdup("");
        else if (!g_file_get_contents(file, &log, NULL, error))
            return false;
        seen += count_lines(log);
        for (uint32_t group = 0; group < sim_plan_group_count(plan); group++) {
            const char *own = sim_plan_group_name(plan, group);
            g_autoptr(GString) expected = list_planned(plan, rank, own);
            g_autoptr(GString) found = list_seen(log, own);
            planned += count_lines(expected->str);
            wrong += strcmp(expected->str, found->str) != 0;
        }
    }
    add_count(validation, "order", "collectives that MPI saw, all ranks", seen, planned);
    add_count(validation, "order", "groups of ranks with another sequence or size", wrong, 0);
    return true;
}

/* --- output ------------------------------------------------------------------------------------
 */

static char *print_seconds(double seconds)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(text, sizeof text, "%.4f", seconds);
    return g_strdup_printf("%s s", text);
}

void sim_validation_note_time(SimValidation *validation, const char *what, double seconds,
                              double expected)
{
    add(validation, "time", what, print_seconds(seconds),
        expected > 0 ? print_seconds(expected) : g_strdup("not judged"), NOTED);
}

bool sim_validation_agrees(const SimValidation *validation)
{
    for (guint i = 0; i < validation->lines->len; i++)
        if (g_array_index(validation->lines, Line, i).verdict == DISAGREES)
            return false;
    return true;
}

static const char *word_of(Verdict verdict)
{
    static const char *const words[] = {"agrees", "DISAGREES", ""};
    return words[verdict];
}

char *sim_validation_print(const SimValidation *validation)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < validation->lines->len; i++) {
        const Line *line = &g_array_index(validation->lines, Line, i);
        g_string_append_printf(text, "%-8s %-46s %10s %10s  %s", line->part, line->what,
                               line->found, line->expected, word_of(line->verdict));
        while (text->str[text->len - 1] == ' ')
            g_string_truncate(text, text->len - 1);
        g_string_append_c(text, '\n');
    }
    g_string_append(text, sim_validation_agrees(validation)
                              ? "The simulator and the real run agree.\n"
                              : "The simulator and the real run DISAGREE.\n");
    return g_string_free(text, FALSE);
}

cJSON *sim_validation_to_json(const SimValidation *validation)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "schema", "fsdpsim.validation/1");
    cJSON_AddBoolToObject(json, "agrees", sim_validation_agrees(validation));
    cJSON *lines = cJSON_AddArrayToObject(json, "lines");
    for (guint i = 0; i < validation->lines->len; i++) {
        const Line *line = &g_array_index(validation->lines, Line, i);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "part", line->part);
        cJSON_AddStringToObject(item, "what", line->what);
        cJSON_AddStringToObject(item, "found", line->found);
        cJSON_AddStringToObject(item, "expected", line->expected);
        cJSON_AddBoolToObject(item, "agrees", line->verdict != DISAGREES);
        cJSON_AddItemToArray(lines, item);
    }
    return json;
}
