/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html_report.h"

#include "predict/communication.h"
#include "report/figure_memory.h"
#include "report/figure_timeline.h"
#include "report/template.h"
#include "report/unit_table.h"

/* A GiB figure needs no bytes below it; counts of bytes stand in the JSON. */
static void append_size(GString *html, const char *element, uint64_t bytes)
{
    g_autofree char *size = sim_units_print_bytes(bytes);
    g_string_append_printf(html, "<%s>%s</%s>", element, bytes > 0 ? size : "–", element);
}

static void append_duration(GString *html, const char *element, SimTime time)
{
    g_autofree char *duration = sim_units_print_duration(time);
    g_string_append_printf(html, "<%s>%s</%s>", element, duration, element);
}

/* A name from a user's file: text whatever is in it, whichever way it is written. */
static void append_name(GString *html, const char *name)
{
    g_autofree char *escaped = g_markup_escape_text(name, -1);
    g_string_append_printf(html, "<bdi>%s</bdi>", escaped);
}

/* PART of WHOLE as "12.3", per cent. */
static char *print_share(double part, double whole)
{
    char buffer[G_ASCII_DTOSTR_BUF_SIZE];
    return g_strdup(
        g_ascii_formatd(buffer, sizeof buffer, "%.1f", whole > 0 ? 100 * part / whole : 0));
}

static const char *text_of(const cJSON *object, const char *key, const char *otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : otherwise;
}

static void append_moment(GString *html, const SimMoment *moment)
{
    if (moment->step >= 0) {
        g_string_append_printf(html, "step %d, ", moment->step + 1);
    }
    g_string_append(html, moment->phase);
    if (moment->unit[0] != '\0') {
        g_string_append(html, ", ");
        append_name(html, moment->unit);
    }
}

/* --- verdict -----------------------------------------------------------------------------------
 */

static SimCategory find_first_owner(const SimMemorySummary *memory)
{
    int first = 0;
    for (int i = 1; i < SIM_CATEGORY_COUNT; i++) {
        if (memory->history->by_category[i] > memory->history->by_category[first]) {
            first = i;
        }
    }
    return (SimCategory)first;
}

static void append_verdict(GString *html, const SimSummary *summary)
{
    const SimMemorySummary *memory = &summary->memory;
    g_autofree char *device = sim_units_print_bytes(memory->device_peak_bytes);
    g_autofree char *capacity = sim_units_print_bytes(memory->capacity_bytes);
    if (summary->result->blocked->len > 0) {
        g_string_append(html, "<p class=\"verdict bad\">Hangs: ranks wait for each other</p>");
    } else if (memory->fits) {
        g_string_append_printf(html, "<p class=\"verdict good\">Fits: %s of %s</p>", device,
                               capacity);
    } else {
        g_string_append_printf(html,
                               "<p class=\"verdict bad\">Does not fit into %s</p><p>Memory runs "
                               "out at ",
                               capacity);
        append_moment(html, memory->history->is_oom ? &memory->oom_at : &memory->peak);
        g_autofree char *asked = sim_units_print_bytes(memory->history->oom.requested_bytes);
        g_string_append_printf(html, ", where %s more are asked for.</p>", asked);
    }
}

static void append_peak(GString *html, const SimMemorySummary *memory)
{
    SimCategory owner = find_first_owner(memory);
    uint64_t bytes = memory->history->by_category[owner];
    g_autofree char *peak = sim_units_print_bytes(memory->peaks.allocated_bytes);
    g_autofree char *size = sim_units_print_bytes(bytes);
    g_autofree char *share = print_share((double)bytes, (double)memory->peaks.allocated_bytes);
    g_autofree char *name = g_strdelimit(g_strdup(sim_plan_category_name(owner)), "_", ' ');
    g_string_append_printf(html, "<p>Allocated memory peaks at <b>%s</b> in ", peak);
    append_moment(html, &memory->peak);
    g_string_append_printf(html, ". The largest owner is %s: %s, %s&nbsp;%%.</p>", name, size,
                           share);
}

static void append_card(GString *html, const char *value, const char *name)
{
    g_string_append_printf(html, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", value,
                           name);
}

static void append_cards(GString *html, const SimSummary *summary)
{
    g_autofree char *peak = sim_units_print_bytes(summary->memory.peaks.allocated_bytes);
    g_autofree char *reserved = sim_units_print_bytes(summary->memory.peaks.reserved_bytes);
    g_string_append(html, "<div class=\"cards\">\n");
    append_card(html, peak, "peak allocated");
    append_card(html, reserved, "peak reserved");
    if (summary->has_time) {
        g_autofree char *step = sim_units_print_duration(summary->time.split.step);
        g_autofree char *exposed = print_share((double)summary->time.split.exposed_communication,
                                               (double)summary->time.split.step);
        g_autofree char *percent = g_strdup_printf("%s %%", exposed);
        append_card(html, step, "a step");
        append_card(html, percent, "exposed communication");
    }
    if (summary->has_throughput) {
        g_autofree char *tokens =
            g_strdup_printf("%.0f", summary->throughput.tokens_per_second_per_gpu);
        g_autofree char *share = print_share(summary->throughput.model_flops_utilization, 1);
        g_autofree char *percent = g_strdup_printf("%s %%", share);
        append_card(html, tokens, "tokens/s a GPU");
        append_card(html, percent, "model FLOPs utilization");
    }
    g_string_append(html, "</div>\n");
}

static char *print_verdict(const SimSummary *summary, const SimCluster *cluster)
{
    GString *html = g_string_new("<h1>");
    append_name(html, text_of(summary->model, "name", "A plan"));
    g_string_append_printf(html, " on %u GPUs</h1>\n<p class=\"dim\">%u × ",
                           sim_plan_ranks(summary->plan), sim_plan_ranks(summary->plan));
    append_name(html, cluster->gpu->title);
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(summary->model, "parameters");
    if (cJSON_IsNumber(parameters)) {
        char buffer[G_ASCII_DTOSTR_BUF_SIZE];
        g_string_append_printf(
            html, ", %s billion parameters",
            g_ascii_formatd(buffer, sizeof buffer, "%.2f", parameters->valuedouble / 1e9));
    }
    g_string_append_printf(html, ". Shown: rank %u, the one with the highest peak.</p>\n",
                           summary->memory.rank);
    append_verdict(html, summary);
    append_peak(html, &summary->memory);
    append_cards(html, summary);
    return g_string_free(html, FALSE);
}

/* --- tables ------------------------------------------------------------------------------------
 */

static void begin_table(GString *html, const char *class_names, const char *const *heads)
{
    g_string_append_printf(html, "<div class=\"table %s\" tabindex=\"0\"><table><thead><tr>",
                           class_names);
    for (; *heads != NULL; heads++) {
        g_string_append_printf(html, "<th scope=\"col\">%s</th>", *heads);
    }
    g_string_append(html, "</tr></thead><tbody>\n");
}

static void end_table(GString *html)
{
    g_string_append(html, "</tbody></table></div>\n");
}

static char *print_owners(const SimMemorySummary *memory)
{
    static const char *const heads[] = {"what for", "bytes at the peak", "share", "", NULL};
    GString *html = g_string_new(NULL);
    double whole = (double)memory->peaks.allocated_bytes;
    bool is_shown[SIM_CATEGORY_COUNT] = {false};
    begin_table(html, "", heads);
    for (int i = 0; i < SIM_CATEGORY_COUNT; i++) {
        int most = -1;
        for (int j = 0; j < SIM_CATEGORY_COUNT; j++) {
            if (!is_shown[j] && memory->history->by_category[j] > 0 &&
                (most < 0 ||
                 memory->history->by_category[j] > memory->history->by_category[most])) {
                most = j;
            }
        }
        if (most < 0) {
            break;
        }
        is_shown[most] = true;
        uint64_t bytes = memory->history->by_category[most];
        g_autofree char *name =
            g_strdelimit(g_strdup(sim_plan_category_name((SimCategory)most)), "_", ' ');
        g_autofree char *share = print_share((double)bytes, whole);
        g_string_append_printf(html, "<tr><td>%s</td>", name);
        append_size(html, "td", bytes);
        g_string_append_printf(html,
                               "<td>%s %%</td><td class=\"wide\"><span class=\"bar\" "
                               "style=\"width:%s%%;min-width:1px\"></span></td></tr>\n",
                               share, share);
    }
    end_table(html);
    return g_string_free(html, FALSE);
}

static void append_split_row(GString *html, const char *name, SimTime time, SimTime whole)
{
    g_autofree char *share = print_share((double)time, (double)whole);
    g_string_append_printf(html, "<tr><td>%s</td>", name);
    append_duration(html, "td", time);
    g_string_append_printf(html, "<td>%s %%</td></tr>\n", share);
}

static char *print_split(const SimSummary *summary)
{
    static const char *const heads[] = {"where the step goes", "time", "share", NULL};
    const SimTimeSplit *split = &summary->time.split;
    GString *html = g_string_new(NULL);
    if (!summary->has_time) {
        return g_string_free(g_string_append(html, "<p>The run ends before its last step, so "
                                                   "there is no time of a step.</p>"),
                             FALSE);
    }
    begin_table(html, "", heads);
    append_split_row(html, "compute", split->compute, split->step);
    append_split_row(html, "exposed communication", split->exposed_communication, split->step);
    append_split_row(html, "waiting for other ranks", split->waiting, split->step);
    append_split_row(html, "waiting for the host", split->host_bound, split->step);
    append_split_row(html, "whole step", split->step, split->step);
    end_table(html);
    return g_string_free(html, FALSE);
}

static char *print_collectives(const SimSummary *summary)
{
    static const char *const heads[] = {"collective",     "group", "phase",   "count", "buffers",
                                        "sent by a rank", "time",  "exposed", NULL};
    GString *html = g_string_new(NULL);
    begin_table(html, "", heads);
    for (guint i = 0; i < summary->communication->len; i++) {
        const SimCommunicationLine *line =
            &g_array_index(summary->communication, SimCommunicationLine, i);
        g_autofree char *name = g_strdelimit(
            g_strdup(sim_plan_collective_name((SimCollectiveKind)line->collective)), "_", '-');
        g_string_append_printf(html, "<tr><td>%s</td><td>", name);
        append_name(html, sim_plan_group_name(summary->plan, line->group));
        g_string_append_printf(html, "</td><td>%s</td><td>%" G_GUINT64_FORMAT "</td>",
                               sim_plan_phase_name((SimPhase)line->phase), line->count);
        append_size(html, "td", line->bytes);
        append_size(html, "td", line->wire_bytes);
        append_duration(html, "td", line->time);
        append_duration(html, "td", line->exposed);
        g_string_append(html, "</tr>\n");
    }
    end_table(html);
    return g_string_free(html, FALSE);
}

static char *print_units(const SimSummary *summary)
{
    static const char *const heads[] = {"unit",           "shard",
                                        "full weights",   "gathered, forward",
                                        "freed, forward", "gathered, backward",
                                        "reduced",        "freed, backward",
                                        "activations",    NULL};
    int32_t step = summary->has_time ? summary->time.step : summary->memory.peak.step;
    g_autoptr(GArray) lines = sim_unit_table_compute(summary->plan, 0, step);
    GString *html = g_string_new(NULL);
    begin_table(html, "tall", heads);
    for (guint i = 0; i < lines->len; i++) {
        const SimUnitLine *line = &g_array_index(lines, SimUnitLine, i);
        g_string_append(html, "<tr><td>");
        append_name(html, sim_plan_string(summary->plan, line->unit));
        g_string_append(html, "</td>");
        append_size(html, "td", line->shard_bytes);
        append_size(html, "td", line->full_bytes);
        append_size(html, "td", line->forward_gather_bytes);
        append_size(html, "td", line->forward_free_bytes);
        append_size(html, "td", line->backward_gather_bytes);
        append_size(html, "td", line->reduce_bytes + line->all_reduce_bytes);
        append_size(html, "td", line->backward_free_bytes);
        append_size(html, "td", line->activation_bytes);
        g_string_append(html, "</tr>\n");
    }
    end_table(html);
    return g_string_free(html, FALSE);
}

static void append_row(GString *html, const char *name, const char *text)
{
    g_string_append_printf(html, "<tr><td>%s</td><td class=\"text\">", name);
    append_name(html, text);
    g_string_append(html, "</td></tr>\n");
}

static char *print_basis(const SimSummary *summary, const SimCluster *cluster)
{
    static const char *const heads[] = {"number", "rests on", NULL};
    GString *html = g_string_new(NULL);
    g_autofree char *gpu = g_strdup_printf("%s: models/gpus/%s.json, every value beside its source",
                                           cluster->gpu->title, cluster->gpu->name);
    begin_table(html, "plain", heads);
    append_row(html, "memory", summary->memory_basis);
    append_row(html, "time", summary->time_basis);
    append_row(html, "the GPU's constants", gpu);
    if (cluster->comm != NULL) {
        g_autofree char *comm = g_strdup_printf("%s (models/comm/%s.json)",
                                                cluster->comm->calibration, cluster->comm->name);
        append_row(html, "the collectives' constants", comm);
    }
    append_row(html, "what was simulated",
               "eager PyTorch; memory by its allocator's own rules, time in virtual picoseconds");
    for (guint i = 0; i < summary->warnings->len; i++) {
        append_row(html, "note", g_ptr_array_index(summary->warnings, i));
    }
    end_table(html);
    return g_string_free(html, FALSE);
}

static char *print_settings(const SimSummary *summary)
{
    static const char *const heads[] = {"setting", "value", NULL};
    GString *html = g_string_new(NULL);
    const cJSON *item = NULL;
    begin_table(html, "plain", heads);
    cJSON_ArrayForEach(item, summary->config)
    {
        /* cJSON's text belongs to malloc, not to GLib. */
        char *value = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
        g_autofree char *name = g_markup_escape_text(item->string, -1);
        append_row(html, name, value != NULL ? value : item->valuestring);
        cJSON_free(value);
    }
    end_table(html);
    return g_string_free(html, FALSE);
}

void sim_html_report_save(const SimSummary *summary, const SimCluster *cluster,
                          const SimTrack *memory, const SimTrack *time, SimOutputFile *file)
{
    g_autoptr(GString) title = g_string_new(NULL);
    g_autofree char *name = g_markup_escape_text(text_of(summary->model, "name", "A plan"), -1);
    g_string_append_printf(title, "%s on %u GPUs: %s", name, sim_plan_ranks(summary->plan),
                           summary->memory.fits ? "fits" : "does not fit");
    g_autofree char *verdict = print_verdict(summary, cluster);
    g_autofree char *memory_picture = sim_figure_memory_draw(summary, memory);
    g_autofree char *owners = print_owners(&summary->memory);
    g_autofree char *timeline_picture = sim_figure_timeline_draw(summary, time);
    g_autofree char *split = print_split(summary);
    g_autofree char *collectives = print_collectives(summary);
    g_autofree char *units = print_units(summary);
    g_autofree char *basis = print_basis(summary, cluster);
    g_autofree char *settings = print_settings(summary);
    const SimTemplateValue values[] = {
        {"title", title->str},
        {"verdict", verdict},
        {"memory", memory_picture},
        {"owners", owners},
        {"timeline", timeline_picture},
        {"split", split},
        {"collectives", collectives},
        {"units", units},
        {"basis", basis},
        {"settings", settings},
        {"version", FSDPSIM_VERSION},
    };
    g_autofree char *page = sim_template_fill("report.html", values, G_N_ELEMENTS(values));
    sim_output_file_puts(file, page);
}
