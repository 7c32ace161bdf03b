/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/kernel_constants.h"

#include "base/error.h"
#include "base/json.h"
#include "hardware/sourced_value.h"

#define SCHEMA "fsdpsim.kernels/1"
#define MOST_ATTENTION_ROWS 64

/* One number of an object, and where it goes. */
typedef struct Field {
    const char *key;
    double min, max;
    size_t offset;
} Field;

static const Field gemm_fields[] = {
    {"start_us", 0, 1000, offsetof(SimGemmConstants, start_us)},
    {"efficiency", 0.01, 1.5, offsetof(SimGemmConstants, efficiency)},
    {"tile_intensity", 0, 1e4, offsetof(SimGemmConstants, tile_intensity)},
    {"depth", 0, 1e5, offsetof(SimGemmConstants, depth)},
    {"memory_fraction", 0.01, 1.5, offsetof(SimGemmConstants, memory_fraction)},
    {"split_cost", 0, 100, offsetof(SimGemmConstants, split_cost)},
    {"power_drop", 0, 0.9, offsetof(SimGemmConstants, power_drop)},
    {"power_flops", 1, 1e20, offsetof(SimGemmConstants, power_flops)},
};

static const Field attention_fields[] = {
    {"start_us", 0, 1000, offsetof(SimAttentionConstants, start_us)},
    {"seq_half", 0, 1e6, offsetof(SimAttentionConstants, seq_half)},
    {"block_waves", 0, 1e3, offsetof(SimAttentionConstants, block_waves)},
    {"memory_fraction", 0.01, 1.5, offsetof(SimAttentionConstants, memory_fraction)},
};

static const char *const traffic_names[] = {"norm", "norm_grad", "softmax", "optimizer", NULL};

static bool read_fields(const cJSON *object, const char *path, const Field *fields, size_t n,
                        void *out, GError **error)
{
    for (size_t i = 0; i < n; i++) {
        double *value = (double *)(void *)((char *)out + fields[i].offset);
        if (!sim_json_get_double(object, path, fields[i].key, fields[i].min, fields[i].max, value,
                                 error))
            return false;
    }
    return true;
}

static bool check_source(const cJSON *object, const char *path, GError **error)
{
    const char *source;
    if (!sim_json_get_string(object, path, "source", &source, error))
        return false;
    if (*source)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                "%s.source: expected where the values are from, found nothing", path);
    return false;
}

static bool read_gemm(SimKernelConstants *constants, const cJSON *json, const char *path,
                      GError **error)
{
    static const char *const keys[] = {
        "start_us",   "efficiency", "tile_intensity", "depth",  "memory_fraction",
        "split_cost", "power_drop", "power_flops",    "source", NULL};
    const cJSON *object;
    g_autofree char *inner = g_strdup_printf("%s.gemm", path);
    return sim_json_get_object(json, path, "gemm", &object, error) &&
           sim_json_check_keys(object, inner, keys, error) && check_source(object, inner, error) &&
           read_fields(object, inner, gemm_fields, G_N_ELEMENTS(gemm_fields), &constants->gemm,
                       error);
}

static bool read_traffic(SimKernelConstants *constants, const cJSON *json, const char *path,
                         GError **error)
{
    const cJSON *object;
    g_autofree char *inner = g_strdup_printf("%s.traffic", path);
    if (!sim_json_get_object(json, path, "traffic", &object, error) ||
        !sim_json_check_keys(object, inner, traffic_names, error))
        return false;
    for (unsigned i = 0; i < SIM_TRAFFIC_COUNT; i++) {
        if (!sim_sourced_value_get_number(object, inner, traffic_names[i], 0.01, 1,
                                          &constants->traffic[i], error))
            return false;
    }
    return true;
}

/* "forward" or "backward", "causal" or "full". */
static bool read_choice(const cJSON *row, const char *path, const char *key, const char *no,
                        const char *yes, bool *out, GError **error)
{
    const char *text;
    if (!sim_json_get_string(row, path, key, &text, error))
        return false;
    *out = g_str_equal(text, yes);
    if (*out || g_str_equal(text, no))
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.%s: expected '%s' or '%s', found '%s'",
                path, key, no, yes, text);
    return false;
}

static bool read_efficiency(SimAttentionConstants *out, const cJSON *row, const char *path,
                            GError **error)
{
    const cJSON *array;
    if (!sim_json_get_array(row, path, "efficiency", &array, error))
        return false;
    int n = cJSON_GetArraySize(array);
    for (int i = 0; i < SIM_ATTENTION_HEAD_DIMS; i++) {
        const cJSON *item = cJSON_GetArrayItem(array, i);
        double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
        if (n != SIM_ATTENTION_HEAD_DIMS || !(value > 0 && value <= 2)) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                        "%s.efficiency: expected %d fractions above 0 (head dimensions up to 96, "
                        "up to 160, above)",
                        path, SIM_ATTENTION_HEAD_DIMS);
            return false;
        }
        out->efficiency[i] = value;
    }
    return true;
}

static bool read_attention_row(SimAttentionConstants *out, const cJSON *row, const char *path,
                               GError **error)
{
    static const char *const keys[] = {"kernel",   "direction",   "mask",       "start_us",
                                       "seq_half", "block_waves", "efficiency", "memory_fraction",
                                       "source",   NULL};
    const char *kernel;
    if (!sim_json_check_keys(row, path, keys, error) ||
        !sim_json_get_string(row, path, "kernel", &kernel, error) ||
        !read_choice(row, path, "direction", "forward", "backward", &out->is_backward, error) ||
        !read_choice(row, path, "mask", "full", "causal", &out->is_causal, error) ||
        !read_fields(row, path, attention_fields, G_N_ELEMENTS(attention_fields), out, error) ||
        !read_efficiency(out, row, path, error) || !check_source(row, path, error))
        return false;
    out->kernel = g_strdup(kernel);
    return true;
}

static bool read_attention(SimKernelConstants *constants, const cJSON *json, const char *path,
                           GError **error)
{
    const cJSON *rows, *row;
    if (!sim_json_get_array(json, path, "attention", &rows, error))
        return false;
    int n = cJSON_GetArraySize(rows);
    if (n < 1 || n > MOST_ATTENTION_ROWS) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s.attention: expected 1 to %d rows, found %d", path, MOST_ATTENTION_ROWS, n);
        return false;
    }
    constants->attention = g_new0(SimAttentionConstants, (size_t)n);
    cJSON_ArrayForEach(row, rows)
    {
        g_autofree char *inner = g_strdup_printf("%s.attention[%zu]", path, constants->n_attention);
        if (!read_attention_row(&constants->attention[constants->n_attention], row, inner, error))
            return false;
        constants->n_attention++;
    }
    return true;
}

SimKernelConstants *sim_kernel_constants_load(const char *models, const char *name, GError **error)
{
    static const char *const keys[] = {"schema",          "basis",   "boost",     "gemm",
                                       "weight_gradient", "traffic", "attention", NULL};
    g_autofree char *origin = NULL;
    g_autoptr(cJSON) json = sim_sourced_value_load(models, "kernels", name, &origin, error);
    if (!json)
        return NULL;
    g_autofree char *path = g_strconcat(origin, ": $", NULL);
    g_autoptr(SimKernelConstants) constants = g_new0(SimKernelConstants, 1);
    if (!sim_json_check_keys(json, path, keys, error) ||
        !sim_sourced_value_check_schema(json, path, SCHEMA, error) ||
        !sim_basis_get(json, path, &constants->basis, error) ||
        !sim_sourced_value_get_number(json, path, "boost", 1, 2, &constants->boost, error) ||
        !sim_sourced_value_get_number(json, path, "weight_gradient", 0.1, 1,
                                      &constants->weight_gradient, error) ||
        !read_gemm(constants, json, path, error) || !read_traffic(constants, json, path, error) ||
        !read_attention(constants, json, path, error))
        return NULL;
    return g_steal_pointer(&constants);
}

void sim_kernel_constants_free(SimKernelConstants *constants)
{
    if (!constants)
        return;
    /* A row that could not be read is not counted, and has no name yet. */
    for (size_t i = 0; i < constants->n_attention; i++)
        g_free(constants->attention[i].kernel);
    g_free(constants->attention);
    g_free(constants);
}

const SimAttentionConstants *
sim_kernel_constants_find_attention(const SimKernelConstants *constants, const char *kernel,
                                    bool is_backward, bool is_causal)
{
    const SimAttentionConstants *other_mask = NULL;
    const char *wanted = kernel ? kernel : constants->attention[0].kernel;
    for (size_t i = 0; i < constants->n_attention; i++) {
        const SimAttentionConstants *row = &constants->attention[i];
        if (row->is_backward != is_backward || !g_str_equal(row->kernel, wanted))
            continue;
        if (row->is_causal == is_causal)
            return row;
        other_mask = row;
    }
    return other_mask;
}
