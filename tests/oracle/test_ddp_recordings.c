/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder against recordings of PyTorch 2.15's DistributedDataParallel (pytorch/ddp/README.md):
 * every file, three steps: births and deaths of buckets and gradients, AdamW's states, all-reduces
 * with their bytes and parameters, in the same order, with live bytes after each.
 *
 * Recorded are no streams, no copies and no parameters.
 */
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/facts.h"
#include "support/fully_shard.h"

#include <check.h>

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/ddp/"
#define STEPS 3
#define TENTH_OF_MIB 104857 /* bucket_cap_mb=0.1, as PyTorch rounds it */

typedef struct Setting {
    const char *name; /* of the recording */
    SimJobDdp arguments;
    bool has_no_sync; /* two microbatches, the first inside no_sync() */
    uint32_t skipped_block;
} Setting;

static const Setting SETTINGS[] = {
    {"ddp-bucket100k-w2", {.bucket_cap_bytes = TENTH_OF_MIB}, false, 0},
    {"ddp-bucket100k-view-w2",
     {.bucket_cap_bytes = TENTH_OF_MIB, .gradient_as_bucket_view = true},
     false,
     0},
    {"ddp-bucket-default-w2", {0}, false, 0},
    {"ddp-bucket100k-nosync-w2", {.bucket_cap_bytes = TENTH_OF_MIB}, true, 0},
    {"ddp-static-graph-w2", {.bucket_cap_bytes = TENTH_OF_MIB, .static_graph = true}, false, 0},
    {"ddp-find-unused-w2",
     {.bucket_cap_bytes = TENTH_OF_MIB, .find_unused_parameters = true},
     false,
     3},
};

/* --- the recording -----------------------------------------------------------------------------
 */

static char first_letter(const char *name)
{
    return name[0];
}

/* "bucket=0 last=False params=a b c" -> "a b c"; those of the block that is not called, for which
 * the plan has zeros without a name, as "?". */
static char *list_recorded(const char *detail, uint32_t skipped_block)
{
    const char *found = strstr(detail, "params=");
    ck_assert_ptr_nonnull(found);
    g_auto(GStrv) names = g_strsplit(found + strlen("params="), " ", -1);
    g_autofree char *skipped = g_strdup_printf("layers.%u.", skipped_block - 1);
    for (size_t i = 0; names[i] != NULL; i++)
        if (skipped_block > 0 && g_str_has_prefix(names[i], skipped)) {
            g_free(names[i]);
            names[i] = g_strdup("?");
        }
    return g_strjoinv(" ", names);
}

static Facts *read_recording(const char *file, uint32_t skipped_block)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimCsv) csv = sim_csv_load(file, NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error == NULL ? "" : error->message);
    int op_column = sim_csv_column(csv, "op"), bytes_column = sim_csv_column(csv, "bytes");
    int category_column = sim_csv_column(csv, "category");
    int buffer_column = sim_csv_column(csv, "buffer"),
        detail_column = sim_csv_column(csv, "detail");
    Facts *facts = facts_new(false);
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        const char *op = sim_csv_cell(csv, row, op_column);
        const char *bytes = sim_csv_cell(csv, row, bytes_column);
        char letter[] = {first_letter(sim_csv_cell(csv, row, buffer_column)), '\0'};
        if (strcmp(op, "alloc") == 0 || strcmp(op, "free") == 0)
            facts_add_buffer(facts, op[0] == 'a', sim_csv_cell(csv, row, category_column), "",
                             "f32", "compute", letter, g_ascii_strtoull(bytes, NULL, 10));
        if (strcmp(op, "all_reduce") != 0)
            continue;
        g_autofree char *parameters =
            list_recorded(sim_csv_cell(csv, row, detail_column), skipped_block);
        facts_add(facts, g_strdup_printf("all_reduce %s of %s", bytes, parameters));
    }
    facts_flush(facts);
    return facts;
}

/* --- the plan ----------------------------------------------------------------------------------
 */

/* Of gradients, only what stays: with views it is freed as soon as it is copied into the bucket,
 * and what is ADDED to an older one at once. */
static bool is_recorded(const SimPlan *plan, uint32_t index, bool has_views, const bool *added)
{
    const SimBuffer *buffer = sim_plan_buffer(plan, index);
    switch ((SimCategory)buffer->category) {
    case SIM_CATEGORY_BUCKET:
        return true;
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
        return !has_views && !added[index];
    case SIM_CATEGORY_OPTIMIZER_STATE:
        return !g_str_has_suffix(sim_plan_string(plan, buffer->name.tail), ".step");
    default:
        return false;
    }
}

/* Which parameters have been copied into a bucket since its last all-reduce, in the order of their
 * places in it. */
typedef struct Filled {
    uint64_t offset;
    SimStringId parameter;
} Filled;

static int compare_offsets(gconstpointer a, gconstpointer b)
{
    const Filled *left = a, *right = b;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* "G:layers.0.attention.wq.weight" -> "layers.0.attention.wq.weight" */
static const char *get_parameter(const SimPlan *plan, uint32_t buffer)
{
    const char *stem = sim_plan_string(plan, sim_plan_buffer(plan, buffer)->name.stem);
    ck_assert_msg(g_str_has_prefix(stem, "G:"), "%s", stem);
    return stem + strlen("G:");
}

/* A copy into a bucket says whose place is there; zeros: of a parameter without a gradient, whose
 * place is known from its bytes alone, so it is named "?". */
static void note_copy(const SimPlan *plan, const SimInstruction *row, GArray **filled,
                      GHashTable *names)
{
    const SimTouch *touches = sim_plan_touches(plan, row);
    const SimTouch *written = &touches[row->n_reads];
    if (row->n_writes != 1 ||
        sim_plan_buffer(plan, written->buffer)->category != SIM_CATEGORY_BUCKET)
        return;
    GArray **list = &filled[written->buffer];
    if (*list == NULL)
        *list = g_array_new(FALSE, FALSE, sizeof(Filled));
    const char *name = "?";
    if (row->n_reads == 1 && touches[0].buffer != written->buffer)
        name = get_parameter(plan, touches[0].buffer);
    Filled copy = {written->offset, 0};
    g_array_append_val(*list, copy);
    g_autofree char *key =
        g_strdup_printf("%u %" G_GUINT64_FORMAT, written->buffer, written->offset);
    if (strcmp(name, "?") != 0 || !g_hash_table_contains(names, key))
        g_hash_table_insert(names, g_steal_pointer(&key), g_strdup(name));
}

static char *list_parameters(uint32_t bucket, GArray *filled, GHashTable *names)
{
    GString *text = g_string_new(NULL);
    g_array_sort(filled, compare_offsets);
    for (uint32_t i = 0; i < filled->len; i++) {
        uint64_t offset = g_array_index(filled, Filled, i).offset;
        g_autofree char *key = g_strdup_printf("%u %" G_GUINT64_FORMAT, bucket, offset);
        g_string_append_printf(text, i == 0 ? "%s" : " %s",
                               (const char *)g_hash_table_lookup(names, key));
    }
    return g_string_free(text, FALSE);
}

static void read_reduction(Facts *facts, const SimPlan *plan, const SimInstruction *row,
                           GArray **filled, GHashTable *names)
{
    uint32_t bucket = sim_plan_touches(plan, row)->buffer;
    if (sim_plan_buffer(plan, bucket)->category != SIM_CATEGORY_BUCKET)
        return; /* the map of used parameters */
    g_autofree char *parameters = list_parameters(bucket, filled[bucket], names);
    g_array_set_size(filled[bucket], 0);
    facts_add(facts,
              g_strdup_printf("all_reduce %" G_GUINT64_FORMAT " of %s", row->bytes, parameters));
}

static bool *find_added(const SimPlan *plan)
{
    bool *added = g_new0(bool, sim_plan_buffer_count(plan) + 1);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_KERNEL &&
            strcmp(sim_plan_string(plan, row->operator_name), "accumulate") == 0)
            added[sim_plan_touches(plan, row)[1].buffer] = true;
    }
    return added;
}

static Facts *read_plan(const SimPlan *plan, bool has_views)
{
    Facts *facts = facts_new(false);
    g_autofree bool *added = find_added(plan);
    size_t buffers = sim_plan_buffer_count(plan);
    GArray **filled = g_new0(GArray *, buffers + 1);
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_KERNEL)
            note_copy(plan, row, filled, names);
        else if (row->op == SIM_PLAN_COLLECTIVE)
            read_reduction(facts, plan, row, filled, names);
        if (row->op != SIM_PLAN_ALLOC && row->op != SIM_PLAN_FREE)
            continue;
        const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
        const char *category = sim_plan_category_name((SimCategory)buffer->category);
        char letter[] = {first_letter(sim_plan_string(plan, buffer->name.stem)), '\0'};
        if (is_recorded(plan, row->buffer, has_views, added))
            facts_add_buffer(facts, row->op == SIM_PLAN_ALLOC, category, "", "f32", "compute",
                             letter, buffer->bytes);
    }
    facts_flush(facts);
    for (size_t i = 0; i < buffers; i++)
        g_clear_pointer(&filled[i], g_array_unref);
    g_free(filled);
    return facts;
}

/* --- the job -----------------------------------------------------------------------------------
 */

static void add(SimJob *job, SimJobActionKind kind, uint32_t microbatch, bool value)
{
    SimJobAction action = {.kind = kind,
                           .microbatch = microbatch,
                           .unit = SIM_MODEL_NONE,
                           .flag = SIM_FLAG_GRADIENT_SYNC,
                           .value = value};
    g_array_append_val(job->actions, action);
}

static SimPlan *build(const Setting *setting, const SimModel *model)
{
    g_autoptr(SimJob) job = fully_shard_new(2, STEPS);
    job->api = SIM_API_DDP;
    job->ddp = setting->arguments;
    job->precision = (SimMixedPrecision){SIM_DTYPE_NONE, SIM_DTYPE_NONE};
    g_array_set_size(job->actions, 0);
    add(job, SIM_ACTION_ZERO_GRAD, 0, false);
    for (uint32_t i = 0; i < (setting->has_no_sync ? 2 : 1); i++) {
        if (setting->has_no_sync)
            add(job, SIM_ACTION_SET, 0, i == 1);
        add(job, SIM_ACTION_FORWARD, i, false);
        add(job, SIM_ACTION_BACKWARD, i, false);
    }
    add(job, SIM_ACTION_OPTIMIZER, 0, false);
    SimAutogradOptions options = {
        .sequence = job->sequence,
        .batch = job->batch,
        .compute_dtype = job->store_dtype,
        .residual_dtype = job->store_dtype,
        .sm_count = 132,
        .compute_capability = 90,
    };
    g_autoptr(GError) error = NULL;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s: %s", setting->name,
                  error == NULL ? "" : error->message);
    return plan;
}

START_TEST(plans_are_what_pytorch_did)
{
    const Setting *setting = &SETTINGS[_i];
    const Decoder net = {RECORDED_NET, .skipped_block = setting->skipped_block};
    g_autoptr(SimModel) model = decoder_new(&net);
    g_autoptr(SimPlan) plan = build(setting, model);
    g_autofree char *file = g_strdup_printf("%s%s.csv.gz", FOLDER, setting->name);
    Facts *recorded = read_recording(file, setting->skipped_block);
    Facts *planned = read_plan(plan, setting->arguments.gradient_as_bucket_view);
    g_autofree char *difference = facts_compare(recorded, planned);
    ck_assert_msg(difference == NULL, "%s, %s", setting->name, difference);
    facts_free(recorded);
    facts_free(planned);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("ddp_recordings");
    TCase *tests = tcase_create("settings");
    tcase_add_loop_test(tests, plans_are_what_pytorch_did, 0, (int)G_N_ELEMENTS(SETTINGS));
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
