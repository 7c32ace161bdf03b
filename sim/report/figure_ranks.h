/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture: the peak of a rank against the number of ranks, split by what it is for: what is sharded
 * shrinks, what a rank computes on does not.
 */
#pragma once

#include "report/rank_point.h"

#include <glib.h>

/* POINTS: of SimRankPoint, ascending. The SVG, owned by the caller. */
char *sim_figure_ranks_draw(const GArray *points);
