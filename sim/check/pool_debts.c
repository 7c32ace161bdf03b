/* SPDX-License-Identifier: Apache-2.0 */
#include "check/pool_debts.h"

/* Lanes beyond have no bit of their own and are looked at again at each touch. */
#define CHECKED_LANES 64

typedef struct Owner {
    GArray *debts;    /* of SimPoolDebt; NULL = none */
    GArray *lent;     /* of uint32_t: lanes; NULL = none */
    uint64_t checked; /* lanes on which all debts are known to be paid */
} Owner;

struct SimPoolDebts {
    uint32_t n_pools;
    size_t n_buffers;
    GArray **pools; /* of SimPoolDebt, one a lane; NULL = none */
    Owner *owners;  /* by buffer */
    uint64_t checked;
};

SimPoolDebts *sim_pool_debts_new(uint32_t pools, size_t buffers)
{
    SimPoolDebts *debts = g_new0(SimPoolDebts, 1);
    debts->n_pools = pools;
    debts->n_buffers = buffers;
    debts->pools = g_new0(GArray *, MAX(pools, 1));
    debts->owners = g_new0(Owner, MAX(buffers, 1));
    return debts;
}

static void clear_owner(Owner *owner)
{
    g_clear_pointer(&owner->debts, g_array_unref);
    g_clear_pointer(&owner->lent, g_array_unref);
}

void sim_pool_debts_free(SimPoolDebts *debts)
{
    if (debts == NULL)
        return;
    for (uint32_t i = 0; i < debts->n_pools; i++)
        g_clear_pointer(&debts->pools[i], g_array_unref);
    for (size_t i = 0; i < debts->n_buffers; i++)
        clear_owner(&debts->owners[i]);
    g_free(debts->pools);
    g_free(debts->owners);
    g_free(debts);
}

void sim_pool_debts_take(SimPoolDebts *debts, uint32_t pool, uint32_t buffer)
{
    Owner *owner = &debts->owners[buffer];
    GArray *owed = debts->pools[pool];
    if (owed == NULL)
        return;
    /* Shared until the pool owes something new: see own_pool. */
    owner->debts = g_array_ref(owed);
}

void sim_pool_debts_lend(SimPoolDebts *debts, uint32_t buffer, uint32_t lane)
{
    Owner *owner = &debts->owners[buffer];
    if (owner->lent == NULL)
        owner->lent = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(owner->lent, lane);
}

/* The event that the allocator records on a lane that the buffer was lent to is behind LAST. */
static bool is_covered(const Owner *owner, const SimClocks *clocks, SimEpoch last)
{
    for (guint i = 0; owner->lent != NULL && i < owner->lent->len; i++)
        if (sim_clocks_is_before(clocks, last, g_array_index(owner->lent, uint32_t, i)))
            return true;
    return false;
}

typedef struct Giving {
    const Owner *owner;
    const SimClocks *clocks;
    GArray *owed;
    SimPoolDebt debt;
} Giving;

static void owe(SimEpoch last, void *user_data)
{
    Giving *giving = user_data;
    if (is_covered(giving->owner, giving->clocks, last))
        return;
    giving->debt.last = last;
    for (guint i = 0; i < giving->owed->len; i++) {
        SimPoolDebt *known = &g_array_index(giving->owed, SimPoolDebt, i);
        if (known->last.lane != last.lane)
            continue;
        if (last.count > known->last.count)
            *known = giving->debt;
        return;
    }
    g_array_append_val(giving->owed, giving->debt);
}

void sim_pool_debts_give(SimPoolDebts *debts, const SimClocks *clocks, uint32_t pool,
                         uint32_t buffer, uint32_t row, const SimHistory *history)
{
    /* Owners that took the old list over keep it. */
    GArray *old = debts->pools[pool];
    GArray *owed = g_array_sized_new(FALSE, FALSE, sizeof(SimPoolDebt), old ? old->len + 2 : 2);
    if (old != NULL) {
        g_array_append_vals(owed, old->data, old->len);
        g_array_unref(old);
    }
    debts->pools[pool] = owed;
    Giving giving = {.owner = &debts->owners[buffer],
                     .clocks = clocks,
                     .owed = owed,
                     .debt = {.buffer = buffer, .free_row = row}};
    sim_history_each_last(history, buffer, owe, &giving);
    clear_owner(&debts->owners[buffer]);
}

void sim_pool_debts_touch(SimPoolDebts *debts, const SimClocks *clocks, uint32_t buffer,
                          SimEpoch touch, SimPoolDebtsUnpaidFunc func, void *user_data)
{
    Owner *owner = &debts->owners[buffer];
    if (owner->debts == NULL)
        return;
    uint64_t bit = touch.lane < CHECKED_LANES ? UINT64_C(1) << touch.lane : 0;
    if ((owner->checked & bit) != 0)
        return;
    owner->checked |= bit;
    debts->checked++;
    for (guint i = 0; i < owner->debts->len; i++) {
        const SimPoolDebt *debt = &g_array_index(owner->debts, SimPoolDebt, i);
        if (!sim_clocks_is_before(clocks, debt->last, touch.lane))
            func(debt, buffer, touch, user_data);
    }
}

uint64_t sim_pool_debts_checked(const SimPoolDebts *debts)
{
    return debts->checked;
}
