/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that one `fsdpsim predict` writes: all of them or none.
 */
#pragma once

#include "base/output_file.h"
#include "cli/predict_options.h"
#include "cli/predict_run.h"

#include <glib.h>
#include <stdbool.h>

typedef struct SimPredictFiles {
    SimOutputFile *files[SIM_OUTPUT_COUNT]; /* NULL: not wanted, or a folder */
    GPtrArray *in_folders;                  /* of SimOutputFile: those of folders */
} SimPredictFiles;

/* Opens them and makes the folders, before the work, so that what cannot be written is found at
 * once. Errors IO. FILES must be freed in any case. */
bool sim_predict_files_open(SimPredictFiles *files, const SimPredictOptions *options,
                            GError **error);
void sim_predict_files_done(SimPredictFiles *files);

/* True if some output shows the allocator's events. */
bool sim_predict_files_need_events(const SimPredictOptions *options);

/* Writes and commits. Errors IO, and those of other runs that a picture compares with. */
bool sim_predict_files_write(SimPredictFiles *files, const SimPredictOptions *options,
                             const SimPredictRun *run, GError **error);
