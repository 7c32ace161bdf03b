/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as one HTML page that needs nothing else: verdict, pictures, tables, what it all rests on.
 * Readable without JavaScript, by keyboard, on a phone, in the dark and in print.
 */
#pragma once

#include "base/output_file.h"
#include "hardware/cluster.h"
#include "predict/summary.h"
#include "trace/recorder.h"

/* MEMORY, TIME: tracks of the summary's memory.rank (with events) and time.rank. */
void sim_html_report_save(const SimSummary *summary, const SimCluster *cluster,
                          const SimTrack *memory, const SimTrack *time, SimOutputFile *file);
