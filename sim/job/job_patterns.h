/* SPDX-License-Identifier: Apache-2.0
 *
 * Module and parameter paths as a job file writes them: the model's own, "" the root, "*" one path
 * component. WHERE begins messages ("job.json: fully_shard[2].modules").
 */
#pragma once

#include "job/job.h"

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Appends to MODULES, of uint32_t, what the pattern names, in the model's order. Error SCHEMA: it
 * names nothing (nearest path named). */
bool sim_job_patterns_find_modules(const SimModel *model, const char *pattern, const char *where,
                                   GArray *modules, GError **error);

/* The same for a JSON value: a pattern or a list of patterns. Error SCHEMA: neither. */
bool sim_job_patterns_read_modules(const SimModel *model, const cJSON *value, const char *where,
                                   GArray *modules, GError **error);

/* Parameters that the pattern names, or all at and below a module that it names. */
bool sim_job_patterns_find_parameters(const SimModel *model, const char *pattern, const char *where,
                                      GArray *parameters, GError **error);
bool sim_job_patterns_read_parameters(const SimModel *model, const cJSON *value, const char *where,
                                      GArray *parameters, GError **error);

/* Units of JOB that own one of the modules a JSON value names. Error SCHEMA: one of them is no
 * unit. */
bool sim_job_patterns_read_units(const SimJob *job, const SimModel *model, const cJSON *value,
                                 const char *where, GArray *units, GError **error);
