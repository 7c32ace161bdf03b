/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recorder.h"

struct SimRecorder {
    const SimPlan *plan;
    GPtrArray *tracks; /* of SimTrack, owned */
};

static void free_track(void *data)
{
    SimTrack *track = data;
    g_array_unref(track->spans);
    g_array_unref(track->memory_times);
    g_array_unref(track->launches);
    g_free(track);
}

SimRecorder *sim_recorder_new(const SimPlan *plan)
{
    SimRecorder *recorder = g_new(SimRecorder, 1);
    recorder->plan = plan;
    recorder->tracks = g_ptr_array_new_with_free_func(free_track);
    return recorder;
}

void sim_recorder_free(SimRecorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    g_ptr_array_unref(recorder->tracks);
    g_free(recorder);
}

const SimPlan *sim_recorder_plan(const SimRecorder *recorder)
{
    return recorder->plan;
}

SimTrack *sim_recorder_add(SimRecorder *recorder, uint32_t rank)
{
    SimTrack *track = g_new(SimTrack, 1);
    track->rank = rank;
    track->spans = g_array_new(FALSE, FALSE, sizeof(SimSpan));
    track->memory_events = NULL;
    track->memory_times = g_array_new(FALSE, FALSE, sizeof(SimTime));
    track->launches = g_array_new(FALSE, FALSE, sizeof(SimLaunch));
    g_ptr_array_add(recorder->tracks, track);
    return track;
}

size_t sim_recorder_count(const SimRecorder *recorder)
{
    return recorder->tracks->len;
}

const SimTrack *sim_recorder_track(const SimRecorder *recorder, size_t index)
{
    g_assert(index < recorder->tracks->len);
    return g_ptr_array_index(recorder->tracks, index);
}

static int compare_spans(const void *a, const void *b)
{
    const SimSpan *x = a;
    const SimSpan *y = b;
    if (x->arrival != y->arrival) {
        return x->arrival < y->arrival ? -1 : 1;
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->instruction < y->instruction ? -1 : x->instruction > y->instruction;
}

void sim_recorder_sort(SimTrack *track)
{
    g_array_sort(track->spans, compare_spans);
}
