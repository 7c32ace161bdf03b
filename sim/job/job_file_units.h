/* SPDX-License-Identifier: Apache-2.0
 *
 * The job file's calls on modules: `fully_shard`, `set`. Private to job_file.c.
 */
#pragma once

#include "job/job.h"

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>

/* The list of fully_shard calls -> JOB->units, ignored, uncast and otherwise cut parameters. WHERE
 * is "FILE: fully_shard". */
bool sim_job_file_units_read(SimJob *job, const SimModel *model, const cJSON *calls,
                             const char *where, GError **error);

/* The list of set_* calls made once, after wrapping; flags become actions at the head of each step.
 */
bool sim_job_file_units_set(SimJob *job, const SimModel *model, const cJSON *calls,
                            const char *where, GError **error);

/* One set of flags between microbatches (also those of a set_* call): actions for UNITS; others of
 * its keys are left alone. WHERE names the object. */
bool sim_job_file_units_read_flags(SimJob *job, const SimModel *model, const cJSON *object,
                                   const char *where, GError **error);
