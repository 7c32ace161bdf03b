/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run leaves in files.
 *
 * JSON, schema fsdpsim.run/1, of all ranks: ranks, rows, faults (texts), losses by step, the
 * largest differences from another run if there is one, memory of rank 0 (peaks, and at how many
 * rows the blocks that live do not add up to what the allocator counts), seconds of each step by
 * rank.
 *
 * CSV of this rank's memory, one row an alloc or free, in host order:
 *     row,action,buffer,bytes,allocated_bytes,live_bytes,reserved_bytes
 * and of its buffers as seen at work (rows from 1, empty if there was none):
 *     buffer,address,bytes,birth,first_write,last_use,death
 */
#pragma once

#include "base/output_file.h"
#include "executor/run.h"
#include "executor/values.h"

#include <glib.h>
#include <mpi.h>

/* DIFFERENCE may be NULL; WHOLE is on rank 0 all ranks' values. Collective over WORLD; only rank 0
 * writes: FILE is NULL elsewhere, or everywhere. */
void sim_report_save_json(SimRun *run, const SimPlan *plan, const SimValues *whole,
                          const SimValuesDifference *difference, MPI_Comm world,
                          SimOutputFile *file);
void sim_report_save_memory(const SimRun *run, const SimPlan *plan, SimOutputFile *file);
void sim_report_save_lives(const SimRun *run, const SimPlan *plan, SimOutputFile *file);
/* All ranks' timelines in one file, as the simulator writes it (trace/timeline_csv.h). */
void sim_report_save_timeline(const SimRun *run, const SimPlan *plan, MPI_Comm world,
                              SimOutputFile *file);
