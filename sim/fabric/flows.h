/* SPDX-License-Identifier: Apache-2.0
 *
 * Flows in virtual time: each waits out its latency, then moves its volume at the rate that max-min
 * sharing gives it, which changes whenever another flow of its links begins or ends.
 *
 * A flow's id is its communicator's number: the caller chooses it, and an id runs once at a time.
 * Who uses it keeps one event in its queue for the whole fabric:
 *
 *     sim_flows_start(flows, now, id, &cost, route);        any number, then
 *     push an event at sim_flows_next_time(flows)           if that is another time than before
 *
 *     at that event, if its time is still sim_flows_next_time():
 *     while (sim_flows_finish(flows, now, &id)) ...         the collective of `id` is complete
 *     and push the next event as above (a latency part may have ended, and nothing be complete)
 *
 * Flows finish in ascending order of id within an instant. Remaining volume is updated only when a
 * rate changes, exactly (fabric/volume.h), once an instant, and only flows that share a link with
 * one that came or went, directly or through others, are solved again. The event of a completion
 * that moved is not looked for: each flow counts its own, and an old one is dropped when it comes
 * up.
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

/* Starts flow ID at NOW, which is not before any earlier call's. ROUTE is copied. */
void sim_flows_start(SimFlows *flows, SimTime now, uint32_t id, const SimCollectiveCost *cost,
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
