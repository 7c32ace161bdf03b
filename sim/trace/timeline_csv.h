/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline as CSV: one row a kernel, collective, copy or host wait.
 *
 *     rank,stream,name,category,step,phase,unit,start_ns,end_ns,duration_ns,bytes,flops,waited_for
 *
 * A collective begins when this rank is ready for it, as a profiler shows it. waited_for says what
 * held the item back until it began: "host" (issued only then), an event's name, "stream:compute"
 * (all that the stream had been given), "rank 3" (the last
 * member of a collective); empty if it followed the item before it on its stream.
 */
#pragma once

#include "base/output_file.h"
#include "trace/recorder.h"

/* Rows by (rank, start, stream). The tracks must be sorted (sim_recorder_sort). */
void sim_timeline_csv_save(const SimRecorder *recorder, SimOutputFile *file);
