/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/markers.h"

struct SimMarker {
    bool is_fired;
    SimTime nominal;
};

struct SimMarkers {
    GMutex lock;
    GCond changed;
    GPtrArray *all;
    uint64_t progress;
};

SimMarkers *sim_markers_new(void)
{
    SimMarkers *markers = g_new0(SimMarkers, 1);
    g_mutex_init(&markers->lock);
    g_cond_init(&markers->changed);
    markers->all = g_ptr_array_new_with_free_func(g_free);
    return markers;
}

void sim_markers_free(SimMarkers *markers)
{
    if (markers == NULL)
        return;
    g_ptr_array_unref(markers->all);
    g_mutex_clear(&markers->lock);
    g_cond_clear(&markers->changed);
    g_free(markers);
}

SimMarker *sim_markers_add(SimMarkers *markers)
{
    SimMarker *marker = g_new0(SimMarker, 1);
    g_mutex_lock(&markers->lock);
    g_ptr_array_add(markers->all, marker);
    g_mutex_unlock(&markers->lock);
    return marker;
}

void sim_markers_fire(SimMarkers *markers, SimMarker *marker, SimTime nominal)
{
    g_mutex_lock(&markers->lock);
    marker->is_fired = true;
    marker->nominal = nominal;
    markers->progress++;
    g_cond_broadcast(&markers->changed);
    g_mutex_unlock(&markers->lock);
}

bool sim_markers_is_fired(SimMarkers *markers, const SimMarker *marker)
{
    g_mutex_lock(&markers->lock);
    bool is_fired = marker->is_fired;
    g_mutex_unlock(&markers->lock);
    return is_fired;
}

SimTime sim_markers_wait(SimMarkers *markers, const SimMarker *marker)
{
    g_mutex_lock(&markers->lock);
    while (!marker->is_fired)
        g_cond_wait(&markers->changed, &markers->lock);
    SimTime nominal = marker->nominal;
    g_mutex_unlock(&markers->lock);
    return nominal;
}

uint64_t sim_markers_progress(SimMarkers *markers)
{
    g_mutex_lock(&markers->lock);
    uint64_t progress = markers->progress;
    g_mutex_unlock(&markers->lock);
    return progress;
}
