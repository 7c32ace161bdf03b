/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary for people: one screen of 80 columns and 24 lines. Kinds of collectives that do not
 * find room there are summed up; many notes or a deadlock may take more.
 */
#pragma once

#include "hardware/cluster.h"
#include "predict/summary.h"

/* Owned by the caller. */
char *sim_summary_text_print(const SimSummary *summary, const SimCluster *cluster);
