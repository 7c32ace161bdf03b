/* SPDX-License-Identifier: Apache-2.0
 *
 * What went wrong on this rank, for any thread to report: the row of the plan and one line. The
 * first ones are kept, the rest is counted: one broken wait makes everything after it wrong.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimFaults SimFaults;

SimFaults *sim_faults_new(uint32_t rank);
void sim_faults_free(SimFaults *faults);

/* ROW is the instruction's index in the plan. Takes TEXT. */
void sim_faults_push(SimFaults *faults, size_t row, char *text);

/* All so far, those not kept included. */
uint32_t sim_faults_count(SimFaults *faults);

/* "rank 1, row 120: ..." a line, rows from 1 as in the messages of other commands. Owned by the
 * caller. */
char *sim_faults_print(SimFaults *faults);
