/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse of memory across streams. The caching allocator hands a freed block to the next alloc of
 * the same pool at once, in host order, whatever the streams still do; so the next owner must come
 * after the last accesses of the old one. record_stream keeps the block back until that stream is
 * done.
 *
 * Each pool (stream) owes, for each lane, the last access of any buffer freed into it. An alloc in
 * the pool takes the debts over; a touch of the new buffer on a lane pays them if that lane comes
 * after. This is for any allocator that takes any block of the pool, so what it passes is safe with
 * any sizes; allocator_reuse.h tells of an unpaid debt whether PyTorch's would take that block.
 *
 * Source: c10/cuda/CUDACachingAllocator.cpp (free, process_events), torch.Tensor.record_stream.
 * Memory: O(lanes that touched) a pool and a living buffer.
 */
#pragma once

#include "check/clocks.h"
#include "check/history.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimPoolDebt {
    SimEpoch last;     /* the access that must be over */
    uint32_t buffer;   /* that was freed */
    uint32_t free_row; /* where */
} SimPoolDebt;

/* TOUCH of the new owner does not come after DEBT. */
typedef void (*SimPoolDebtsUnpaidFunc)(const SimPoolDebt *debt, uint32_t owner, SimEpoch touch,
                                       void *user_data);

typedef struct SimPoolDebts SimPoolDebts;

SimPoolDebts *sim_pool_debts_new(uint32_t pools, size_t buffers);
void sim_pool_debts_free(SimPoolDebts *debts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimPoolDebts, sim_pool_debts_free)

/* BUFFER takes memory of POOL. */
void sim_pool_debts_take(SimPoolDebts *debts, uint32_t pool, uint32_t buffer);
/* record_stream: a free of BUFFER from now on waits for what LANE has been given by then. */
void sim_pool_debts_lend(SimPoolDebts *debts, uint32_t buffer, uint32_t lane);
/* BUFFER's memory goes back to POOL at ROW: at once, or when the lanes that it was lent to have
 * done what they have been given by now, and with it all that this had to wait for. */
void sim_pool_debts_give(SimPoolDebts *debts, const SimClocks *clocks, uint32_t pool,
                         uint32_t buffer, uint32_t row, const SimHistory *history);
/* BUFFER is touched. Calls FUNC for each debt not paid, once. */
void sim_pool_debts_touch(SimPoolDebts *debts, const SimClocks *clocks, uint32_t buffer,
                          SimEpoch touch, SimPoolDebtsUnpaidFunc func, void *user_data);

/* Touches compared with debts so far: the first of each buffer on each lane. */
uint64_t sim_pool_debts_checked(const SimPoolDebts *debts);
