/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/pace.h"

#include <glib.h>

/* gcc's and clang's on every 64-bit machine. */
__extension__ typedef unsigned __int128 Wide;

#define LONGEST (INT64_MAX / 4)

/* e^x for |x| below 8: the series of x/1024, squared ten times. */
static double exponential(double x)
{
    double small = x / 1024, term = 1, sum = 1;
    for (int i = 1; i < 12; i++) {
        term = term * small / i;
        sum += term;
    }
    for (int i = 0; i < 10; i++) {
        sum *= sum;
    }
    return sum;
}

/* Newton's method, from above; exact to the last bits. */
static double square_root(double x)
{
    double root = x > 1 ? x : 1;
    for (int i = 0; i < 64 && x > 0; i++) {
        root = (root + x / root) / 2;
    }
    return x > 0 ? root : 0;
}

/* ln(1 + x) for x in 0..1, as 2 artanh(x / (2 + x)). */
static double logarithm_of_one_plus(double x)
{
    double z = x / (2 + x), power = z, sum = 0;
    for (int i = 1; i < 64; i += 2) {
        sum += power / i;
        power *= z * z;
    }
    return 2 * sum;
}

/* Phi(x), by the series of its density: x + x^3/3 + x^5/(3*5) + ... for |x| below 5. */
static double normal_probability(double x)
{
    double term = x, sum = x;
    for (int i = 3; i < 200; i += 2) {
        term = term * x * x / i;
        sum += term;
    }
    return 0.5 + sum * exponential(-x * x / 2) / square_root(2 * G_PI);
}

/* The x at which Phi(x) is P, by bisection: 60 halvings of 10. */
static double normal_quantile(double p)
{
    double low = -5, high = 5;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (normal_probability(middle) < p) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (low + high) / 2;
}

uint64_t sim_pace_factor(double factor)
{
    double units = factor * (double)SIM_PACE_ONE;
    return units >= 1 ? (uint64_t)units : 1;
}

void sim_pace_init(SimPace *pace, double jitter, uint64_t seed)
{
    *pace = (SimPace){.has_jitter = jitter > 0, .seed = seed};
    double spread = jitter / 100, variance = logarithm_of_one_plus(spread * spread);
    double sigma = square_root(variance);
    for (int i = 0; i < SIM_PACE_QUANTILES && pace->has_jitter; i++) {
        double z = normal_quantile((i + 0.5) / SIM_PACE_QUANTILES);
        pace->quantiles[i] = sim_pace_factor(exponential(sigma * z - variance / 2));
    }
}

/* splitmix64's finalizer (Steele, Lea, Flood 2014): every bit of the input reaches every output. */
static uint64_t scramble(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94D049BB133111EB);
    return word ^ (word >> 31);
}

static SimTime multiply(SimTime duration, uint64_t factor)
{
    Wide product = ((Wide)(uint64_t)duration * factor + SIM_PACE_ONE - 1) >> 32;
    return product < LONGEST ? (SimTime)product : LONGEST;
}

SimTime sim_pace_apply(const SimPace *pace, uint64_t factor, uint32_t rank, uint32_t position,
                       SimTime duration)
{
    if (factor != SIM_PACE_ONE) {
        duration = multiply(duration, factor);
    }
    if (pace->has_jitter) {
        uint64_t stream =
            scramble(pace->seed + UINT64_C(0x9E3779B97F4A7C15) * (rank + UINT64_C(1)));
        uint64_t draw = scramble(stream + UINT64_C(0x9E3779B97F4A7C15) * (position + UINT64_C(1)));
        duration = multiply(duration, pace->quantiles[draw % SIM_PACE_QUANTILES]);
    }
    return duration;
}
