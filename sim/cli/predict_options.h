/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of `fsdpsim predict`: every setting of job/settings.h as an option, and the
 * files that it writes.
 */
#pragma once

#include "job/settings.h"

#include <glib.h>
#include <stdbool.h>

typedef enum SimPredictOutput {
    SIM_OUTPUT_JSON,
    SIM_OUTPUT_TIMELINE,
    SIM_OUTPUT_MEMORY,
    SIM_OUTPUT_PLAN,
    SIM_OUTPUT_TRACE,
    SIM_OUTPUT_SNAPSHOT,
    SIM_OUTPUT_CHAKRA, /* a folder */
    SIM_OUTPUT_REPORT,
    SIM_OUTPUT_SVG,
    SIM_OUTPUT_NOTEBOOK, /* a folder */
    SIM_OUTPUT_COUNT
} SimPredictOutput;

/* What --svg shows. */
typedef enum SimFigure {
    SIM_FIGURE_TIMELINE,
    SIM_FIGURE_MEMORY,
    SIM_FIGURE_WORKFLOW,
    SIM_FIGURE_DDP_FSDP,
    SIM_FIGURE_RANKS,
    SIM_FIGURE_COUNT
} SimFigure;

typedef struct SimPredictOptions {
    bool wants_help;
    char *help;  /* the text */
    char *model; /* MODEL; NULL with from_plan */
    char *from_plan;
    char *config;
    char *figure_name;
    SimFigure figure;
    char *outputs[SIM_OUTPUT_COUNT]; /* files, "-" = standard output; NULL = not wanted */
    char **settings;                 /* [sim_settings_count()] as given; NULL = not given */
    char ***repeated;                /* the same of settings that may repeat: all uses */
} SimPredictOptions;

/* Reads the argument vector. False and MESSAGE (owned by the caller) if the command is called in a
 * wrong way. */
bool sim_predict_options_parse(SimPredictOptions *options, int argc, char **argv, char **message);
void sim_predict_options_done(SimPredictOptions *options);

/* Sets what the options say. Errors as sim_settings_set. */
bool sim_predict_options_apply(const SimPredictOptions *options, SimSettings *settings,
                               GError **error);

/* True if OUTPUT is a folder of files rather than one file. */
bool sim_predict_options_is_folder(SimPredictOutput output);

/* True if something else than the text summary goes to standard output. */
bool sim_predict_options_use_stdout(const SimPredictOptions *options);
