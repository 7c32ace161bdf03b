/* SPDX-License-Identifier: Apache-2.0
 *
 * The job file's `step`: what one training step does, call by call. Private to job_file.c.
 */
#pragma once

#include "job/job.h"

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>

/* Appends the calls to JOB->actions. WHERE is "FILE: step". Errors SCHEMA, RANGE: also a backward
 * without its forward, a forward that is run twice before its backward. */
bool sim_job_file_step_read(SimJob *job, const SimModel *model, const cJSON *calls,
                            const char *where, GError **error);
