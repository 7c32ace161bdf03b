/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's history as CSV: one row an action, in the order in which the host caused them.
 *
 *     rank,index,time_ns,action,buffer,category,stream,bytes,step,phase,unit,
 *     allocated_bytes,active_bytes,reserved_bytes
 *
 * Step, phase and unit are those of the instruction during which it happened (a block comes back in
 * the malloc after its events are complete). The three counters are those after the action.
 */
#pragma once

#include "base/output_file.h"
#include "trace/recorder.h"

/* Rows by (rank, index). */
void sim_memory_csv_save(const SimRecorder *recorder, SimOutputFile *file);
