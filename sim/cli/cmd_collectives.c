/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/models_folder.h"
#include "cli/command.h"
#include "fabric/flows.h"

static const char description[] =
    "Prints what nccl-tests would print on the cluster, with what the library chooses: time in "
    "us,\n"
    "bandwidths in GB/s as nccl-tests defines them (busbw = algbw (N-1)/N, twice that for\n"
    "all-reduce). Sizes are of the whole buffer. Exit code: 0 done, 2 wrong usage, 3 bad input.\n\n"
    "Example: fsdpsim collectives --cluster h100 --gpus 16 --collective all_gather\n";

typedef struct Work {
    gboolean wants_help;
    char *cluster_name, *collective, *library, *sizes, *csv; /* as given; NULL = not */
    char *gpus, *min_bytes, *max_bytes, *factor;
    SimCluster *cluster;
    SimLinks *links;
    GArray *bytes; /* uint64_t */
    bool is_wanted[SIM_COMM_ALL_REDUCE + 1];
    SimOutputFile *file; /* NULL without --csv */
    SimCsvWriter writer;
} Work;

static void clear_work(Work *work)
{
    char *texts[] = {work->cluster_name, work->collective, work->library,   work->sizes, work->csv,
                     work->gpus,         work->min_bytes,  work->max_bytes, work->factor};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
    sim_links_free(work->links);
    sim_cluster_free(work->cluster);
    if (work->bytes)
        g_array_unref(work->bytes);
    sim_output_file_free(work->file);
}

static GOptionContext *make_context(Work *work)
{
    const GOptionEntry entries[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &work->wants_help, "this help", NULL},
        {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &work->cluster_name,
         "what it runs on (default: h100)", "NAME|FILE|STRING"},
        {"gpus", 0, 0, G_OPTION_ARG_STRING, &work->gpus,
         "ranks (default: 8, or all of the cluster's string)", "N"},
        {"collective", 0, 0, G_OPTION_ARG_STRING, &work->collective,
         "one of them (default: all three)", "all_gather|reduce_scatter|all_reduce"},
        {"collectives", 0, 0, G_OPTION_ARG_STRING, &work->library,
         "whose algorithms (default: nccl)", "nccl|openmpi|gloo"},
        {"min-bytes", 0, 0, G_OPTION_ARG_STRING, &work->min_bytes,
         "smallest buffer (default: 1KiB)", "SIZE"},
        {"max-bytes", 0, 0, G_OPTION_ARG_STRING, &work->max_bytes, "largest buffer (default: 8GiB)",
         "SIZE"},
        {"factor", 0, 0, G_OPTION_ARG_STRING, &work->factor,
         "from one size to the next (default: 2)", "N"},
        {"bytes", 0, 0, G_OPTION_ARG_STRING, &work->sizes, "just these sizes", "SIZE,SIZE,..."},
        {"csv", 0, 0, G_OPTION_ARG_FILENAME, &work->csv,
         "write the same as CSV; - is standard output", "FILE"},
        {0}};
    GOptionContext *context = g_option_context_new(NULL);
    g_option_context_set_summary(context, "What would nccl-tests print on this cluster?");
    g_option_context_set_description(context, description);
    g_option_context_set_help_enabled(context, FALSE);
    g_option_context_add_main_entries(context, entries, NULL);
    return context;
}

static bool read_size(const char *option, const char *text, uint64_t *bytes, GError **error)
{
    if (text && !sim_units_parse_bytes(text, bytes, error)) {
        g_prefix_error(error, "--%s: ", option);
        return false;
    }
    if (*bytes > 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "--%s: expected a size above 0, found %s",
                option, text);
    return false;
}

static bool read_list(Work *work, GError **error)
{
    g_auto(GStrv) words = g_strsplit(work->sizes, ",", -1);
    for (size_t i = 0; words[i]; i++) {
        uint64_t bytes = 1;
        if (!read_size("bytes", words[i], &bytes, error))
            return false;
        g_array_append_val(work->bytes, bytes);
    }
    return true;
}

static bool read_sizes(Work *work, GError **error)
{
    uint64_t first = SIM_KIB, last = 8 * SIM_GIB;
    int64_t factor = 2;
    work->bytes = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    if (work->sizes)
        return read_list(work, error);
    if (!read_size("min-bytes", work->min_bytes, &first, error) ||
        !read_size("max-bytes", work->max_bytes, &last, error))
        return false;
    if (work->factor && !sim_units_parse_int64(work->factor, 2, 1 << 20, &factor, error)) {
        g_prefix_error(error, "--factor: ");
        return false;
    }
    if (first > last) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "--min-bytes: expected at most --max-bytes, %" G_GUINT64_FORMAT
                    ", found %" G_GUINT64_FORMAT,
                    last, first);
        return false;
    }
    for (uint64_t bytes = first; bytes <= last; bytes *= (uint64_t)factor) {
        g_array_append_val(work->bytes, bytes);
        if (bytes > last / (uint64_t)factor)
            break;
    }
    return true;
}

static bool read_library(Work *work, GError **error)
{
    const char *names[SIM_COMM_GLOO + 2] = {NULL};
    for (unsigned i = SIM_COMM_NCCL; i <= SIM_COMM_GLOO; i++)
        names[i] = sim_comm_library_name((SimCommLibrary)i);
    for (unsigned i = SIM_COMM_NCCL; work->library && names[i]; i++) {
        if (g_str_equal(names[i], work->library)) {
            work->cluster->library = (SimCommLibrary)i;
            return true;
        }
    }
    if (work->library)
        sim_error_set_unknown(error, "--collectives", "library", work->library, names);
    return !work->library;
}

static bool read_collective(Work *work, GError **error)
{
    const char *names[SIM_COMM_ALL_REDUCE + 2] = {NULL};
    bool is_known = !work->collective;
    for (unsigned o = SIM_COMM_ALL_GATHER; o <= SIM_COMM_ALL_REDUCE; o++) {
        names[o] = sim_comm_operation_name((SimCommOperation)o);
        work->is_wanted[o] = !work->collective || g_str_equal(work->collective, names[o]);
        is_known = is_known || work->is_wanted[o];
    }
    if (!is_known)
        sim_error_set_unknown(error, "--collective", "collective", work->collective, names);
    return is_known;
}

static bool read_cluster(Work *work, GError **error)
{
    g_autofree char *models = sim_models_folder_find();
    if (!models) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "models: expected a folder, found none");
        return false;
    }
    int64_t gpus = 0;
    if (work->gpus && !sim_units_parse_int64(work->gpus, 2, SIM_CLUSTER_MAX_GPUS, &gpus, error)) {
        g_prefix_error(error, "--gpus: ");
        return false;
    }
    const char *name = work->cluster_name ? work->cluster_name : "h100";
    work->cluster = sim_cluster_load(models, name, error);
    return work->cluster &&
           (gpus == 0 || sim_cluster_choose_gpus(work->cluster, (uint64_t)gpus, error));
}

/* Links as all ranks use them at once, so that what no ring can get on this cluster is seen. */
static SimGroupShape build_links(Work *work)
{
    uint32_t count = work->cluster->gpus;
    g_autofree uint32_t *ranks = g_new(uint32_t, count);
    for (uint32_t i = 0; i < count; i++)
        ranks[i] = i;
    const SimLinkGroup group = {ranks, count, 0};
    work->links = sim_links_new(work->cluster, &group, 1, 1);
    return sim_group_shape_compute(work->cluster, ranks, count);
}

static SimTime run_alone(const Work *work, const SimCollectiveCost *cost)
{
    g_autoptr(SimFlows) flows =
        sim_flows_new(sim_links_capacities(work->links), sim_links_count(work->links));
    uint32_t id;
    SimTime now = 0;
    sim_flows_start(flows, now, 0, cost, sim_links_route(work->links, 0));
    do
        now = sim_flows_next_time(flows);
    while (!sim_flows_finish(flows, now, &id));
    return now;
}

/* VALUE with two digits behind a point, in any locale. Owned by the caller. */
static char *print_hundredths(double value)
{
    uint64_t hundredths = (uint64_t)floor(value * 100 + 0.5);
    return g_strdup_printf("%" G_GUINT64_FORMAT ".%02u", hundredths / 100,
                           (unsigned)(hundredths % 100));
}

/* One line's half: out of place, or in place. */
static void append_run(Work *work, GString *text, const SimCollectiveRequest *request,
                       const SimCollectiveCost *cost)
{
    uint32_t ranks = request->shape.ranks;
    SimTime time = MAX(run_alone(work, cost), 1);
    double algorithm = (double)request->bytes * 1000 / (double)time;
    double parts = request->operation == SIM_COMM_ALL_REDUCE ? 2.0 : 1.0;
    g_autofree char *us = print_hundredths((double)time / SIM_MICROSECOND);
    g_autofree char *algbw = print_hundredths(algorithm);
    g_autofree char *busbw = print_hundredths(algorithm * parts * (ranks - 1) / ranks);
    g_string_append_printf(text, " %11s %8s %8s", us, algbw, busbw);
    if (!work->file)
        return;
    SimCsvWriter *writer = &work->writer;
    sim_csv_writer_text(writer, sim_comm_operation_name(request->operation));
    sim_csv_writer_text(writer, sim_comm_library_name(work->cluster->library));
    sim_csv_writer_uint(writer, ranks);
    sim_csv_writer_uint(writer, request->shape.nodes);
    sim_csv_writer_uint(writer, request->bytes);
    sim_csv_writer_text(writer, sim_comm_algorithm_name(cost->algorithm));
    sim_csv_writer_text(writer, sim_comm_protocol_name(cost->protocol));
    sim_csv_writer_uint(writer, cost->channels);
    sim_csv_writer_text(writer, request->in_place ? "true" : "false");
    sim_csv_writer_text(writer, us);
    sim_csv_writer_text(writer, algbw);
    sim_csv_writer_text(writer, busbw);
    sim_csv_writer_end_row(writer);
}

static void append_table(Work *work, GString *text, SimCommOperation operation, SimGroupShape shape)
{
    g_string_append_printf(text,
                           "# %s, %u ranks on %u nodes, %s\n"
                           "#                                               out of place"
                           "                     in place\n"
                           "#      bytes algorithm           proto  chan          us    algbw"
                           "    busbw          us    algbw    busbw\n",
                           sim_comm_operation_name(operation), shape.ranks, shape.nodes,
                           sim_comm_library_name(work->cluster->library));
    for (guint i = 0; i < work->bytes->len; i++) {
        SimCollectiveRequest request = {
            .operation = operation,
            .bytes = g_array_index(work->bytes, uint64_t, i),
            .shape = shape,
        };
        SimCollectiveCost out = sim_collective_compute(work->cluster, &request);
        g_string_append_printf(text, "%12" G_GUINT64_FORMAT " %-19s %-6s %4u", request.bytes,
                               sim_comm_algorithm_name(out.algorithm),
                               sim_comm_protocol_name(out.protocol), out.channels);
        append_run(work, text, &request, &out);
        request.in_place = true;
        SimCollectiveCost in = sim_collective_compute(work->cluster, &request);
        append_run(work, text, &request, &in);
        g_string_append_c(text, '\n');
    }
}

static bool open_csv(Work *work, GError **error)
{
    static const char *const columns[] = {"collective", "library",   "ranks",      "nodes",
                                          "bytes",      "algorithm", "protocol",   "channels",
                                          "in_place",   "time_us",   "algbw_gbps", "busbw_gbps"};
    if (!work->csv)
        return true;
    work->file = sim_output_file_new(work->csv, error);
    if (!work->file)
        return false;
    sim_csv_writer_init(&work->writer, work->file);
    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++)
        sim_csv_writer_text(&work->writer, columns[i]);
    sim_csv_writer_end_row(&work->writer);
    return true;
}

static SimExit run(Work *work)
{
    g_autoptr(GError) error = NULL;
    if (!read_cluster(work, &error) || !read_library(work, &error) ||
        !read_collective(work, &error) || !read_sizes(work, &error) || !open_csv(work, &error))
        return sim_command_fail(g_steal_pointer(&error));
    g_autoptr(GString) text = g_string_new(NULL);
    SimGroupShape shape = build_links(work);
    for (unsigned o = SIM_COMM_ALL_GATHER; o <= SIM_COMM_ALL_REDUCE; o++) {
        if (work->is_wanted[o])
            append_table(work, text, (SimCommOperation)o, shape);
    }
    if (work->file && !sim_output_file_commit(work->file, &error))
        return sim_command_fail(g_steal_pointer(&error));
    return g_strcmp0(work->csv, "-") == 0 ? SIM_EXIT_DONE : sim_command_print(text->str);
}

SimExit sim_command_collectives(int argc, char **argv)
{
    Work work = {0};
    g_autoptr(GError) error = NULL;
    g_autoptr(GOptionContext) context = make_context(&work);
    SimExit exit;
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        exit = sim_command_misuse("collectives", "%s", error->message);
    } else if (work.wants_help) {
        g_autofree char *help = g_option_context_get_help(context, TRUE, NULL);
        exit = sim_command_print(help);
    } else if (argc > 1) {
        exit = sim_command_misuse("collectives", "unexpected argument '%s'", argv[1]);
    } else {
        exit = run(&work);
    }
    clear_work(&work);
    return exit;
}
