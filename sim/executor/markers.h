/* SPDX-License-Identifier: Apache-2.0
 *
 * Markers: what threads wait for. One happens once; an event of a plan, the end of a collective or
 * the place that a stream has reached is one. All share a lock, which also guards progress: how
 * many markers have happened, for a watchdog.
 *
 * A marker carries the nominal time at which it happened, in picoseconds of the run's clock: with
 * paced work, when it should have happened (stream.h).
 */
#pragma once

#include "base/units.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimMarkers SimMarkers;
typedef struct SimMarker SimMarker;

SimMarkers *sim_markers_new(void);
/* Frees all markers too; no one may wait. */
void sim_markers_free(SimMarkers *markers);

/* A marker that has not happened; lives as long as MARKERS. */
SimMarker *sim_markers_add(SimMarkers *markers);

void sim_markers_fire(SimMarkers *markers, SimMarker *marker, SimTime nominal);
bool sim_markers_is_fired(SimMarkers *markers, const SimMarker *marker);
/* Blocks until MARKER happens; returns its nominal time. */
SimTime sim_markers_wait(SimMarkers *markers, const SimMarker *marker);

/* How many have happened. */
uint64_t sim_markers_progress(SimMarkers *markers);
