/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/input_file.h"

#define LARGEST_FILE ((size_t)256 << 20)
#define LARGEST_EXACT (INT64_C(1) << 53) /* above, a double skips integers */

cJSON *sim_json_load(const char *file, GError **error)
{
    size_t length;
    g_autofree char *text = sim_input_file_load_text(file, LARGEST_FILE, &length, error);
    return text == NULL ? NULL : sim_json_parse(text, length, file, error);
}

/* Whether the LENGTH bytes before an error open so many objects and arrays that cJSON gave up
 * there. */
static bool is_too_deep(const char *text, size_t length)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (in_string && text[i] == '\\') {
            i++;
        } else if (in_string) {
            in_string = text[i] != '"';
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '{' || text[i] == '[') {
            depth++;
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return depth >= CJSON_NESTING_LIMIT;
}

cJSON *sim_json_parse(const char *text, size_t length, const char *origin, GError **error)
{
    if (!sim_input_file_check_text(text, length, origin, error))
        return NULL;
    const char *end = text;
    cJSON *json = cJSON_ParseWithLengthOpts(text, length + 1, &end, true);
    if (json != NULL)
        return json;

    size_t offset = MIN((size_t)(end - text), length);
    unsigned line;
    unsigned column;
    sim_input_file_locate(text, offset, &line, &column);
    g_autofree char *near = g_strndup(text + offset, MIN(length - offset, 20));
    g_autofree char *quoted = sim_error_quote(near);
    g_autofree char *expected =
        is_too_deep(text, offset)
            ? g_strdup_printf("JSON nested at most %d deep", CJSON_NESTING_LIMIT)
            : g_strdup("JSON");
    g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, "%s:%u:%u: expected %s, found %s", origin, line,
                column, expected, *near == '\0' ? "the end of the text" : quoted);
    return NULL;
}

/* What ITEM is, for a message. Owned by the caller. */
static char *describe(const cJSON *item)
{
    if (item == NULL)
        return g_strdup("nothing (the key is missing)");
    if (cJSON_IsObject(item))
        return g_strdup("an object");
    if (cJSON_IsArray(item))
        return g_strdup("an array");
    if (cJSON_IsString(item))
        return sim_error_quote(item->valuestring);
    if (cJSON_IsNumber(item)) {
        /* The shortest of the usual two that reads back as the same double. */
        char digits[G_ASCII_DTOSTR_BUF_SIZE];
        g_ascii_formatd(digits, sizeof digits, "%.15g", item->valuedouble);
        if (g_ascii_strtod(digits, NULL) < item->valuedouble ||
            g_ascii_strtod(digits, NULL) > item->valuedouble)
            g_ascii_dtostr(digits, sizeof digits, item->valuedouble);
        return g_strdup(digits);
    }
    return g_strdup(cJSON_IsTrue(item) ? "true" : cJSON_IsFalse(item) ? "false" : "null");
}

static bool fail(const char *path, const char *key, SimError code, const char *expected,
                 const cJSON *found, GError **error)
{
    g_autofree char *description = describe(found);
    g_set_error(error, SIM_ERROR, (int)code, "%s%s%s: expected %s, found %s", path,
                key == NULL ? "" : ".", key == NULL ? "" : key, expected, description);
    return false;
}

/* Sets *ITEM to the member KEY, which may be NULL; false if OBJECT is none. */
static bool get_member(const cJSON *object, const char *path, const char *key, const cJSON **item,
                       GError **error)
{
    if (!cJSON_IsObject(object))
        return fail(path, NULL, SIM_ERROR_SCHEMA, "an object", object, error);
    *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return true;
}

bool sim_json_check_keys(const cJSON *object, const char *path, const char *const *keys,
                         GError **error)
{
    if (!cJSON_IsObject(object))
        return fail(path, NULL, SIM_ERROR_SCHEMA, "an object", object, error);
    /* Each member passed is a different key of KEYS, so the inner loop is short. */
    for (const cJSON *member = object->child; member != NULL; member = member->next) {
        if (!g_strv_contains(keys, member->string)) {
            sim_error_set_unknown(error, path, "key", member->string, keys);
            return false;
        }
        for (const cJSON *other = object->child; other != member; other = other->next) {
            if (strcmp(other->string, member->string) == 0) {
                g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                            "%s.%s: expected each key once, found it twice", path, member->string);
                return false;
            }
        }
    }
    return true;
}

/* "a positive integer" or "an integer from 1 to 8". Owned by the caller. */
static char *describe_integers(int64_t min, int64_t max)
{
    if (max >= LARGEST_EXACT && min >= 0 && min <= 1)
        return g_strdup(min == 1 ? "a positive integer" : "an integer of 0 or more");
    if (min <= -LARGEST_EXACT && max >= LARGEST_EXACT)
        return g_strdup("an integer");
    return g_strdup_printf("an integer from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, min, max);
}

bool sim_json_get_int64(const cJSON *object, const char *path, const char *key, int64_t min,
                        int64_t max, int64_t *out, GError **error)
{
    const cJSON *item = NULL;
    if (!get_member(object, path, key, &item, error))
        return false;
    g_autofree char *expected = describe_integers(min, max);
    if (!cJSON_IsNumber(item) || isnan(item->valuedouble))
        return fail(path, key, SIM_ERROR_SCHEMA, expected, item, error);
    double value = item->valuedouble;
    if (value < (double)-LARGEST_EXACT || value > (double)LARGEST_EXACT) {
        g_autofree char *exact = g_strdup_printf("%s (exact up to 2^53)", expected);
        return fail(path, key, SIM_ERROR_RANGE, exact, item, error);
    }
    int64_t whole = (int64_t)value;
    if ((double)whole < value || (double)whole > value)
        return fail(path, key, SIM_ERROR_SCHEMA, expected, item, error);
    if (whole < min || whole > max)
        return fail(path, key, SIM_ERROR_RANGE, expected, item, error);
    *out = whole;
    return true;
}

/* "a number from 0 to 1", "a number of 0 or more". Owned by the caller. */
static char *describe_numbers(double min, double max)
{
    char least[G_ASCII_DTOSTR_BUF_SIZE];
    char most[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(least, sizeof least, "%.6g", min);
    g_ascii_formatd(most, sizeof most, "%.6g", max);
    if (isinf(max) || max >= G_MAXDOUBLE)
        return isinf(min) || min <= -G_MAXDOUBLE ? g_strdup("a number")
                                                 : g_strdup_printf("a number of %s or more", least);
    return g_strdup_printf("a number from %s to %s", least, most);
}

bool sim_json_get_double(const cJSON *object, const char *path, const char *key, double min,
                         double max, double *out, GError **error)
{
    const cJSON *item = NULL;
    if (!get_member(object, path, key, &item, error))
        return false;
    g_autofree char *expected = describe_numbers(min, max);
    if (!cJSON_IsNumber(item))
        return fail(path, key, SIM_ERROR_SCHEMA, expected, item, error);
    if (!isfinite(item->valuedouble) || item->valuedouble < min || item->valuedouble > max)
        return fail(path, key, SIM_ERROR_RANGE, expected, item, error);
    *out = item->valuedouble;
    return true;
}

bool sim_json_get_bool(const cJSON *object, const char *path, const char *key, bool *out,
                       GError **error)
{
    const cJSON *item = NULL;
    if (!get_member(object, path, key, &item, error))
        return false;
    if (!cJSON_IsBool(item))
        return fail(path, key, SIM_ERROR_SCHEMA, "true or false", item, error);
    *out = cJSON_IsTrue(item) != 0;
    return true;
}

bool sim_json_get_string(const cJSON *object, const char *path, const char *key, const char **out,
                         GError **error)
{
    const cJSON *item = NULL;
    if (!get_member(object, path, key, &item, error))
        return false;
    if (!cJSON_IsString(item))
        return fail(path, key, SIM_ERROR_SCHEMA, "a string", item, error);
    *out = item->valuestring;
    return true;
}

bool sim_json_get_array(const cJSON *object, const char *path, const char *key, const cJSON **out,
                        GError **error)
{
    const cJSON *item = NULL;
    if (!get_member(object, path, key, &item, error))
        return false;
    if (!cJSON_IsArray(item))
        return fail(path, key, SIM_ERROR_SCHEMA, "an array", item, error);
    *out = item;
    return true;
}

bool sim_json_get_object(const cJSON *object, const char *path, const char *key, const cJSON **out,
                         GError **error)
{
    const cJSON *item = NULL;
    if (!get_member(object, path, key, &item, error))
        return false;
    if (!cJSON_IsObject(item))
        return fail(path, key, SIM_ERROR_SCHEMA, "an object", item, error);
    *out = item;
    return true;
}

bool sim_json_has(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return item != NULL && !cJSON_IsNull(item);
}
