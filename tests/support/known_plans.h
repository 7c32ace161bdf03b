/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans written by hand whose times are known: a closed form, and PyTorch's own overlap test.
 */
#pragma once

#include "plan/plan.h"

/* A ring step with overlap. 32 layers, forward 4.5 ms and backward 9 ms each; all-gathers and
 * reduce-scatters of 436,000,000 bytes on RANKS ranks, all on one communicator "shard" and one
 * stream "communication", in this order: AGf0..AGf31 (AGf_i is issued after F_{i-2}); AGb31 (after
 * F31); then for i = 31..0: AGb_{i-1}, RS_i (after B_i). F_i needs AGf_i and F_{i-1}; B_i needs
 * AGb_i and B_{i+1}. Meta `cluster` is "flat" (one ring, 50 GB/s, 2 us a hop).
 *
 *   c = (N-1) * (436e6/N / 50e9 + 2e-6) s     a collective
 *   step = 96 c + 4.5 ms + 2 max(0, 9 ms - c) while c > 4.5 ms and 2 c > 9 ms
 *
 * N: 8 64 128 256 512 1024 -> 741.036 841.217 859.652 887.310 938.097 1037.218 ms. */
SimPlan *known_plans_ring_step(uint32_t ranks);

#define KNOWN_PLANS_RING_BYTES UINT64_C(436000000)
#define KNOWN_PLANS_RING_LAYERS 32

/* The numbers of PyTorch's test_fully_shard_overlap.py: two ranks, three layers, each its own unit
 * that reshards; 25 ms forward and 50 ms backward a layer; every collective 10 ms (fixed
 * durations), one communicator. With overlap forward takes 10 + 3*25 = 85 ms (the first all-gather
 * is exposed) and backward 10 + 3*50 + 10 = 170 ms (first all-gather, last reduce-scatter); with
 * IS_OVERLAPPED false, where each collective and each kernel waits for the one before, 3*(10+25) =
 * 105 and 3*(10+50+10) = 210. Marks "forward" and "backward" stand where the host begins them, and
 * the phases of the rows say which is which. */
SimPlan *known_plans_overlap_test(bool is_overlapped);
