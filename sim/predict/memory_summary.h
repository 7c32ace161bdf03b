/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory part of a summary.
 */
#pragma once

#include "predict/summary.h"

/* As sim_summary_new. */
SimMemorySummary sim_memory_summary_compute(const SimPlan *plan, const SimCluster *cluster,
                                            const SimResult *result, uint64_t hbm_bytes);
