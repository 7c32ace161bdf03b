/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/stream.h"

#include <errno.h>
#include <time.h>

typedef struct Item {
    SimStreamFunc function;
    void *data;
} Item;

struct SimStream {
    GThread *thread;
    GAsyncQueue *queue; /* of Item; one without a function ends the thread */
    SimMarkers *markers;
    SimTime begin, nominal;
};

SimTime sim_stream_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (SimTime)now.tv_sec * SIM_SECOND + (SimTime)now.tv_nsec * SIM_NANOSECOND;
}

static void *run(void *data)
{
    SimStream *stream = data;
    for (;;) {
        Item *item = g_async_queue_pop(stream->queue);
        Item now = *item;
        g_free(item);
        if (now.function == NULL)
            return NULL;
        now.function(stream, now.data);
    }
}

SimStream *sim_stream_new(const char *name, SimMarkers *markers, SimTime begin)
{
    SimStream *stream = g_new0(SimStream, 1);
    stream->queue = g_async_queue_new();
    stream->markers = markers;
    stream->begin = begin;
    stream->thread = g_thread_new(name, run, stream);
    return stream;
}

void sim_stream_push(SimStream *stream, SimStreamFunc function, void *data)
{
    Item *item = g_new(Item, 1);
    *item = (Item){function, data};
    g_async_queue_push(stream->queue, item);
}

void sim_stream_free(SimStream *stream)
{
    if (stream == NULL)
        return;
    sim_stream_push(stream, NULL, NULL);
    g_thread_join(stream->thread);
    g_async_queue_unref(stream->queue);
    g_free(stream);
}

static void fire(SimStream *stream, void *data)
{
    sim_markers_fire(stream->markers, data, stream->nominal);
}

static void wait_for(SimStream *stream, void *data)
{
    SimTime nominal = sim_markers_wait(stream->markers, data);
    stream->nominal = MAX(stream->nominal, nominal);
}

SimMarker *sim_stream_mark(SimStream *stream)
{
    SimMarker *marker = sim_markers_add(stream->markers);
    sim_stream_push(stream, fire, marker);
    return marker;
}

void sim_stream_fire(SimStream *stream, SimMarker *marker)
{
    sim_stream_push(stream, fire, marker);
}

void sim_stream_wait(SimStream *stream, SimMarker *marker)
{
    sim_stream_push(stream, wait_for, marker);
}

SimTime sim_stream_nominal(const SimStream *stream)
{
    return stream->nominal;
}

void sim_stream_set_nominal(SimStream *stream, SimTime nominal)
{
    stream->nominal = nominal;
}

SimTime sim_stream_now(const SimStream *stream)
{
    return sim_stream_clock() - stream->begin;
}

void sim_stream_sleep_until(const SimStream *stream, SimTime time)
{
    SimTime deadline = stream->begin + time;
    struct timespec wake = {.tv_sec = (time_t)(deadline / SIM_SECOND),
                            .tv_nsec = (long)(deadline % SIM_SECOND / SIM_NANOSECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
        continue;
}
