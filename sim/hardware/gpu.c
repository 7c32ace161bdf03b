/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/gpu.h"

#include "base/error.h"
#include "base/json.h"
#include "hardware/sourced_value.h"

#define SCHEMA "fsdpsim.gpu/1"
#define LARGEST_RATE 1e18 /* FLOP/s: a thousand times today's */

static const char *const precision_names[] = {"f32", "tf32", "bf16", "f16", "f8", NULL};

SimPrecision sim_gpu_precision(SimDtype dtype)
{
    switch (dtype) {
    case SIM_DTYPE_BF16:
        return SIM_PRECISION_BF16;
    case SIM_DTYPE_F16:
        return SIM_PRECISION_F16;
    case SIM_DTYPE_F8:
        return SIM_PRECISION_F8;
    default:
        return SIM_PRECISION_F32;
    }
}

/* Which precisions there are is up to the GPU. */
static bool read_peaks(SimGpu *gpu, const cJSON *object, const char *path, GError **error)
{
    const cJSON *peaks;
    if (!sim_json_get_object(object, path, "flops_per_s", &peaks, error))
        return false;
    g_autofree char *inner = g_strdup_printf("%s.flops_per_s", path);
    if (!sim_json_check_keys(peaks, inner, precision_names, error))
        return false;
    for (unsigned i = 0; i < SIM_PRECISION_COUNT; i++) {
        if (sim_json_has(peaks, precision_names[i]) &&
            !sim_sourced_value_get_number(peaks, inner, precision_names[i], 1, LARGEST_RATE,
                                          &gpu->flops_per_s[i], error))
            return false;
    }
    if (gpu->flops_per_s[SIM_PRECISION_F32] > 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.f32: expected the peak, found nothing",
                inner);
    return false;
}

static bool read_fraction(const cJSON *row, const char *path, const SimGpuFraction *before,
                          SimGpuFraction *out, GError **error)
{
    const cJSON *flops = cJSON_GetArrayItem(row, 0);
    const cJSON *fraction = cJSON_GetArrayItem(row, 1);
    if (!cJSON_IsArray(row) || cJSON_GetArraySize(row) != 2 || !cJSON_IsNumber(flops) ||
        !cJSON_IsNumber(fraction)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected [FLOPs, fraction]", path);
        return false;
    }
    *out = (SimGpuFraction){flops->valuedouble, fraction->valuedouble};
    double least = before ? before->flops : 0;
    if (!(out->flops > least) || !(out->fraction > 0 && out->fraction <= 1)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s: expected more FLOPs than the row before and a fraction in (0, 1], found "
                    "[%g, %g]",
                    path, out->flops, out->fraction);
        return false;
    }
    return true;
}

static bool read_matrix_product(SimGpu *gpu, const cJSON *object, const char *path, GError **error)
{
    const cJSON *rows;
    if (!sim_sourced_value_get_array(object, path, "matrix_product", &rows, error))
        return false;
    int n = cJSON_GetArraySize(rows);
    if (n < 1 || n > SIM_GPU_MAX_FRACTIONS) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s.matrix_product.value: expected 1 to %d rows, found %d", path,
                    SIM_GPU_MAX_FRACTIONS, n);
        return false;
    }
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        SimGpuFraction *out = &gpu->matrix_product[gpu->n_matrix_product];
        g_autofree char *inner =
            g_strdup_printf("%s.matrix_product.value[%zu]", path, gpu->n_matrix_product);
        if (!read_fraction(row, inner, gpu->n_matrix_product ? out - 1 : NULL, out, error))
            return false;
        gpu->n_matrix_product++;
    }
    return true;
}

static bool read_memory(SimGpu *gpu, const cJSON *object, const char *path, GError **error)
{
    if (!sim_sourced_value_get_bytes(object, path, "memory", &gpu->memory_bytes, error) ||
        !sim_sourced_value_get_bytes(object, path, "context", &gpu->context_bytes, error) ||
        !sim_sourced_value_get_rate(object, path, "hbm", &gpu->hbm_bytes_per_s, error) ||
        !sim_sourced_value_get_rate(object, path, "pcie", &gpu->pcie_bytes_per_s, error) ||
        !sim_sourced_value_get_number(object, path, "memory_fraction", 0.01, 1,
                                      &gpu->memory_fraction, error))
        return false;
    if (gpu->context_bytes < gpu->memory_bytes)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s.context.value: expected less than the memory of %" G_GUINT64_FORMAT
                " bytes, found %" G_GUINT64_FORMAT,
                path, gpu->memory_bytes, gpu->context_bytes);
    return false;
}

static bool read_rest(SimGpu *gpu, const cJSON *object, const char *path, GError **error)
{
    const char *title;
    int64_t sms, capability;
    if (!sim_json_get_string(object, path, "title", &title, error) ||
        !sim_basis_get(object, path, &gpu->basis, error) ||
        !sim_sourced_value_get_count(object, path, "compute_capability", 10, 1000, &capability,
                                     error) ||
        !sim_sourced_value_get_count(object, path, "sms", 1, 100000, &sms, error) ||
        !sim_sourced_value_get_number(object, path, "attention_forward_fraction", 0.001, 1,
                                      &gpu->attention_forward_fraction, error) ||
        !sim_sourced_value_get_number(object, path, "attention_backward_fraction", 0.001, 1,
                                      &gpu->attention_backward_fraction, error) ||
        !sim_sourced_value_get_duration(object, path, "launch", &gpu->launch_time, error) ||
        !sim_sourced_value_get_duration(object, path, "kernel", &gpu->kernel_time, error))
        return false;
    gpu->title = g_strdup(title);
    gpu->compute_capability = (uint32_t)capability;
    gpu->sms = (uint32_t)sms;
    return true;
}

static bool read_kernels(SimGpu *gpu, const cJSON *object, const char *path, const char *models,
                         GError **error)
{
    const char *name;
    if (!sim_json_get_string(object, path, "kernels", &name, error))
        return false;
    gpu->sustained_clock = 1;
    if (cJSON_HasObjectItem(object, "sustained_clock") &&
        !sim_sourced_value_get_number(object, path, "sustained_clock", 0.1, 1,
                                      &gpu->sustained_clock, error))
        return false;
    gpu->kernels = sim_kernel_constants_load(models, name, error);
    if (gpu->kernels)
        return true;
    g_prefix_error(error, "%s.kernels: ", path);
    return false;
}

SimGpu *sim_gpu_load(const char *models, const char *name, GError **error)
{
    static const char *const keys[] = {"schema",
                                       "title",
                                       "basis",
                                       "memory",
                                       "context",
                                       "hbm",
                                       "pcie",
                                       "compute_capability",
                                       "sms",
                                       "flops_per_s",
                                       "memory_fraction",
                                       "matrix_product",
                                       "attention_forward_fraction",
                                       "attention_backward_fraction",
                                       "launch",
                                       "kernel",
                                       "kernels",
                                       "sustained_clock",
                                       NULL};
    g_autofree char *origin = NULL;
    g_autoptr(cJSON) json = sim_sourced_value_load(models, "gpus", name, &origin, error);
    if (!json)
        return NULL;
    g_autofree char *path = g_strconcat(origin, ": $", NULL);
    g_autoptr(SimGpu) gpu = g_new0(SimGpu, 1);
    gpu->name = g_strdup(name);
    if (!sim_json_check_keys(json, path, keys, error) ||
        !sim_sourced_value_check_schema(json, path, SCHEMA, error) ||
        !read_memory(gpu, json, path, error) || !read_peaks(gpu, json, path, error) ||
        !read_matrix_product(gpu, json, path, error) || !read_rest(gpu, json, path, error) ||
        !read_kernels(gpu, json, path, models, error))
        return NULL;
    return g_steal_pointer(&gpu);
}

void sim_gpu_free(SimGpu *gpu)
{
    if (!gpu)
        return;
    g_free(gpu->name);
    g_free(gpu->title);
    sim_kernel_constants_free(gpu->kernels);
    g_free(gpu);
}
