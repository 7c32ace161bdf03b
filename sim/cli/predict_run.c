/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/predict_run.h"

#include "base/error.h"
#include "base/models_folder.h"
#include "plan/plan_csv.h"
#include "predict/model_file.h"
#include "predict/plan_source.h"

/* Changes win over options, options over the file: who comes first wins. Of a plan's own settings
 * they take the place. */
static bool read_settings(SimPredictRun *run, const SimPredictOptions *options,
                          const char *const *changes, GError **error)
{
    run->settings = sim_settings_new();
    if (options->from_plan != NULL) {
        run->plan = sim_plan_csv_load(options->from_plan, error);
        if (run->plan == NULL || !sim_plan_source_adopt(run->plan, run->settings, error)) {
            return false;
        }
    }
    if (!sim_predict_options_apply(options, run->settings, error)) {
        return false;
    }
    for (; changes != NULL && *changes != NULL; changes += 2) {
        if (!sim_settings_set(run->settings, changes[0], changes[1], changes[0], error)) {
            return false;
        }
    }
    return options->config == NULL || sim_settings_load(run->settings, options->config, error);
}

static bool make_plan(SimPredictRun *run, const SimPredictOptions *options, const char *models,
                      GError **error)
{
    run->cluster = sim_cluster_load(models, run->settings->cluster, error);
    if (run->cluster == NULL) {
        return false;
    }
    if (run->plan != NULL) {
        sim_plan_source_amend(run->plan, run->settings);
        return true;
    }
    g_autofree char *model = sim_model_file_find(models, options->model, error);
    if (model == NULL) {
        return false;
    }
    run->plan = sim_plan_source_build(run->settings, run->cluster, model, error);
    return run->plan != NULL;
}

bool sim_predict_run_prepare(SimPredictRun *run, const SimPredictOptions *options,
                             const char *const *changes, GError **error)
{
    g_autofree char *models = sim_models_folder_find();
    *run = (SimPredictRun){0};
    if (models == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "models: expected a folder, found none");
        return false;
    }
    return read_settings(run, options, changes, error) && make_plan(run, options, models, error);
}

bool sim_predict_run_play(SimPredictRun *run, const SimPredictionOptions *options, GError **error)
{
    run->prediction = sim_prediction_new(run->plan, run->cluster, run->settings, options, error);
    return run->prediction != NULL;
}

void sim_predict_run_done(SimPredictRun *run)
{
    sim_prediction_free(run->prediction);
    sim_plan_free(run->plan);
    sim_cluster_free(run->cluster);
    sim_settings_free(run->settings);
}
