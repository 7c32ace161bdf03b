/* SPDX-License-Identifier: Apache-2.0
 *
 * An amount of data to move, exact to 10^-12 bytes: at R bytes a second, R of those move in one
 * picosecond, so a flow whose rate changes any number of times loses nothing to rounding. A shard
 * of a buffer that does not divide by the ranks is such an amount too.
 */
#pragma once

#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimVolume {
    uint64_t bytes;
    uint64_t picobytes; /* below 10^12 */
} SimVolume;

/* FACTOR * BYTES / DIVISOR, rounded up. DIVISOR at least 1 and below 10^12; the result below 2^64.
 */
SimVolume sim_volume_divide(uint64_t factor, uint64_t bytes, uint64_t divisor);

bool sim_volume_is_empty(SimVolume volume);

/* How long VOLUME takes at RATE bytes a second (at least 1), rounded up to the picosecond; at most
 * SIM_VOLUME_LONGEST. */
SimTime sim_volume_time(SimVolume volume, uint64_t rate);
#define SIM_VOLUME_LONGEST (INT64_MAX / 4)

/* What is left of VOLUME after moving for so long. */
SimVolume sim_volume_after(SimVolume volume, uint64_t rate, SimTime duration);
