/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/allocator_config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"

#define WHERE "allocator settings"
#define MIB (UINT64_C(1) << 20)

/* Tokens of the text: words, and each of ",:[]" by itself. */
typedef struct Parser {
    GPtrArray *tokens;
    unsigned next;
    SimAllocatorConfig config;
} Parser;

typedef bool (*ParseFunc)(Parser *parser, const char *key, GError **error);

typedef struct Setting {
    const char *key;
    ParseFunc parse;
} Setting;

static GPtrArray *split_tokens(const char *text)
{
    GPtrArray *tokens = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) word = g_string_new(NULL);

    for (const char *at = text;; at++) {
        const bool is_mark = *at != '\0' && strchr(",:[]", *at) != NULL;
        if ((is_mark || *at == '\0') && word->len > 0) {
            g_ptr_array_add(tokens, g_strdup(word->str));
            g_string_truncate(word, 0);
        }
        if (*at == '\0') {
            return tokens;
        }
        if (is_mark) {
            g_ptr_array_add(tokens, g_strndup(at, 1));
        } else if (!g_ascii_isspace(*at)) {
            g_string_append_c(word, *at);
        }
    }
}

/* The next token without taking it, "end of text" after the last. */
static const char *peek(const Parser *parser)
{
    return parser->next < parser->tokens->len ? g_ptr_array_index(parser->tokens, parser->next)
                                              : "end of text";
}

static bool is_at(const Parser *parser, const char *token)
{
    return parser->next < parser->tokens->len && g_str_equal(peek(parser), token);
}

static bool expect(Parser *parser, const char *key, const char *token, GError **error)
{
    if (!is_at(parser, token)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, WHERE ": %s: expected '%s', found '%s'", key,
                    token, peek(parser));
        return false;
    }
    parser->next++;
    return true;
}

static bool parse_whole(Parser *parser, const char *key, uint64_t *value, GError **error)
{
    int64_t number;

    if (!sim_units_parse_int64(peek(parser), 0, INT64_MAX, &number, error)) {
        g_prefix_error(error, WHERE ": %s: ", key);
        return false;
    }
    parser->next++;
    *value = (uint64_t)number;
    return true;
}

/* ":MEBIBYTES" of at least MIN_MIB. */
static bool parse_mib(Parser *parser, const char *key, uint64_t min_mib, uint64_t *bytes,
                      GError **error)
{
    uint64_t mib;

    if (!expect(parser, key, ":", error) || !parse_whole(parser, key, &mib, error)) {
        return false;
    }
    if (mib < min_mib) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    WHERE ": %s: expected at least %" G_GUINT64_FORMAT ", found %" G_GUINT64_FORMAT,
                    key, min_mib, mib);
        return false;
    }
    *bytes = MIN(mib, UINT64_MAX / MIB) * MIB;
    return true;
}

/* ":NUMBER" in (0, 1), or (0, 1]. */
static bool parse_fraction(Parser *parser, const char *key, bool may_be_one, double *fraction,
                           GError **error)
{
    if (!expect(parser, key, ":", error)) {
        return false;
    }
    char *end;
    const char *text = peek(parser);
    const double value = g_ascii_strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, WHERE ": %s: expected a number, found '%s'",
                    key, text);
        return false;
    }
    if (value <= 0 || value > 1 || (value >= 1 && !may_be_one)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    WHERE ": %s: expected a number above 0 and %s 1, found '%s'", key,
                    may_be_one ? "up to" : "below", text);
        return false;
    }
    parser->next++;
    *fraction = value;
    return true;
}

static bool parse_bool(Parser *parser, const char *key, bool *value, GError **error)
{
    if (!expect(parser, key, ":", error)) {
        return false;
    }
    if (!is_at(parser, "True") && !is_at(parser, "False")) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                    WHERE ": %s: expected True or False, found '%s'", key, peek(parser));
        return false;
    }
    *value = is_at(parser, "True");
    parser->next++;
    return true;
}

/* min_allowed_segment_size_mb: more than kMinLargeAlloc. */
static bool parse_large_segment_size(Parser *parser, const char *key, GError **error)
{
    return parse_mib(parser, key, SIM_ALLOCATOR_MIN_LARGE / MIB + 1,
                     &parser->config.large_segment_size_bytes, error);
}

static bool parse_max_split_size(Parser *parser, const char *key, GError **error)
{
    SimAllocatorConfig *config = &parser->config;

    return parse_mib(parser, key, config->large_segment_size_bytes / MIB,
                     &config->max_split_size_bytes, error);
}

static bool parse_max_non_split_rounding(Parser *parser, const char *key, GError **error)
{
    SimAllocatorConfig *config = &parser->config;

    return parse_mib(parser, key, config->large_segment_size_bytes / MIB,
                     &config->max_non_split_rounding_bytes, error);
}

static bool parse_garbage_collection_threshold(Parser *parser, const char *key, GError **error)
{
    return parse_fraction(parser, key, false, &parser->config.garbage_collection_threshold, error);
}

static bool parse_memory_fraction(Parser *parser, const char *key, GError **error)
{
    return parse_fraction(parser, key, true, &parser->config.per_process_memory_fraction, error);
}

static bool parse_expandable_segments(Parser *parser, const char *key, GError **error)
{
    return parse_bool(parser, key, &parser->config.expandable_segments, error);
}

/* A power of two; 0 too if MAY_BE_ZERO. */
static bool parse_power(Parser *parser, const char *key, bool may_be_zero, uint64_t *power,
                        GError **error)
{
    uint64_t value;

    if (!parse_whole(parser, key, &value, error)) {
        return false;
    }
    if ((value & (value - 1)) != 0 || (value == 0 && !may_be_zero) || value > G_MAXINT32) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    WHERE ": %s: expected a power of two%s, found %" G_GUINT64_FORMAT, key,
                    may_be_zero ? " or 0" : "", value);
        return false;
    }
    *power = value;
    return true;
}

static void fill_divisions(SimAllocatorConfig *config, unsigned begin, unsigned end,
                           uint64_t divisions)
{
    for (unsigned i = begin; i < end; i++) {
        config->roundup_power2_divisions[i] = (uint32_t)divisions;
    }
}

/* One "BOUNDARY:DIVISIONS" of the list; the boundary is a power of two in MiB or ">", which stands
 * for all above the LAST one. */
static bool parse_division(Parser *parser, const char *key, bool is_first, unsigned *last,
                           GError **error)
{
    SimAllocatorConfig *config = &parser->config;
    const bool is_rest = is_at(parser, ">");
    uint64_t boundary = 0;
    uint64_t divisions;

    if (is_rest) {
        parser->next++;
    } else if (!parse_power(parser, key, false, &boundary, error)) {
        return false;
    }
    if (!expect(parser, key, ":", error) || !parse_power(parser, key, true, &divisions, error)) {
        return false;
    }
    if (is_rest) {
        fill_divisions(config, *last + 1, SIM_ALLOCATOR_DIVISIONS, divisions);
        return true;
    }
    unsigned index = 63 - (unsigned)__builtin_clzll(boundary);
    index = MIN(index, SIM_ALLOCATOR_DIVISIONS - 1);
    fill_divisions(config, is_first ? 0 : index, index + 1, divisions);
    *last = index;
    return true;
}

static bool parse_divisions(Parser *parser, const char *key, GError **error)
{
    uint64_t divisions;
    unsigned last = 0;
    bool is_first = true;

    if (!expect(parser, key, ":", error)) {
        return false;
    }
    if (!is_at(parser, "[")) {
        if (!parse_power(parser, key, false, &divisions, error)) {
            return false;
        }
        fill_divisions(&parser->config, 0, SIM_ALLOCATOR_DIVISIONS, divisions);
        return true;
    }
    parser->next++;
    while (!is_at(parser, "]")) {
        if (!parse_division(parser, key, is_first, &last, error)) {
            return false;
        }
        is_first = false;
        if (!is_at(parser, "]") && !expect(parser, key, ",", error)) {
            return false;
        }
    }
    return expect(parser, key, "]", error);
}

static bool parse_backend(Parser *parser, const char *key, GError **error)
{
    if (!expect(parser, key, ":", error)) {
        return false;
    }
    if (is_at(parser, "cudaMallocAsync")) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    WHERE ": %s: cudaMallocAsync is not simulated; use 'native'", key);
        return false;
    }
    return expect(parser, key, "native", error);
}

static bool refuse(Parser *parser, const char *key, GError **error)
{
    (void)parser;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED, WHERE ": %s: not simulated", key);
    return false;
}

/* Settings without influence on where blocks go. */
static bool skip_bool(Parser *parser, const char *key, GError **error)
{
    bool value;

    return parse_bool(parser, key, &value, error);
}

static bool skip_whole(Parser *parser, const char *key, GError **error)
{
    uint64_t value;

    return expect(parser, key, ":", error) && parse_whole(parser, key, &value, error);
}

/* c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp; the NULL ends it. */
static const Setting settings[] = {
    {"large_segment_size_mb", parse_large_segment_size},
    {"max_split_size_mb", parse_max_split_size},
    {"max_non_split_rounding_mb", parse_max_non_split_rounding},
    {"garbage_collection_threshold", parse_garbage_collection_threshold},
    {"roundup_power2_divisions", parse_divisions},
    {"expandable_segments", parse_expandable_segments},
    {"per_process_memory_fraction", parse_memory_fraction},
    {"backend", parse_backend},
    {"throw_on_cudamalloc_oom", refuse},
    {"release_lock_on_cudamalloc", skip_bool},
    {"graph_capture_record_stream_reuse", skip_bool},
    {"pinned_use_cuda_host_register", skip_bool},
    {"pinned_use_background_threads", skip_bool},
    {"pinned_num_register_threads", skip_whole},
    {"pinned_reserve_segment_size_mb", skip_whole},
    {"pinned_max_round_threshold_mb", skip_whole},
    {"pinned_max_cached_size_mb", skip_whole},
    {NULL, NULL},
};

static const Setting *find_setting(const char *key)
{
    for (const Setting *setting = settings; setting->key != NULL; setting++) {
        if (g_str_equal(setting->key, key)) {
            return setting;
        }
    }
    return NULL;
}

static bool parse_setting(Parser *parser, GError **error)
{
    const char *key = peek(parser);
    const Setting *setting = find_setting(key);

    if (setting == NULL) {
        const char *keys[G_N_ELEMENTS(settings)] = {NULL};
        for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
            keys[i] = settings[i].key;
        }
        sim_error_set_unknown(error, WHERE, "setting", key, keys);
        return false;
    }
    parser->next++;
    return setting->parse(parser, key, error);
}

/* large_segment_size_mb wherever it stands, since the limits of others depend on it. */
static bool parse_first(Parser *parser, GError **error)
{
    for (unsigned i = 0; i < parser->tokens->len; i++) {
        const char *token = g_ptr_array_index(parser->tokens, i);
        if (g_str_equal(token, "large_segment_size_mb")) {
            parser->next = i + 1;
            if (!parse_large_segment_size(parser, token, error)) {
                return false;
            }
        }
    }
    parser->next = 0;
    return true;
}

bool sim_allocator_config_parse(SimAllocatorConfig *config, const char *text, GError **error)
{
    g_autoptr(GPtrArray) tokens = split_tokens(text);
    Parser parser = {tokens, 0, *config};

    parser.config.max_split_size_bytes = UINT64_MAX;
    parser.config.garbage_collection_threshold = 0;
    fill_divisions(&parser.config, 0, SIM_ALLOCATOR_DIVISIONS, 0);
    if (!parse_first(&parser, error)) {
        return false;
    }
    parser.config.max_non_split_rounding_bytes = parser.config.large_segment_size_bytes;
    while (parser.next < tokens->len) {
        if (!parse_setting(&parser, error)) {
            return false;
        }
        if (parser.next < tokens->len && !expect(&parser, "after a value", ",", error)) {
            return false;
        }
    }
    *config = parser.config;
    return true;
}
