/* SPDX-License-Identifier: Apache-2.0
 *
 * Time, byte counts and rates, as numbers and as text.
 *
 * Time is integer picoseconds (range +-106 days), bytes are integers; doubles are for rates only.
 * Text is locale-independent. Suffixes: KiB MiB GiB TiB (2^10...), kB KB MB GB TB (10^3...), B;
 * a bare K M G T is decimal too. Rates end in "/s"; a small b in "Gb/s" means bits.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef int64_t SimTime; /* picoseconds */

#define SIM_NANOSECOND INT64_C(1000)
#define SIM_MICROSECOND INT64_C(1000000)
#define SIM_MILLISECOND INT64_C(1000000000)
#define SIM_SECOND INT64_C(1000000000000)

#define SIM_KIB (UINT64_C(1) << 10)
#define SIM_MIB (UINT64_C(1) << 20)
#define SIM_GIB (UINT64_C(1) << 30)

/* "80GiB", "1.5 GB", "4096" -> bytes. Errors PARSE, RANGE. */
bool sim_units_parse_bytes(const char *text, uint64_t *bytes, GError **error);

/* "100M", "1.5B", "7000000" -> a count (k M B/G T, decimal). Errors PARSE, RANGE. */
bool sim_units_parse_count(const char *text, uint64_t *count, GError **error);

/* "450GB/s", "400Gb/s" -> bytes a second. Errors PARSE, RANGE (not above zero). */
bool sim_units_parse_rate(const char *text, double *bytes_per_s, GError **error);

/* "25ms", "2us", "1.5s", "10ns", "3ps" -> picoseconds. Errors PARSE, RANGE (negative). */
bool sim_units_parse_duration(const char *text, SimTime *duration, GError **error);

/* A whole decimal number with nothing around it. Errors PARSE, RANGE (outside MIN..MAX). */
bool sim_units_parse_int64(const char *text, int64_t min, int64_t max, int64_t *value,
                           GError **error);

/* "65.51 GiB", "512 B". Owned by the caller. */
char *sim_units_print_bytes(uint64_t bytes);

/* "7.644 ms", "1.234 s", "12.0 us". Owned by the caller. */
char *sim_units_print_duration(SimTime duration);

/* Seconds as a double, for output only. */
double sim_units_seconds(SimTime time);

/* Volume / rate, rounded up to the next picosecond: the one place where a rate becomes a time. The
 * rate counts as whole bytes a second, rounded down, at least 1; from there on the result is exact
 * (integers of 128 bits), and it saturates at INT64_MAX. */
SimTime sim_units_transfer_time(uint64_t bytes, double bytes_per_s);
