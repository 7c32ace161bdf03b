/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream: a thread that does what it was given, in order, as a CUDA stream does. Whoever gives
 * work runs ahead of it.
 *
 * Times are picoseconds since the run began, by a clock that all processes of the machine share.
 * A stream also keeps its nominal time: when the work done so far should have ended. Work of a
 * given duration (paced) sleeps until an absolute deadline, its nominal end, so that a late wake-up
 * is not carried on.
 */
#pragma once

#include "executor/markers.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimStream SimStream;

/* Called by the stream's thread; frees DATA. */
typedef void (*SimStreamFunc)(SimStream *stream, void *data);

SimStream *sim_stream_new(const char *name, SimMarkers *markers, SimTime begin);
/* Waits until all work is done. */
void sim_stream_free(SimStream *stream);

void sim_stream_push(SimStream *stream, SimStreamFunc function, void *data);

/* A marker that happens when everything given before is done. */
SimMarker *sim_stream_mark(SimStream *stream);
/* The same with a marker made before. */
void sim_stream_fire(SimStream *stream, SimMarker *marker);
/* What is given later waits for MARKER. */
void sim_stream_wait(SimStream *stream, SimMarker *marker);

/* For functions that run on it. */
SimTime sim_stream_nominal(const SimStream *stream);
void sim_stream_set_nominal(SimStream *stream, SimTime nominal);
/* Now, and sleeping until then; on any thread. */
SimTime sim_stream_now(const SimStream *stream);
void sim_stream_sleep_until(const SimStream *stream, SimTime time);

/* Picoseconds of the shared clock. */
SimTime sim_stream_clock(void);
