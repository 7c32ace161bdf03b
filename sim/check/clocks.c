/* SPDX-License-Identifier: Apache-2.0 */
#include "check/clocks.h"

#include <string.h>

typedef struct Clock {
    uint32_t *counts; /* by lane; lanes from N on are 0 */
    uint32_t n;
} Clock;

struct SimClocks {
    uint32_t n_lanes;
    size_t n_events;
    Clock *lanes;
    uint32_t *host_seen;   /* by lane: the host's version at the last launch */
    uint32_t host_version; /* grows when the host learns something */
    Clock *events;         /* counts NULL = not recorded or forgotten */
    bool *is_recorded;
};

SimClocks *sim_clocks_new(uint32_t lanes, size_t events)
{
    SimClocks *clocks = g_new0(SimClocks, 1);
    clocks->n_lanes = lanes;
    clocks->n_events = events;
    clocks->lanes = g_new0(Clock, lanes);
    clocks->host_seen = g_new0(uint32_t, lanes);
    clocks->events = g_new0(Clock, MAX(events, 1));
    clocks->is_recorded = g_new0(bool, MAX(events, 1));
    return clocks;
}

void sim_clocks_free(SimClocks *clocks)
{
    if (clocks == NULL)
        return;
    for (uint32_t i = 0; i < clocks->n_lanes; i++)
        g_free(clocks->lanes[i].counts);
    for (size_t i = 0; i < clocks->n_events; i++)
        g_free(clocks->events[i].counts);
    g_free(clocks->lanes);
    g_free(clocks->host_seen);
    g_free(clocks->events);
    g_free(clocks->is_recorded);
    g_free(clocks);
}

static void grow(Clock *clock, uint32_t n)
{
    if (n <= clock->n)
        return;
    clock->counts = g_renew(uint32_t, clock->counts, n);
    memset(clock->counts + clock->n, 0, (n - clock->n) * sizeof(uint32_t));
    clock->n = n;
}

/* True if CLOCK learned something. */
static bool join(Clock *clock, const Clock *other)
{
    bool is_changed = false;
    grow(clock, other->n);
    for (uint32_t i = 0; i < other->n; i++) {
        if (other->counts[i] > clock->counts[i]) {
            clock->counts[i] = other->counts[i];
            is_changed = true;
        }
    }
    return is_changed;
}

/* What LANE does next comes after what the host knows now. */
static void join_host(SimClocks *clocks, uint32_t lane)
{
    if (lane == SIM_CLOCKS_HOST || clocks->host_seen[lane] == clocks->host_version)
        return;
    join(&clocks->lanes[lane], &clocks->lanes[SIM_CLOCKS_HOST]);
    clocks->host_seen[lane] = clocks->host_version;
}

SimEpoch sim_clocks_launch(SimClocks *clocks, uint32_t lane, uint32_t row)
{
    g_assert(lane < clocks->n_lanes);
    join_host(clocks, lane);
    Clock *clock = &clocks->lanes[lane];
    grow(clock, lane + 1);
    clock->counts[lane]++;
    if (lane == SIM_CLOCKS_HOST)
        clocks->host_version++;
    return (SimEpoch){.lane = lane, .count = clock->counts[lane], .row = row};
}

bool sim_clocks_is_before(const SimClocks *clocks, SimEpoch earlier, uint32_t lane)
{
    if (earlier.lane == lane)
        return true;
    const Clock *clock = &clocks->lanes[lane];
    if (earlier.lane < clock->n && clock->counts[earlier.lane] >= earlier.count)
        return true;
    const Clock *host = &clocks->lanes[SIM_CLOCKS_HOST];
    return earlier.lane < host->n && host->counts[earlier.lane] >= earlier.count;
}

void sim_clocks_record(SimClocks *clocks, uint32_t lane, uint32_t event)
{
    g_assert(event < clocks->n_events);
    join_host(clocks, lane);
    const Clock *clock = &clocks->lanes[lane];
    Clock *snapshot = &clocks->events[event];
    g_free(snapshot->counts);
    snapshot->counts = g_memdup2(clock->counts, clock->n * sizeof(uint32_t));
    snapshot->n = clock->n;
    clocks->is_recorded[event] = true;
}

bool sim_clocks_wait(SimClocks *clocks, uint32_t lane, uint32_t event)
{
    g_assert(event < clocks->n_events);
    if (!clocks->is_recorded[event])
        return false;
    if (join(&clocks->lanes[lane], &clocks->events[event]) && lane == SIM_CLOCKS_HOST)
        clocks->host_version++;
    return true;
}

void sim_clocks_wait_lane(SimClocks *clocks, uint32_t lane, uint32_t other)
{
    if (lane == other)
        return;
    join_host(clocks, other);
    if (join(&clocks->lanes[lane], &clocks->lanes[other]) && lane == SIM_CLOCKS_HOST)
        clocks->host_version++;
}

void sim_clocks_forget(SimClocks *clocks, uint32_t event)
{
    g_clear_pointer(&clocks->events[event].counts, g_free);
    clocks->events[event].n = 0;
}
