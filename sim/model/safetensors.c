/* SPDX-License-Identifier: Apache-2.0 */
#include "model/safetensors.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define LENGTH_BYTES 8
#define MAX_HEADER_BYTES UINT64_C(100000000) /* as the reference implementation has it */

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {{"BF16", 2}, {"F16", 2},     {"F32", 4}, {"F64", 8}, {"F8_E4M3", 1},
             {"U8", 1},   {"F8_E5M2", 1}, {"I8", 1},  {"I16", 2}, {"I32", 4},
             {"I64", 8},  {"BOOL", 1},    {"U16", 2}, {"U32", 4}, {"U64", 8}};

static void clear_tensor(gpointer tensor)
{
    g_free(((SimSafetensor *)tensor)->name);
    g_free(((SimSafetensor *)tensor)->file);
}

void sim_safetensors_free(SimSafetensors *tensors)
{
    if (tensors == NULL)
        return;
    g_free(tensors->folder);
    g_array_unref(tensors->tensors);
    g_hash_table_unref(tensors->index);
    g_free(tensors);
}

const SimSafetensor *sim_safetensors_find(const SimSafetensors *tensors, const char *name)
{
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(tensors->index, name));
    return number > 0 ? &g_array_index(tensors->tensors, SimSafetensor, number - 1) : NULL;
}

static bool read_type(const cJSON *json, const char *path, SimSafetensor *tensor, GError **error)
{
    const char *name = NULL, *known[G_N_ELEMENTS(types) + 1] = {NULL};
    if (!sim_json_get_string(json, path, "dtype", &name, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            tensor->element_bytes = types[i].bytes;
            return true;
        }
        known[i] = types[i].name;
    }
    g_autofree char *where = g_strconcat(path, ".dtype", NULL);
    sim_error_set_unknown(error, where, "element type", name, known);
    return false;
}

/* A number of JSON that is a whole one up to 2^53. */
static bool is_whole(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 &&
           item->valuedouble <= 9007199254740992.0 &&
           item->valuedouble == (double)(uint64_t)item->valuedouble;
}

static bool read_shape(const cJSON *json, const char *path, SimSafetensor *tensor, GError **error)
{
    const cJSON *list = NULL, *item = NULL;
    if (!sim_json_get_array(json, path, "shape", &list, error))
        return false;
    tensor->elements = 1;
    for (item = list->child; item != NULL; item = item->next) {
        uint64_t dim = is_whole(item) ? (uint64_t)item->valuedouble : 0;
        bool fits = is_whole(item) && tensor->shape.n_dims < SIM_SHAPE_MAX_DIMS &&
                    (dim == 0 || tensor->elements <= (UINT64_C(1) << 53) / dim);
        if (!fits) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                        "%s.shape: expected at most %d whole numbers and 2^53 elements", path,
                        SIM_SHAPE_MAX_DIMS);
            return false;
        }
        tensor->shape.dims[tensor->shape.n_dims++] = dim;
        tensor->elements *= dim;
    }
    return true;
}

/* *END: where its data end. */
static bool read_tensor(const cJSON *json, const char *path, SimSafetensor *tensor, uint64_t *end,
                        GError **error)
{
    const cJSON *offsets = NULL;
    if (!cJSON_IsObject(json)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected an object", path);
        return false;
    }
    if (!read_type(json, path, tensor, error) || !read_shape(json, path, tensor, error) ||
        !sim_json_get_array(json, path, "data_offsets", &offsets, error))
        return false;
    const cJSON *first = cJSON_GetArrayItem(offsets, 0), *last = cJSON_GetArrayItem(offsets, 1);
    uint64_t bytes = tensor->elements * tensor->element_bytes;
    bool is_pair = cJSON_GetArraySize(offsets) == 2 && is_whole(first) && is_whole(last) &&
                   first->valuedouble <= last->valuedouble;
    if (!is_pair || (uint64_t)last->valuedouble - (uint64_t)first->valuedouble != bytes) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "%s.data_offsets: expected the begin and end of %" G_GUINT64_FORMAT
                    " bytes, as dtype and shape say",
                    path, bytes);
        return false;
    }
    *end = (uint64_t)last->valuedouble;
    return true;
}

static bool add_tensors(SimSafetensors *tensors, const cJSON *header, const char *file,
                        uint64_t data_bytes, GError **error)
{
    uint64_t most = 0;
    const cJSON *item = NULL;
    for (item = header->child; item != NULL; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0)
            continue;
        uint64_t end = 0;
        SimSafetensor tensor = {0};
        g_autofree char *path = g_strdup_printf("%s/%s: %s", tensors->folder, file, item->string);
        if (sim_safetensors_find(tensors, item->string) != NULL) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: stands twice", path);
            return false;
        }
        if (!read_tensor(item, path, &tensor, &end, error))
            return false;
        most = MAX(most, end);
        tensor.name = g_strdup(item->string);
        tensor.file = g_strdup(file);
        g_array_append_val(tensors->tensors, tensor);
        g_hash_table_insert(tensors->index, tensor.name, GUINT_TO_POINTER(tensors->tensors->len));
    }
    if (data_bytes != 0 && data_bytes != most) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "%s/%s: expected %" G_GUINT64_FORMAT
                    " bytes of data, as its header says, or none, found %" G_GUINT64_FORMAT,
                    tensors->folder, file, most, data_bytes);
        return false;
    }
    return true;
}

/* The header's text, with a zero byte after it, in *TEXT; false with an error. */
static bool read_header(FILE *stream, const char *file, uint64_t file_bytes, char **text,
                        uint64_t *length, GError **error)
{
    guint8 bytes[LENGTH_BYTES] = {0};
    uint64_t claimed = 0;
    bool has_length = fread(bytes, 1, LENGTH_BYTES, stream) == LENGTH_BYTES;
    for (uint32_t i = LENGTH_BYTES; i-- > 0;)
        claimed = claimed << 8 | bytes[i];
    if (!has_length || claimed > MAX_HEADER_BYTES || claimed > file_bytes - LENGTH_BYTES) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "%s: expected a header of at most %" G_GUINT64_FORMAT
                    " bytes, its first 8 bytes say %" G_GUINT64_FORMAT,
                    file, has_length ? file_bytes - LENGTH_BYTES : 0, claimed);
        return false;
    }
    *length = claimed;
    *text = g_malloc0(claimed + 1);
    if (fread(*text, 1, claimed, stream) == claimed)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot be read", file);
    return false;
}

static bool load_file(SimSafetensors *tensors, const char *file, GError **error)
{
    g_autofree char *path = g_build_filename(tensors->folder, file, NULL), *text = NULL;
    uint64_t length = 0;
    GStatBuf status;
    FILE *stream = g_stat(path, &status) == 0 ? g_fopen(path, "rb") : NULL;
    if (stream == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: %s", path, g_strerror(errno));
        return false;
    }
    bool is_read = read_header(stream, path, (uint64_t)status.st_size, &text, &length, error);
    fclose(stream);
    if (!is_read)
        return false;
    g_autoptr(cJSON) header = sim_json_parse(text, length, path, error);
    if (header == NULL)
        return false;
    if (!cJSON_IsObject(header)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected an object as header", path);
        return false;
    }
    return add_tensors(tensors, header, file, (uint64_t)status.st_size - LENGTH_BYTES - length,
                       error);
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each once, sorted. */
static bool load_files(SimSafetensors *tensors, GPtrArray *files, GError **error)
{
    g_ptr_array_sort(files, compare_names);
    for (guint i = 0; i < files->len; i++) {
        bool is_repeat = i > 0 && strcmp(files->pdata[i - 1], files->pdata[i]) == 0;
        if (!is_repeat && !load_file(tensors, files->pdata[i], error))
            return false;
    }
    return true;
}

static bool load_indexed(SimSafetensors *tensors, const char *index, GError **error)
{
    g_autoptr(cJSON) json = sim_json_load(index, error);
    const cJSON *map = NULL, *item = NULL;
    if (json == NULL || !sim_json_get_object(json, index, "weight_map", &map, error))
        return false;
    g_autoptr(GPtrArray) files = g_ptr_array_new();
    for (item = map->child; item != NULL; item = item->next) {
        if (!cJSON_IsString(item) || strchr(item->valuestring, '/') != NULL) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "%s.weight_map.%s: expected the name of a file in the same folder", index,
                        item->string);
            return false;
        }
        g_ptr_array_add(files, item->valuestring);
    }
    if (!load_files(tensors, files, error))
        return false;
    for (item = map->child; item != NULL; item = item->next) {
        const SimSafetensor *tensor = sim_safetensors_find(tensors, item->string);
        if (tensor != NULL && strcmp(tensor->file, item->valuestring) == 0)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "%s.weight_map.%s: expected a tensor of that name in %s, found none", index,
                    item->string, item->valuestring);
        return false;
    }
    return true;
}

static bool load_all(SimSafetensors *tensors, GError **error)
{
    g_autoptr(GDir) folder = g_dir_open(tensors->folder, 0, NULL);
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
    const char *name;
    while (folder != NULL && (name = g_dir_read_name(folder)) != NULL)
        if (g_str_has_suffix(name, ".safetensors"))
            g_ptr_array_add(files, g_strdup(name));
    return load_files(tensors, files, error);
}

SimSafetensors *sim_safetensors_load(const char *folder, GError **error)
{
    g_autoptr(SimSafetensors) tensors = g_new0(SimSafetensors, 1);
    tensors->folder = g_strdup(folder);
    tensors->tensors = g_array_new(FALSE, TRUE, sizeof(SimSafetensor));
    g_array_set_clear_func(tensors->tensors, clear_tensor);
    tensors->index = g_hash_table_new(g_str_hash, g_str_equal);
    g_autofree char *index = g_build_filename(folder, "model.safetensors.index.json", NULL);
    bool is_indexed = g_file_test(index, G_FILE_TEST_EXISTS);
    if (!(is_indexed ? load_indexed(tensors, index, error) : load_all(tensors, error)))
        return NULL;
    return tensors->tensors->len > 0 ? g_steal_pointer(&tensors) : NULL;
}
