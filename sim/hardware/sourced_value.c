/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/sourced_value.h"

#include <string.h>

#include "base/error.h"

#define EXTENSION ".json"

/* The member, an object of value and source and nothing else; PATH gets its own path. */
static bool get_member(const cJSON *object, const char *path, const char *key, char **member_path,
                       const cJSON **member, GError **error)
{
    static const char *const keys[] = {"value", "source", NULL};
    const cJSON *found;
    if (!sim_json_get_object(object, path, key, &found, error))
        return false;
    g_autofree char *inner = g_strdup_printf("%s.%s", path, key);
    const char *source;
    if (!sim_json_check_keys(found, inner, keys, error) ||
        !sim_json_get_string(found, inner, "source", &source, error))
        return false;
    if (!*source) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s.source: expected where the value is from, found nothing", inner);
        return false;
    }
    *member_path = g_steal_pointer(&inner);
    *member = found;
    return true;
}

static bool get_text(const cJSON *object, const char *path, const char *key, char **member_path,
                     const char **text, GError **error)
{
    const cJSON *member;
    return get_member(object, path, key, member_path, &member, error) &&
           sim_json_get_string(member, *member_path, "value", text, error);
}

bool sim_sourced_value_get_bytes(const cJSON *object, const char *path, const char *key,
                                 uint64_t *out, GError **error)
{
    g_autofree char *inner = NULL;
    const char *text;
    if (!get_text(object, path, key, &inner, &text, error))
        return false;
    if (sim_units_parse_bytes(text, out, error))
        return true;
    g_prefix_error(error, "%s.value: ", inner);
    return false;
}

bool sim_sourced_value_get_rate(const cJSON *object, const char *path, const char *key, double *out,
                                GError **error)
{
    g_autofree char *inner = NULL;
    const char *text;
    if (!get_text(object, path, key, &inner, &text, error))
        return false;
    if (sim_units_parse_rate(text, out, error))
        return true;
    g_prefix_error(error, "%s.value: ", inner);
    return false;
}

bool sim_sourced_value_get_duration(const cJSON *object, const char *path, const char *key,
                                    SimTime *out, GError **error)
{
    g_autofree char *inner = NULL;
    const char *text;
    if (!get_text(object, path, key, &inner, &text, error))
        return false;
    if (sim_units_parse_duration(text, out, error))
        return true;
    g_prefix_error(error, "%s.value: ", inner);
    return false;
}

bool sim_sourced_value_get_count(const cJSON *object, const char *path, const char *key,
                                 int64_t min, int64_t max, int64_t *out, GError **error)
{
    g_autofree char *inner = NULL;
    const cJSON *member;
    return get_member(object, path, key, &inner, &member, error) &&
           sim_json_get_int64(member, inner, "value", min, max, out, error);
}

bool sim_sourced_value_get_number(const cJSON *object, const char *path, const char *key,
                                  double min, double max, double *out, GError **error)
{
    g_autofree char *inner = NULL;
    const cJSON *member;
    return get_member(object, path, key, &inner, &member, error) &&
           sim_json_get_double(member, inner, "value", min, max, out, error);
}

bool sim_sourced_value_get_array(const cJSON *object, const char *path, const char *key,
                                 const cJSON **out, GError **error)
{
    g_autofree char *inner = NULL;
    const cJSON *member;
    return get_member(object, path, key, &inner, &member, error) &&
           sim_json_get_array(member, inner, "value", out, error);
}

bool sim_sourced_value_check_schema(const cJSON *object, const char *path, const char *expected,
                                    GError **error)
{
    const char *schema;
    if (!sim_json_get_string(object, path, "schema", &schema, error))
        return false;
    if (!strcmp(schema, expected))
        return true;
    g_autofree char *quoted = sim_error_quote(schema);
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.schema: expected '%s', found %s", path,
                expected, quoted);
    return false;
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **sim_sourced_value_list(const char *models, const char *folder)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *path = g_build_filename(models, folder, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *file;
    while (dir && (file = g_dir_read_name(dir))) {
        if (g_str_has_suffix(file, EXTENSION))
            g_ptr_array_add(names, g_strndup(file, strlen(file) - strlen(EXTENSION)));
    }
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&names), FALSE);
}

cJSON *sim_sourced_value_load(const char *models, const char *folder, const char *name,
                              char **origin, GError **error)
{
    g_autofree char *file = NULL;
    if (g_str_has_suffix(name, EXTENSION)) {
        file = g_strdup(name);
    } else {
        g_auto(GStrv) names = sim_sourced_value_list(models, folder);
        if (!g_strv_contains((const char *const *)names, name)) {
            g_autofree char *where = g_build_filename(models, folder, NULL);
            sim_error_set_unknown(error, where, "name", name, (const char *const *)names);
            return NULL;
        }
        g_autofree char *base = g_strconcat(name, EXTENSION, NULL);
        file = g_build_filename(models, folder, base, NULL);
    }
    cJSON *json = sim_json_load(file, error);
    if (json)
        *origin = g_steal_pointer(&file);
    return json;
}
