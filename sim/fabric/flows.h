/* SPDX-License-Identifier: Apache-2.0
 *
 * Flows in virtual time: each waits out its latency, then moves its volume at the rate that max-min
 * sharing gives it, which changes whenever another flow of its links begins or ends.
 *
 * Who uses it keeps one event in its queue for the whole fabric:
 *
 *     id = sim_flows_start(flows, now, &cost, route);     any number, then
 *     push an event at sim_flows_next_time(flows)          if that has become earlier or later
 *
 *     at that event, if its time is still sim_flows_next_time():
 *     while (sim_flows_finish(flows, now, &id)) ... the collective `id` is complete
 *
 * Flows finish in ascending order of id within an instant. Remaining volume is updated only when a
 * rate changes, exactly (in 10^-12 bytes), and only flows that share a link, directly or through
 * others, are solved again.
 *
 * That collectives of one communicator follow each other, and that one starts when its last member
 * arrives, is up to who uses it (sim/rank).
 */
#pragma once

#include "base/units.h"
#include "fabric/collective.h"
#include "fabric/links.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SimFlows SimFlows;

/* CAPACITIES [links], bytes a second; copied. */
SimFlows *sim_flows_new(const uint64_t *capacities, size_t links);
void sim_flows_free(SimFlows *flows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFlows, sim_flows_free)

/* Starts a flow at NOW (not before the last call's). ROUTE is copied. Returns its id: ids of
 * finished flows are used again, the smallest first. */
uint32_t sim_flows_start(SimFlows *flows, SimTime now, const SimCollectiveCost *cost,
                         SimRoute route);

/* When something happens next (a latency part ends, a flow completes), or SIM_TIME_NEVER. Solves
 * the rates if flows came or went since. */
SimTime sim_flows_next_time(SimFlows *flows);

/* Takes out one flow that is complete at NOW, after all that happens until then; false if none is.
 * NOW must not be past sim_flows_next_time(). */
bool sim_flows_finish(SimFlows *flows, SimTime now, uint32_t *id);

/* How many flows run, those in their latency part included. */
size_t sim_flows_count(const SimFlows *flows);

/* The present rate of a flow, bytes a second; 0 in its latency part. */
uint64_t sim_flows_rate(SimFlows *flows, uint32_t id);

/* True if no link carries more than its capacity and no flow could go faster: for tests. */
bool sim_flows_check(SimFlows *flows);
