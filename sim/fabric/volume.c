/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/volume.h"

#include <glib.h>

/* gcc's and clang's on every 64-bit machine; 2^64 bytes in 10^-12 bytes need 104 bits. */
__extension__ typedef unsigned __int128 Wide;

#define PICOBYTES UINT64_C(1000000000000)

static Wide to_picobytes(SimVolume volume)
{
    return (Wide)volume.bytes * PICOBYTES + volume.picobytes;
}

SimVolume sim_volume_divide(uint64_t factor, uint64_t bytes, uint64_t divisor)
{
    g_assert(divisor >= 1 && divisor < PICOBYTES);
    Wide product = (Wide)factor * bytes;
    Wide whole = product / divisor;
    g_assert(whole < UINT64_MAX);
    Wide rest = product % divisor;
    return (SimVolume){
        .bytes = (uint64_t)whole,
        .picobytes = (uint64_t)((rest * PICOBYTES + divisor - 1) / divisor),
    };
}

bool sim_volume_is_empty(SimVolume volume)
{
    return volume.bytes == 0 && volume.picobytes == 0;
}

SimTime sim_volume_time(SimVolume volume, uint64_t rate)
{
    Wide time = (to_picobytes(volume) + rate - 1) / rate;
    return time < SIM_VOLUME_LONGEST ? (SimTime)time : SIM_VOLUME_LONGEST;
}

SimVolume sim_volume_after(SimVolume volume, uint64_t rate, SimTime duration)
{
    Wide before = to_picobytes(volume);
    Wide moved = (Wide)rate * (uint64_t)duration;
    if (moved >= before)
        return (SimVolume){0};
    Wide left = before - moved;
    return (SimVolume){
        .bytes = (uint64_t)(left / PICOBYTES),
        .picobytes = (uint64_t)(left % PICOBYTES),
    };
}
