/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture: one rank's allocated memory over the host's time, stacked by whose it is, with what is
 * reserved, what the GPU has room for, and the peak.
 */
#pragma once

#include "predict/summary.h"
#include "trace/recorder.h"

/* TRACK: of the summary's memory.rank, with memory events. The SVG, owned by the caller. */
char *sim_figure_memory_draw(const SimSummary *summary, const SimTrack *track);
