/* SPDX-License-Identifier: Apache-2.0 */
#include "job/setting_texts.h"

#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "hbm/allocator_config.h"

static bool fail(GError **error, SimError code, const char *expected, const char *text)
{
    g_autofree char *quoted = sim_error_quote(text);

    g_set_error(error, SIM_ERROR, (gint)code, "expected %s, found %s", expected, quoted);
    return false;
}

bool sim_setting_texts_check_dropout(const char *text, GError **error)
{
    double rate;

    return sim_setting_texts_parse_dropout(text, &rate) ||
           fail(error, SIM_ERROR_RANGE, "a rate from 0 to below 1", text);
}

bool sim_setting_texts_check_loss(const char *text, GError **error)
{
    uint64_t chunks;

    return sim_setting_texts_parse_loss(text, &chunks) ||
           fail(error, SIM_ERROR_SCHEMA, "cross-entropy, kept-logits or chunked:N", text);
}

bool sim_setting_texts_check_checkpoint(const char *text, GError **error)
{
    static const char *const words[] = {"none", "full", "selective", NULL};
    uint64_t every;

    return g_strv_contains(words, text) || sim_setting_texts_parse_every(text, &every) ||
           fail(error, SIM_ERROR_SCHEMA, "none, full, selective or every:K", text);
}

bool sim_setting_texts_check_frozen(const char *text, GError **error)
{
    return *text != '\0' || fail(error, SIM_ERROR_SCHEMA, "the path of a module", text);
}

bool sim_setting_texts_check_reshard(const char *text, GError **error)
{
    static const char *const words[] = {"default", "last-block-kept", "auto",
                                        "true",    "false",           NULL};

    if (g_strv_contains(words, text))
        return true;
    if (g_ascii_isdigit(*text)) {
        int64_t ranks;
        return sim_units_parse_int64(text, 1, SIM_SETTING_MOST_RANKS, &ranks, error);
    }
    const char *nearest = sim_error_nearest(text, words);
    g_autofree char *expected =
        g_strdup_printf("%s or a number of ranks (nearest: %s)",
                        "default, last-block-kept, auto, true, false", nearest);
    return fail(error, SIM_ERROR_SCHEMA, expected, text);
}

bool sim_setting_texts_check_backward_prefetch(const char *text, GError **error)
{
    static const char *const words[] = {"auto", "pre", "post", "none", NULL};
    int64_t units;

    if (g_strv_contains(words, text))
        return true;
    if (g_ascii_isdigit(*text))
        return sim_units_parse_int64(text, 1, 65536, &units, error);
    const char *nearest = sim_error_nearest(text, words);
    g_autofree char *expected =
        g_strdup_printf("auto, pre, post, none or a number of units (nearest: %s)", nearest);
    return fail(error, SIM_ERROR_SCHEMA, expected, text);
}

bool sim_setting_texts_check_bucket(const char *text, GError **error)
{
    uint64_t bytes;

    if (!sim_units_parse_bytes(text, &bytes, error))
        return false;
    return bytes > 0 || fail(error, SIM_ERROR_RANGE, "a size above 0", text);
}

bool sim_setting_texts_check_wrap(const char *text, GError **error)
{
    uint64_t parameters;

    if (*text == '\0')
        return fail(error, SIM_ERROR_SCHEMA, "block, block+root, root, size:N or a file", text);
    if (!g_str_has_prefix(text, "size:"))
        return true;
    if (!sim_units_parse_count(text + strlen("size:"), &parameters, error))
        return false;
    return parameters > 0 || fail(error, SIM_ERROR_RANGE, "a number of parameters above 0", text);
}

bool sim_setting_texts_check_allocator(const char *text, GError **error)
{
    SimAllocatorConfig config;

    sim_allocator_config_init(&config);
    return sim_allocator_config_parse(&config, text, error);
}

bool sim_setting_texts_check_jitter(const char *text, GError **error)
{
    char *end;
    double per_cent = g_ascii_strtod(text, &end);

    return (end != text && *end == '\0' && per_cent >= 0 && per_cent <= 100) ||
           fail(error, SIM_ERROR_RANGE, "per cent from 0 to 100", text);
}

bool sim_setting_texts_check_slow_rank(const char *text, GError **error)
{
    char *end;
    uint64_t rank = g_ascii_strtoull(text, &end, 10);
    const char *factor = end + 1;

    if (!g_ascii_isdigit(*text) || *end != ':' || rank > UINT32_MAX)
        return fail(error, SIM_ERROR_SCHEMA, "R:FACTOR, as in 3:1.2", text);
    double slowness = g_ascii_strtod(factor, &end);
    return (end != factor && *end == '\0' && slowness >= 0.01 && slowness <= 1000) ||
           fail(error, SIM_ERROR_RANGE, "a factor from 0.01 to 1000", text);
}

bool sim_setting_texts_check_slow_link(const char *text, GError **error)
{
    return strchr(text, ':') != NULL ||
           fail(error, SIM_ERROR_SCHEMA, "NAME:FACTOR, as in nic0.3:0.5", text);
}

bool sim_setting_texts_check_hbm(const char *text, GError **error)
{
    uint64_t bytes;

    if (strcmp(text, "unlimited") == 0)
        return true;
    if (!sim_units_parse_bytes(text, &bytes, error)) {
        g_prefix_error(error, "unlimited, or a size: ");
        return false;
    }
    return bytes > 0 || fail(error, SIM_ERROR_RANGE, "unlimited, or a size above 0", text);
}

bool sim_setting_texts_check_ranks(const char *text, GError **error)
{
    if (strcmp(text, "all") == 0)
        return true;
    g_auto(GStrv) items = g_strsplit(text, ",", -1);
    for (size_t i = 0; items[i] != NULL; i++) {
        g_auto(GStrv) ends = g_strsplit(items[i], "-", 2);
        int64_t first, last;
        if (ends[0] == NULL)
            return fail(error, SIM_ERROR_PARSE, "all, or ranks as in 0-7,64", text);
        if (!sim_units_parse_int64(ends[0], 0, SIM_SETTING_MOST_RANKS - 1, &first, error) ||
            !sim_units_parse_int64(ends[1] != NULL ? ends[1] : ends[0], first,
                                   SIM_SETTING_MOST_RANKS - 1, &last, error)) {
            g_prefix_error(error, "all, or ranks as in 0-7,64: ");
            return false;
        }
    }
    return *text != '\0' || fail(error, SIM_ERROR_PARSE, "all, or ranks as in 0-7,64", text);
}

static bool parse_after(const char *text, const char *prefix, uint64_t *number)
{
    int64_t value;

    if (!g_str_has_prefix(text, prefix) ||
        !sim_units_parse_int64(text + strlen(prefix), 1, INT64_C(1) << 32, &value, NULL))
        return false;
    *number = (uint64_t)value;
    return true;
}

bool sim_setting_texts_parse_dropout(const char *text, double *rate)
{
    char *end = NULL;

    *rate = g_ascii_strtod(text, &end);
    return end != text && *end == '\0' && *rate >= 0 && *rate < 1;
}

bool sim_setting_texts_parse_loss(const char *text, uint64_t *chunks)
{
    *chunks = 0;
    return strcmp(text, "cross-entropy") == 0 || strcmp(text, "kept-logits") == 0 ||
           parse_after(text, "chunked:", chunks);
}

bool sim_setting_texts_parse_every(const char *text, uint64_t *every)
{
    return parse_after(text, "every:", every);
}
