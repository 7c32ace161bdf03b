/* SPDX-License-Identifier: Apache-2.0 */
#include "report/notebook.h"

#include "base/csv.h"
#include "report/rank_point.h"
#include "report/template.h"
#include "trace/json_text.h"

void sim_notebook_save(const SimSummary *summary, SimOutputFile *file)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(summary->model, "name");
    g_autofree char *plain =
        g_strdup_printf("%s on %u GPUs", cJSON_IsString(name) ? name->valuestring : "A plan",
                        sim_plan_ranks(summary->plan));
    /* Markdown may hold HTML, and stands in JSON. */
    g_autofree char *escaped = g_markup_escape_text(plain, -1);
    g_autoptr(GString) title = g_string_new(NULL);
    sim_json_text_append(title, escaped);
    const SimTemplateValue values[] = {{"title", title->str}};
    g_autofree char *text = sim_template_fill("notebook.ipynb", values, G_N_ELEMENTS(values));
    sim_output_file_puts(file, text);
}

void sim_notebook_save_ranks(const GArray *points, SimOutputFile *file)
{
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    sim_output_file_puts(file, "ranks,parameter_shard_bytes,gathered_weights_bytes,"
                               "full_gradients_bytes,gradient_shard_bytes,optimizer_state_bytes,"
                               "activations_bytes,logits_and_loss_bytes,everything_else_bytes,"
                               "allocated_bytes,reserved_bytes,room_bytes,fits,step_seconds\n");
    for (guint i = 0; i < points->len; i++) {
        const SimRankPoint *point = &g_array_index(points, SimRankPoint, i);
        char seconds[G_ASCII_DTOSTR_BUF_SIZE];
        sim_csv_writer_uint(&writer, point->ranks);
        for (int series = 0; series < SIM_SERIES_COUNT; series++) {
            sim_csv_writer_uint(&writer, point->bytes[series]);
        }
        sim_csv_writer_uint(&writer, point->allocated_bytes);
        sim_csv_writer_uint(&writer, point->reserved_bytes);
        sim_csv_writer_uint(&writer, point->room_bytes);
        sim_csv_writer_text(&writer, point->fits ? "true" : "false");
        g_ascii_formatd(seconds, sizeof seconds, "%.9f", sim_units_seconds(point->step));
        sim_csv_writer_text(&writer, point->step > 0 ? seconds : "");
        sim_csv_writer_end_row(&writer);
    }
}
