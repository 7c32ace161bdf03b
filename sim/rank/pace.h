/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are not as fast as the others: a rank whose kernels take so much longer, and jitter
 * that gives each kernel of each rank a time of its own.
 *
 * Jitter of P per cent: the time is multiplied with a log-normal factor of mean 1 and standard
 * deviation P/100. A draw is a function of seed, rank and the kernel's place in the rank's program,
 * so each rank has a stream of its own and no draw depends on what was drawn before. It picks one
 * of 1,024 quantiles of equal probability (the middle of each).
 *
 * The quantiles are computed with + - * / and square root alone, which IEEE 754 rounds the same
 * everywhere; factors are integers in units of 2^-32 from there on.
 */
#pragma once

#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_PACE_ONE (UINT64_C(1) << 32)
#define SIM_PACE_QUANTILES 1024
#define SIM_PACE_MAX_JITTER 100.0

typedef struct SimPace {
    bool has_jitter;
    uint64_t seed;
    uint64_t quantiles[SIM_PACE_QUANTILES]; /* ascending, in 2^-32 */
} SimPace;

/* JITTER in per cent, 0 .. SIM_PACE_MAX_JITTER; 0 = none. */
void sim_pace_init(SimPace *pace, double jitter, uint64_t seed);

/* FACTOR (above zero) in 2^-32, at least 1 of them. */
uint64_t sim_pace_factor(double factor);

/* What a kernel of DURATION takes at POSITION of RANK's program, on a rank whose kernels take
 * FACTOR times as long; rounded up. */
SimTime sim_pace_apply(const SimPace *pace, uint64_t factor, uint32_t rank, uint32_t position,
                       SimTime duration);
