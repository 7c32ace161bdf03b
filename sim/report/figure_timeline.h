/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture: the streams of one rank during the last step. Communication that no kernel of `compute`
 * hides is in another colour, and so is waiting for late ranks.
 */
#pragma once

#include "predict/summary.h"
#include "trace/recorder.h"

/* TRACK: of the summary's time.rank, sorted. The SVG, owned by the caller. A run without a time
 * (out of memory, deadlock) is shown as far as it got. */
char *sim_figure_timeline_draw(const SimSummary *summary, const SimTrack *track);
