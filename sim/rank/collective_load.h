/* SPDX-License-Identifier: Apache-2.0
 *
 * What a collective holds of each member's GPU: an SM a channel, and the bandwidth of the HBM that
 * its traffic takes on average.
 *
 * Traffic of a buffer of S bytes, in S: a ring moves its data through staging buffers of the
 * receiver, so an all-gather or a reduce-scatter reads S and writes S of them besides the buffer
 * itself: 3 (NCCL, src/device/all_gather.h, reduce_scatter.h, prims_simple.h). An all-reduce is one
 * of each: 6. In the switch (NVLS) the sum needs no staging: 2. LL sends a flag with every word:
 * twice; LL128 16/15.
 *
 * A fixed duration in the plan holds nothing.
 */
#pragma once

#include "fabric/collective.h"
#include "rank/run_table.h"

SimLoad sim_collective_load_compute(const SimCollectiveRequest *request,
                                    const SimCollectiveCost *cost);
