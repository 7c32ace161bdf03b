/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that is infinitely slow, for the caching allocator: an event is complete only when the
 * host has waited for it, or for something that lies behind it. Streams are followed by clocks:
 * what a stream is given comes after all that it has waited for, and the collectives of one
 * communicator run in the order of their issue.
 */
#pragma once

#include "hbm/allocator.h"
#include "plan/plan.h"
#include "rank/rank_program.h"

#include <glib.h>
#include <string.h>

#define SLOW_DEVICE_STREAMS 16

typedef struct SlowDeviceClock {
    uint64_t ticks[SLOW_DEVICE_STREAMS]; /* by stream: how much of it comes before */
} SlowDeviceClock;

typedef struct SlowDevice {
    const SimPlan *plan;
    SlowDeviceClock streams[SLOW_DEVICE_STREAMS]; /* before what is issued next */
    SlowDeviceClock done;                         /* what the host knows to be over */
    SlowDeviceClock *events;                      /* of the plan, at their last record */
    SlowDeviceClock *groups;                      /* the last collective of each */
    GArray *lent;                                 /* of SlowDeviceClock: the allocator's events */
} SlowDevice;

static inline void slow_device_raise(SlowDeviceClock *clock, const SlowDeviceClock *other)
{
    for (int i = 0; i < SLOW_DEVICE_STREAMS; i++)
        clock->ticks[i] = MAX(clock->ticks[i], other->ticks[i]);
}

static inline SlowDevice *slow_device_new(const SimPlan *plan)
{
    g_assert(sim_plan_stream_count(plan) <= SLOW_DEVICE_STREAMS);
    SlowDevice *device = g_new0(SlowDevice, 1);
    device->plan = plan;
    device->events = g_new0(SlowDeviceClock, sim_plan_event_count(plan) + 1);
    device->groups = g_new0(SlowDeviceClock, sim_plan_group_count(plan) + 1);
    device->lent = g_array_new(FALSE, FALSE, sizeof(SlowDeviceClock));
    return device;
}

static inline void slow_device_free(SlowDevice *device)
{
    g_free(device->events);
    g_free(device->groups);
    g_array_unref(device->lent);
    g_free(device);
}

/* The clock of all that STREAM has been given by now. */
static inline SlowDeviceClock slow_device_mark(SlowDevice *device, uint32_t stream)
{
    device->streams[stream].ticks[stream]++;
    return device->streams[stream];
}

/* A row that is not the allocator's. */
static inline void slow_device_issue(SlowDevice *device, const SimInstruction *row)
{
    SlowDeviceClock *stream = &device->streams[row->stream];
    switch ((SimPlanOp)row->op) {
    case SIM_PLAN_RECORD:
        device->events[row->event] = slow_device_mark(device, row->stream);
        break;
    case SIM_PLAN_WAIT:
        if (row->is_event_of_stream) {
            SlowDeviceClock other = slow_device_mark(device, row->event);
            slow_device_raise(stream, &other);
        } else {
            slow_device_raise(stream, &device->events[row->event]);
        }
        break;
    case SIM_PLAN_HOST_WAIT:
        slow_device_raise(&device->done, &device->events[row->event]);
        break;
    case SIM_PLAN_COLLECTIVE:
        slow_device_raise(stream, &device->groups[row->group]);
        device->groups[row->group] = slow_device_mark(device, row->stream);
        break;
    default:
        break;
    }
}

static inline uint64_t slow_device_record(uint32_t stream, void *user_data)
{
    SlowDevice *device = user_data;
    SlowDeviceClock clock = slow_device_mark(device, stream);
    SlowDeviceClock only = {{0}};
    only.ticks[stream] = clock.ticks[stream];
    g_array_append_val(device->lent, only);
    return device->lent->len - 1;
}

static inline bool slow_device_is_complete(uint64_t event, void *user_data)
{
    SlowDevice *device = user_data;
    const SlowDeviceClock *clock = &g_array_index(device->lent, SlowDeviceClock, event);
    for (int i = 0; i < SLOW_DEVICE_STREAMS; i++)
        if (clock->ticks[i] > device->done.ticks[i])
            return false;
    return true;
}

static inline void slow_device_synchronize(uint64_t event, void *user_data)
{
    SlowDevice *device = user_data;
    slow_device_raise(&device->done, &g_array_index(device->lent, SlowDeviceClock, event));
}

static inline SimAllocatorDevice slow_device_describe(SlowDevice *device)
{
    return (SimAllocatorDevice){
        .record_event = slow_device_record,
        .is_complete = slow_device_is_complete,
        .synchronize = slow_device_synchronize,
        .user_data = device,
    };
}
