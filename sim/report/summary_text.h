/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary for people: one screen (80 columns, 24 lines in the usual case).
 */
#pragma once

#include "hardware/cluster.h"
#include "predict/summary.h"

/* Owned by the caller. */
char *sim_summary_text_print(const SimSummary *summary, const SimCluster *cluster);
