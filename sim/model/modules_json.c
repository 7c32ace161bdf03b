/* SPDX-License-Identifier: Apache-2.0 */
#include "model/modules_json.h"

#include <string.h>

#include "base/error.h"
#include "model/forward.h"
#include "model/module_tree.h"
#include "model/modules_calls.h"
#include "model/modules_check.h"
#include "model/modules_opaque.h"

#define SCHEMA "fsdpsim.modules/1"

typedef struct Reader {
    SimModel *model;
    const char *file;
    GPtrArray *entries; /* by module: of const cJSON *, or NULL where the file has none */
    GArray *numbers;    /* by module: of uint32_t, place in the file's list */
} Reader;

static bool fail(GError **error, SimError code, const char *where, const char *expected,
                 const char *found)
{
    g_autofree char *quoted = sim_error_quote(found);
    g_set_error(error, SIM_ERROR, (int)code, "%s: expected %s, found %s", where, expected, quoted);
    return false;
}

bool sim_modules_json_is_tree(const cJSON *json)
{
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(json, "schema");
    return cJSON_IsString(schema) && g_str_has_prefix(schema->valuestring, "fsdpsim.modules/");
}

/* --- modules and parameters ---------------------------------------------------------------------
 */

static bool read_parameter(const Reader *reader, uint32_t module, const cJSON *item,
                           const char *where, GError **error)
{
    static const char *const KEYS[] = {"name", "shape", NULL};
    const char *name;
    const cJSON *list;
    if (!sim_json_check_keys(item, where, KEYS, error) ||
        !sim_json_get_string(item, where, "name", &name, error) ||
        !sim_json_get_array(item, where, "shape", &list, error))
        return false;
    const SimModule *owner = sim_model_module(reader->model, module);
    for (uint32_t i = 0; i < owner->n_parameters; i++)
        if (strcmp(sim_model_parameter(reader->model, owner->first_parameter + i)->path +
                       (owner->path[0] == '\0' ? 0 : strlen(owner->path) + 1),
                   name) == 0)
            return fail(error, SIM_ERROR_SCHEMA, where, "a name that stands once", name);
    int64_t dims[SIM_SHAPE_MAX_DIMS];
    uint32_t n_dims;
    g_autofree char *place = g_strdup_printf("%s.shape", where);
    if (!sim_modules_calls_read_dims(list, place, false, dims, &n_dims, error))
        return false;
    SimShape shape = {.n_dims = n_dims};
    for (uint32_t i = 0; i < n_dims; i++) {
        shape.dims[i] = (uint64_t)dims[i];
        if (dims[i] < 0) {
            g_autofree char *text = cJSON_PrintUnformatted(list);
            return fail(error, SIM_ERROR_RANGE, place, "numbers", text);
        }
    }
    sim_module_tree_add_shaped(reader->model, module, name, &shape);
    return true;
}

/* The module of PATH, with containers that the file leaves out. They must come in the order of
 * named_modules: PATH's parent has no younger relative that is closed already. */
static uint32_t add_module(const Reader *reader, const char *path, const char *where,
                           GError **error)
{
    SimModel *model = reader->model;
    g_auto(GStrv) parts = g_strsplit(path, ".", -1);
    g_autoptr(GString) prefix = g_string_new(NULL);
    uint32_t module = 0;
    for (size_t i = 0; parts[i] != NULL; i++) {
        g_string_append_printf(prefix, "%s%s", i > 0 ? "." : "", parts[i]);
        uint32_t known = sim_model_find_module(model, prefix->str);
        bool is_last = parts[i + 1] == NULL;
        bool is_open = known == SIM_MODEL_NONE
                           ? sim_model_is_below(model, model->modules->len - 1, module)
                           : !is_last;
        if (*parts[i] == '\0' || !is_open) {
            fail(error, SIM_ERROR_SCHEMA, where,
                 "a module path, each once, in the order of named_modules", path);
            return SIM_MODEL_NONE;
        }
        if (known == SIM_MODEL_NONE) {
            module = sim_module_tree_add(model, module, parts[i]);
            g_ptr_array_add(reader->entries, NULL);
        } else {
            module = known;
        }
    }
    return module;
}

static bool read_module(const Reader *reader, const cJSON *entry, uint32_t number, GError **error)
{
    static const char *const KEYS[] = {"path",  "parameters",    "inputs", "outputs",
                                       "calls", "output_shapes", NULL};
    const char *path;
    g_autofree char *where = g_strdup_printf("%s: modules[%u]", reader->file, number);
    if (!sim_json_check_keys(entry, where, KEYS, error) ||
        !sim_json_get_string(entry, where, "path", &path, error))
        return false;
    if (*path == '\0' && number > 0)
        return fail(error, SIM_ERROR_SCHEMA, where, "the root, path \"\", to be the first", "");
    g_autofree char *place = g_strdup_printf("%s.path", where);
    uint32_t module = *path == '\0' ? 0 : add_module(reader, path, place, error);
    if (module == SIM_MODEL_NONE)
        return false;
    g_ptr_array_index(reader->entries, module) = (gpointer)entry;
    g_array_set_size(reader->numbers, reader->entries->len);
    g_array_index(reader->numbers, uint32_t, module) = number;
    const cJSON *list = NULL;
    if (sim_json_has(entry, "parameters") &&
        !sim_json_get_array(entry, where, "parameters", &list, error))
        return false;
    uint32_t n = 0;
    for (const cJSON *item = list != NULL ? list->child : NULL; item != NULL; item = item->next) {
        g_autofree char *at = g_strdup_printf("%s.parameters[%u]", where, n++);
        if (!read_parameter(reader, module, item, at, error))
            return false;
    }
    return true;
}

static bool read_tied(const Reader *reader, const cJSON *json, GError **error)
{
    const cJSON *list;
    if (!sim_json_has(json, "tied"))
        return true;
    if (!sim_json_get_array(json, reader->file, "tied", &list, error))
        return false;
    uint32_t n = 0;
    for (const cJSON *pair = list->child; pair != NULL; pair = pair->next, n++) {
        uint32_t found[2] = {SIM_MODEL_NONE, SIM_MODEL_NONE};
        for (uint32_t side = 0; side < 2; side++) {
            const cJSON *name = cJSON_GetArrayItem(pair, (int)side);
            for (uint32_t i = 0; cJSON_IsString(name) && i < reader->model->parameters->len; i++)
                if (strcmp(sim_model_parameter(reader->model, i)->path, name->valuestring) == 0)
                    found[side] = i;
        }
        uint32_t first = MIN(found[0], found[1]), last = MAX(found[0], found[1]);
        if (cJSON_GetArraySize(pair) != 2 || last == SIM_MODEL_NONE || first == last ||
            sim_model_parameter(reader->model, first)->elements !=
                sim_model_parameter(reader->model, last)->elements ||
            sim_model_parameter(reader->model, first)->tied_to != SIM_MODEL_NONE) {
            g_autofree char *where = g_strdup_printf("%s: tied[%u]", reader->file, n);
            g_autofree char *text = cJSON_PrintUnformatted(pair);
            return fail(error, SIM_ERROR_SCHEMA, where, "two parameters of one shape", text);
        }
        sim_module_tree_tie(reader->model, last, first);
    }
    return true;
}

/* --- inputs, buffers ----------------------------------------------------------------------------
 */

static bool read_tensor(const cJSON *item, const char *where, SimModelBuffer *tensor,
                        GError **error)
{
    static const char *const KEYS[] = {"name", "shape", "dtype", NULL};
    const char *name, *dtype;
    const cJSON *shape;
    g_autofree char *in_dtype = g_strdup_printf("%s.dtype", where);
    g_autofree char *in_shape = g_strdup_printf("%s.shape", where);
    if (!sim_json_check_keys(item, where, KEYS, error) ||
        !sim_json_get_string(item, where, "name", &name, error) ||
        !sim_json_get_string(item, where, "dtype", &dtype, error) ||
        !sim_dtype_parse(dtype, in_dtype, &tensor->dtype, error) ||
        !sim_json_get_array(item, where, "shape", &shape, error) ||
        !sim_modules_calls_read_dims(shape, in_shape, false, tensor->dims, &tensor->n_dims, error))
        return false;
    if (tensor->dtype == SIM_DTYPE_NONE)
        return fail(error, SIM_ERROR_SCHEMA, in_dtype, "a type", dtype);
    tensor->name = g_intern_string(name);
    return true;
}

static bool read_input(const Reader *reader, const cJSON *json, GError **error)
{
    const cJSON *list;
    if (!sim_json_get_array(json, reader->file, "inputs", &list, error))
        return false;
    const cJSON *item = list->child;
    SimModelBuffer *ids = &g_array_index(reader->model->buffers, SimModelBuffer, 0);
    g_autofree char *where = g_strdup_printf("%s: inputs[0]", reader->file);
    if (cJSON_GetArraySize(list) != 1 || !(cJSON_IsString(item) || cJSON_IsObject(item))) {
        g_autofree char *text = cJSON_PrintUnformatted(list);
        return fail(error, SIM_ERROR_SCHEMA, where, "one input", text);
    }
    return cJSON_IsString(item) || read_tensor(item, where, ids, error);
}

static bool read_buffers(const Reader *reader, const cJSON *json, GError **error)
{
    const cJSON *list;
    uint32_t n = 0;
    if (!sim_json_has(json, "buffers"))
        return true;
    if (!sim_json_get_array(json, reader->file, "buffers", &list, error))
        return false;
    for (const cJSON *item = list->child; item != NULL; item = item->next) {
        SimModelBuffer buffer = {.is_input = false};
        g_autofree char *where = g_strdup_printf("%s: buffers[%u]", reader->file, n++);
        if (!read_tensor(item, where, &buffer, error))
            return false;
        g_array_append_val(reader->model->buffers, buffer);
    }
    return true;
}

/* --- forwards -----------------------------------------------------------------------------------
 */

static const cJSON *get_calls(const cJSON *entry)
{
    return entry == NULL ? NULL : cJSON_GetObjectItemCaseSensitive(entry, "calls");
}

/* By module: does a call name it? */
static bool *find_called(const Reader *reader)
{
    bool *is_called = g_new0(bool, reader->model->modules->len);
    is_called[0] = true;
    for (guint i = 0; i < reader->entries->len; i++) {
        const cJSON *calls = get_calls(g_ptr_array_index(reader->entries, i));
        for (const cJSON *call = calls != NULL ? calls->child : NULL; call != NULL;
             call = call->next) {
            const cJSON *path = cJSON_GetObjectItemCaseSensitive(call, "module");
            uint32_t module = cJSON_IsString(path)
                                  ? sim_model_find_module(reader->model, path->valuestring)
                                  : SIM_MODEL_NONE;
            if (module != SIM_MODEL_NONE)
                is_called[module] = true;
        }
    }
    return is_called;
}

/* From the last to the first: who is called comes before who calls. */
static bool read_forwards(const Reader *reader, GError **error)
{
    g_autofree bool *is_called = find_called(reader);
    for (uint32_t module = reader->model->modules->len; module-- > 0;) {
        const cJSON *entry = g_ptr_array_index(reader->entries, module);
        g_autofree char *where =
            g_strdup_printf("%s: modules[%u]", reader->file,
                            entry == NULL ? 0 : g_array_index(reader->numbers, uint32_t, module));
        if (get_calls(entry) != NULL) {
            if (sim_json_has(entry, "output_shapes"))
                return fail(error, SIM_ERROR_SCHEMA, where,
                            "output_shapes only where there are no calls", "both");
            if (!sim_modules_calls_read(reader->model, module, entry, where, error))
                return false;
        } else if (is_called[module] &&
                   !sim_modules_opaque_make(reader->model, module, entry, where, error)) {
            return false;
        }
    }
    const SimProgram *root = sim_model_module(reader->model, 0)->forward;
    if (root->n_arguments == 1 && root->n_results == 1)
        return true;
    g_autofree char *found = g_strdup_printf("%u and %u", root->n_arguments, root->n_results);
    return fail(error, SIM_ERROR_UNSUPPORTED, reader->file,
                "the root to take one input and return one output", found);
}

/* --- loss, blocks -------------------------------------------------------------------------------
 */

/* result.sum() or .mean() */
static SimProgram *write_reduction(SimOperator operator_)
{
    SimProgram *program = sim_program_new(1);
    int64_t flat = SIM_DIM_REST;
    SimAttributes whole = {.dim = 0};
    SimSlot rows = sim_forward_view(program, 0, 1, &flat);
    SimSlot loss = sim_program_call(program, operator_, &whole, 1, &rows);
    sim_program_set_flags(program, SIM_PROGRAM_LOSS);
    sim_program_finish(program, 1, &loss);
    return program;
}

/* cross_entropy(result.float().flatten(0, -2), labels.flatten()) */
static SimProgram *write_cross_entropy(uint64_t classes)
{
    SimProgram *program = sim_program_new(1);
    int64_t dims[] = {SIM_DIM_REST, (int64_t)classes};
    SimSlot wide = sim_forward_cast(program, 0, SIM_DTYPE_F32);
    sim_program_set_flags(program, SIM_PROGRAM_LOGITS);
    SimSlot flat = sim_forward_view(program, wide, 2, dims);
    SimSlot labels = sim_forward_view(program, SIM_SLOT_BUFFER(0), 1, dims);
    SimSlot loss = sim_forward_cross_entropy(program, flat, labels);
    sim_program_finish(program, 1, &loss);
    return program;
}

static bool read_loss(const Reader *reader, const cJSON *json, uint64_t batch, uint64_t sequence,
                      GError **error)
{
    static const char *const LOSSES[] = {"cross_entropy", "sum", "mean", "none", NULL};
    const char *loss = LOSSES[0];
    SimModel *model = reader->model;
    if (sim_json_has(json, "loss") &&
        !sim_json_get_string(json, reader->file, "loss", &loss, error))
        return false;
    if (!g_strv_contains(LOSSES, loss)) {
        g_autofree char *where = g_strdup_printf("%s: loss", reader->file);
        sim_error_set_unknown(error, where, "loss", loss, LOSSES);
        return false;
    }
    SimShape result;
    if (!sim_modules_check_shapes(model, reader->file, batch, sequence, &result, error))
        return false;
    uint64_t elements = sim_shape_elements(&result);
    uint64_t classes = result.n_dims > 0 ? result.dims[result.n_dims - 1] : 1;
    bool is_logits = result.n_dims >= 2 && elements / classes == batch * sequence &&
                     g_array_index(model->buffers, SimModelBuffer, 0).dtype == SIM_DTYPE_I64;
    bool fits = strcmp(loss, "none") == 0            ? elements == 1
                : strcmp(loss, "cross_entropy") == 0 ? is_logits
                                                     : true;
    if (!fits) {
        g_autofree char *where = g_strdup_printf("%s: loss: %s", reader->file, loss);
        g_autofree char *shape = sim_shape_print(&result);
        return fail(error, SIM_ERROR_RANGE, where,
                    elements == 1 || strcmp(loss, "none") != 0
                        ? "logits of batch x sequence tokens from the root, or \"loss\": \"sum\""
                        : "a scalar from the root",
                    shape);
    }
    if (strcmp(loss, "none") != 0)
        model->loss = sim_module_tree_own(model, strcmp(loss, "cross_entropy") == 0
                                                     ? write_cross_entropy(classes)
                                                     : write_reduction(strcmp(loss, "sum") == 0
                                                                           ? SIM_OPERATOR_SUM_DIM
                                                                           : SIM_OPERATOR_MEAN));
    return true;
}

static bool is_number(const char *path)
{
    const char *dot = strrchr(path, '.');
    const char *name = dot != NULL ? dot + 1 : path;
    return *name != '\0' && strspn(name, "0123456789") == strlen(name);
}

/* Members of lists, but not of lists inside of them. */
static void find_blocks(SimModel *model)
{
    for (uint32_t i = 1; i < model->modules->len; i++) {
        const SimModule *module = sim_model_module(model, i);
        bool is_inside = false;
        for (guint j = 0; j < model->blocks->len; j++)
            is_inside = is_inside ||
                        sim_model_is_below(model, i, g_array_index(model->blocks, uint32_t, j));
        if (is_number(module->path) && !is_inside && module->forward != NULL)
            g_array_append_val(model->blocks, i);
    }
}

/* Ids below the rows of the first table that tokens index. */
static void find_vocabulary(SimModel *model)
{
    for (uint32_t i = model->modules->len; i-- > 0;) {
        const SimModule *module = sim_model_module(model, i);
        for (guint j = 0; module->forward != NULL && j < module->forward->calls->len; j++) {
            const SimProgramCall *call = &g_array_index(module->forward->calls, SimProgramCall, j);
            if (!call->is_module && call->operator_ == SIM_OPERATOR_EMBEDDING &&
                SIM_SLOT_IS_PARAMETER(call->inputs[0]))
                model->figures.vocabulary =
                    sim_model_parameter(model,
                                        module->first_parameter + SIM_SLOT_INDEX(call->inputs[0]))
                        ->shape.dims[0];
        }
    }
}

static bool read_tree(const Reader *reader, const cJSON *json, GError **error)
{
    const cJSON *modules;
    uint32_t n = 0;
    if (!read_input(reader, json, error) || !read_buffers(reader, json, error) ||
        !sim_json_get_array(json, reader->file, "modules", &modules, error))
        return false;
    for (const cJSON *entry = modules->child; entry != NULL; entry = entry->next)
        if (!read_module(reader, entry, n++, error))
            return false;
    g_array_set_size(reader->numbers, reader->entries->len);
    if (reader->model->parameters->len == 0)
        return fail(error, SIM_ERROR_SCHEMA, reader->file, "a module with parameters", "none");
    return read_tied(reader, json, error) && read_forwards(reader, error);
}

SimModel *sim_modules_json_read(const cJSON *json, const char *file, uint64_t batch,
                                uint64_t sequence, GError **error)
{
    static const char *const KEYS[] = {"schema",  "name", "inputs",  "loss",
                                       "buffers", "tied", "modules", NULL};
    const char *schema, *name;
    if (!sim_json_check_keys(json, file, KEYS, error) ||
        !sim_json_get_string(json, file, "schema", &schema, error) ||
        !sim_json_get_string(json, file, "name", &name, error))
        return NULL;
    if (strcmp(schema, SCHEMA) != 0) {
        g_autofree char *where = g_strdup_printf("%s: schema", file);
        fail(error, SIM_ERROR_SCHEMA, where, SCHEMA, schema);
        return NULL;
    }
    g_autoptr(SimModel) model = sim_module_tree_new(name, "module tree");
    g_autoptr(GPtrArray) entries = g_ptr_array_new();
    g_autoptr(GArray) numbers = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    g_ptr_array_add(entries, NULL);
    Reader reader = {model, file, entries, numbers};
    if (!read_tree(&reader, json, error) || !read_loss(&reader, json, batch, sequence, error))
        return NULL;
    find_blocks(model);
    find_vocabulary(model);
    model->config_parameters = sim_model_elements(model);
    return g_steal_pointer(&model);
}
