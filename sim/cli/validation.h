/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds a real run of the reference executor against the simulator: a table of what was compared.
 *
 * What the real run left lies in a folder: run.json and memory.csv, lives.csv of rank 0
 * (executor/report.h), mpi.R of each rank R (executor/mpi_log.h).
 */
#pragma once

#include "plan/plan.h"
#include "trace/recorder.h"

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>

typedef struct SimValidation SimValidation;

SimValidation *sim_validation_new(void);
void sim_validation_free(SimValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimValidation, sim_validation_free)

/* Numbers against the run of one rank; IS_EXACT: everything was f32, so they agree to 1e-5 (the
 * last step's gradients to 1e-4), else to 2e-2. Errors IO, PARSE, SCHEMA. */
bool sim_validation_check_numbers(SimValidation *validation, const char *folder, bool is_exact,
                                  GError **error);

/* Faults, and rank 0's memory against RECORDER's first track, row by row. Errors as above. */
bool sim_validation_check_memory(SimValidation *validation, const SimPlan *plan,
                                 const SimRecorder *recorder, const char *folder, GError **error);

/* What MPI saw on every rank against PLAN. Error IO. */
bool sim_validation_check_collectives(SimValidation *validation, const SimPlan *plan,
                                      const char *folder, GError **error);

/* Seconds of a real run, beside those that the simulator expects (0: none); printed, never judged.
 */
void sim_validation_note_time(SimValidation *validation, const char *what, double seconds,
                              double expected);

bool sim_validation_agrees(const SimValidation *validation);
/* The table as text and as JSON (fsdpsim.validation/1). Owned by the caller. */
char *sim_validation_print(const SimValidation *validation);
cJSON *sim_validation_to_json(const SimValidation *validation);
