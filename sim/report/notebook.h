/* SPDX-License-Identifier: Apache-2.0
 *
 * A Jupyter notebook (nbformat 4.5) that loads the files beside it with pandas and draws memory,
 * timeline, communication and the sweep of ranks with matplotlib; it checks its sums against the
 * summary as it goes.
 *
 *     summary.json, timeline.csv.gz, memory.csv.gz   as predict writes them
 *     ranks.csv                                      sim_notebook_save_ranks
 */
#pragma once

#include "base/output_file.h"
#include "predict/summary.h"

#include <glib.h>

void sim_notebook_save(const SimSummary *summary, SimOutputFile *file);

/* POINTS: of SimRankPoint. One row a number of ranks: what the peak consists of, in bytes. */
void sim_notebook_save_ranks(const GArray *points, SimOutputFile *file);
