/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

typedef struct Suffix {
    const char *text;
    uint64_t scale; /* in the base unit */
} Suffix;

static const Suffix byte_suffixes[] = {
    {"", 1},
    {"B", 1},
    {"KiB", SIM_KIB},
    {"MiB", SIM_MIB},
    {"GiB", SIM_GIB},
    {"TiB", SIM_KIB *SIM_GIB},
    {"k", UINT64_C(1000)},
    {"K", UINT64_C(1000)},
    {"kB", UINT64_C(1000)},
    {"KB", UINT64_C(1000)},
    {"M", UINT64_C(1000000)},
    {"MB", UINT64_C(1000000)},
    {"G", UINT64_C(1000000000)},
    {"GB", UINT64_C(1000000000)},
    {"T", UINT64_C(1000000000000)},
    {"TB", UINT64_C(1000000000000)},
    {NULL, 0},
};

static const Suffix count_suffixes[] = {
    {"", 1},
    {"k", UINT64_C(1000)},
    {"K", UINT64_C(1000)},
    {"M", UINT64_C(1000000)},
    {"B", UINT64_C(1000000000)},
    {"G", UINT64_C(1000000000)},
    {"T", UINT64_C(1000000000000)},
    {NULL, 0},
};

/* In bits a second. */
static const Suffix rate_suffixes[] = {
    {"b/s", 1},
    {"kb/s", UINT64_C(1000)},
    {"Kb/s", UINT64_C(1000)},
    {"Mb/s", UINT64_C(1000000)},
    {"Gb/s", UINT64_C(1000000000)},
    {"Tb/s", UINT64_C(1000000000000)},
    {"B/s", 8},
    {"kB/s", UINT64_C(8000)},
    {"KB/s", UINT64_C(8000)},
    {"MB/s", UINT64_C(8000000)},
    {"GB/s", UINT64_C(8000000000)},
    {"TB/s", UINT64_C(8000000000000)},
    {"KiB/s", 8 * SIM_KIB},
    {"MiB/s", 8 * SIM_MIB},
    {"GiB/s", 8 * SIM_GIB},
    {"TiB/s", 8 * SIM_KIB *SIM_GIB},
    {NULL, 0},
};

static const Suffix duration_suffixes[] = {
    {"ps", 1},
    {"ns", (uint64_t)SIM_NANOSECOND},
    {"us", (uint64_t)SIM_MICROSECOND},
    {"ms", (uint64_t)SIM_MILLISECOND},
    {"s", (uint64_t)SIM_SECOND},
    {NULL, 0},
};

/* A number with a suffix, taken apart. */
typedef struct Quantity {
    bool negative;
    bool whole; /* integer holds it exactly */
    uint64_t integer;
    double number;
    uint64_t scale;
} Quantity;

static bool fail(const char *text, SimError code, const char *expected, GError **error)
{
    g_autofree char *quoted = sim_error_quote(text);
    g_set_error(error, SIM_ERROR, (int)code, "expected %s, found %s", expected, quoted);
    return false;
}

static const char *skip_digits(const char *text)
{
    while (g_ascii_isdigit(*text))
        text++;
    return text;
}

/* The end of the decimal number at TEXT, which is TEXT itself if there is none. A sign, hexadecimal
 * digits, "inf" and "nan", which strtod would take, are no part of it. */
static const char *find_number_end(const char *text, bool *whole)
{
    const char *end = skip_digits(text);
    size_t digits = (size_t)(end - text);
    *whole = true;
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        digits += (size_t)(end - fraction);
        *whole = false;
    }
    if (digits == 0)
        return text;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1;
        if (*exponent == '+' || *exponent == '-')
            exponent++;
        if (g_ascii_isdigit(*exponent)) {
            end = skip_digits(exponent);
            *whole = false;
        }
    }
    return end;
}

static bool parse_quantity(const char *text, const Suffix *suffixes, Quantity *quantity)
{
    quantity->negative = *text == '-';
    if (quantity->negative)
        text++;
    const char *end = find_number_end(text, &quantity->whole);
    if (end == text)
        return false;
    quantity->number = g_ascii_strtod(text, NULL);
    errno = 0;
    quantity->integer = quantity->whole ? g_ascii_strtoull(text, NULL, 10) : 0;
    if (errno == ERANGE)
        quantity->whole = false;
    while (*end == ' ')
        end++;
    for (const Suffix *suffix = suffixes; suffix->text != NULL; suffix++) {
        if (strcmp(end, suffix->text) == 0) {
            quantity->scale = suffix->scale;
            return true;
        }
    }
    return false;
}

/* The quantity in base units, up to MAX. Whole numbers are exact, others go to the nearest. */
static bool parse_scaled(const char *text, const Suffix *suffixes, uint64_t max,
                         const char *expected, uint64_t *out, GError **error)
{
    Quantity quantity;
    if (!parse_quantity(text, suffixes, &quantity))
        return fail(text, SIM_ERROR_PARSE, expected, error);
    if (quantity.negative)
        return fail(text, SIM_ERROR_RANGE, expected, error);
    if (quantity.whole) {
        if (quantity.integer > max / quantity.scale)
            return fail(text, SIM_ERROR_RANGE, expected, error);
        *out = quantity.integer * quantity.scale;
        return true;
    }
    double value = quantity.number * (double)quantity.scale;
    /* (double)max may round up to a power of two, which would not fit any more. */
    if (!(value < (double)max))
        return fail(text, SIM_ERROR_RANGE, expected, error);
    uint64_t rounded = (uint64_t)(value + 0.5);
    if (quantity.scale == 1 && ((double)rounded < value || (double)rounded > value))
        return fail(text, SIM_ERROR_PARSE, expected, error);
    *out = rounded;
    return true;
}

bool sim_units_parse_bytes(const char *text, uint64_t *bytes, GError **error)
{
    return parse_scaled(text, byte_suffixes, UINT64_MAX, "bytes, as in 80GiB, 1.5GB or 4096", bytes,
                        error);
}

bool sim_units_parse_count(const char *text, uint64_t *count, GError **error)
{
    return parse_scaled(text, count_suffixes, UINT64_MAX, "a count, as in 100M, 1.5B or 7000000",
                        count, error);
}

bool sim_units_parse_duration(const char *text, SimTime *duration, GError **error)
{
    uint64_t picoseconds;
    if (!parse_scaled(text, duration_suffixes, INT64_MAX,
                      "a duration below 106 days, as in 25ms, 2us or 1.5s", &picoseconds, error))
        return false;
    *duration = (SimTime)picoseconds;
    return true;
}

bool sim_units_parse_rate(const char *text, double *bytes_per_s, GError **error)
{
    const char *expected = "a rate above zero, as in 450GB/s or 400Gb/s";
    Quantity quantity;
    if (!parse_quantity(text, rate_suffixes, &quantity))
        return fail(text, SIM_ERROR_PARSE, expected, error);
    double rate = quantity.number * (double)quantity.scale / 8.0;
    if (quantity.negative || !(rate > 0.0) || isinf(rate))
        return fail(text, SIM_ERROR_RANGE, expected, error);
    *bytes_per_s = rate;
    return true;
}

bool sim_units_parse_int64(const char *text, int64_t min, int64_t max, int64_t *value,
                           GError **error)
{
    g_autofree char *expected =
        g_strdup_printf("a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, min, max);
    const char *digits = *text == '-' ? text + 1 : text;
    const char *end = skip_digits(digits);
    if (end == digits || *end != '\0')
        return fail(text, SIM_ERROR_PARSE, expected, error);
    errno = 0;
    int64_t number = g_ascii_strtoll(text, NULL, 10);
    if (errno == ERANGE || number < min || number > max)
        return fail(text, SIM_ERROR_RANGE, expected, error);
    *value = number;
    return true;
}

char *sim_units_print_bytes(uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < SIM_KIB)
        return g_strdup_printf("%u B", (unsigned)bytes);
    uint64_t unit = SIM_KIB;
    uint64_t hundredths = 0;
    for (size_t i = 0;; i++, unit *= 1024) {
        hundredths = bytes / unit * 100 + (bytes % unit * 100 + unit / 2) / unit;
        if (hundredths < 102400 || i + 1 == G_N_ELEMENTS(names))
            return g_strdup_printf("%" G_GUINT64_FORMAT ".%02u %s", hundredths / 100,
                                   (unsigned)(hundredths % 100), names[i]);
    }
}

char *sim_units_print_duration(SimTime duration)
{
    static const struct {
        const char *name;
        uint64_t unit; /* picoseconds */
        int decimals;
        uint64_t tens; /* 10^decimals */
    } units[] = {
        {"ps", 1, 0, 1},
        {"ns", (uint64_t)SIM_NANOSECOND, 1, 10},
        {"us", (uint64_t)SIM_MICROSECOND, 1, 10},
        {"ms", (uint64_t)SIM_MILLISECOND, 3, 1000},
        {"s", (uint64_t)SIM_SECOND, 3, 1000},
    };
    const char *sign = duration < 0 ? "-" : "";
    uint64_t time = duration < 0 ? UINT64_C(0) - (uint64_t)duration : (uint64_t)duration;
    if (time == 0)
        return g_strdup("0 s");
    for (size_t i = 0;; i++) {
        /* Rounded to what is printed, so that 999.9996 ms becomes 1.000 s. */
        uint64_t step = units[i].unit / units[i].tens;
        uint64_t rounded = time / step + (time % step * 2 >= step && step > 1);
        if (rounded >= 1000 * units[i].tens && i + 1 < G_N_ELEMENTS(units))
            continue;
        if (units[i].decimals == 0)
            return g_strdup_printf("%s%" G_GUINT64_FORMAT " %s", sign, rounded, units[i].name);
        return g_strdup_printf("%s%" G_GUINT64_FORMAT ".%0*" G_GUINT64_FORMAT " %s", sign,
                               rounded / units[i].tens, units[i].decimals, rounded % units[i].tens,
                               units[i].name);
    }
}

double sim_units_seconds(SimTime time)
{
    return (double)time / (double)SIM_SECOND;
}

SimTime sim_units_transfer_time(uint64_t bytes, double bytes_per_s)
{
    g_assert(bytes_per_s > 0.0);
    uint64_t rate = bytes_per_s < 1.0                  ? 1
                    : bytes_per_s >= (double)INT64_MAX ? (uint64_t)INT64_MAX
                                                       : (uint64_t)bytes_per_s;
    const uint64_t second = (uint64_t)SIM_SECOND;
    if (bytes <= (UINT64_MAX - INT64_MAX) / second) {
        uint64_t volume = bytes * second;
        return (SimTime)(volume / rate + (volume % rate != 0));
    }
    __extension__ typedef unsigned __int128 Wide;
    Wide volume = (Wide)bytes * second;
    Wide time = volume / rate + (volume % rate != 0);
    return time > INT64_MAX ? INT64_MAX : (SimTime)time;
}
