/* SPDX-License-Identifier: Apache-2.0 */
#include "model/modules_calls.h"

#include <string.h>

#include "base/error.h"
#include "model/module_tree.h"

/* Attributes that a call may carry; all but SCALAR and START are then required. */
enum {
    SHAPE = 1 << 0,
    DIMS = 1 << 1,
    DIM = 1 << 2,
    PART = 1 << 3, /* start, length */
    LENGTH = 1 << 4,
    DTYPE = 1 << 5,
    SCALAR = 1 << 6,
};

#define MOST_ELEMENTS (UINT64_C(1) << 50)

/* An operator as a file may call it: those that have a gradient of their own or need none. */
typedef struct OperatorRow {
    SimOperator operator_;
    uint8_t min_inputs, max_inputs;
    uint8_t n_outputs; /* of the operator, of which only VISIBLE has a name; SPLIT: all have */
    uint8_t visible;
    uint8_t attributes;
} OperatorRow;

static const OperatorRow OPERATORS[] = {
    {SIM_OPERATOR_LINEAR, 2, 3, 1, 0, 0},
    {SIM_OPERATOR_EMBEDDING, 2, 2, 1, 0, 0},
    {SIM_OPERATOR_LAYER_NORM, 2, 3, 3, 0, SCALAR},
    {SIM_OPERATOR_RMS_NORM, 2, 2, 2, 0, SCALAR},
    {SIM_OPERATOR_ATTENTION, 3, 3, 4, 0, SCALAR},
    {SIM_OPERATOR_BMM, 2, 2, 1, 0, 0},
    {SIM_OPERATOR_SOFTMAX, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_LOG_SOFTMAX, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_SILU, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_GELU, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_TANH, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_RSQRT, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_NEG, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_MEAN, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_ADD, 2, 2, 1, 0, 0},
    {SIM_OPERATOR_MUL, 2, 2, 1, 0, 0},
    {SIM_OPERATOR_ADD_SCALAR, 1, 1, 1, 0, SCALAR},
    {SIM_OPERATOR_MUL_SCALAR, 1, 1, 1, 0, SCALAR},
    {SIM_OPERATOR_POW, 1, 1, 1, 0, SCALAR},
    {SIM_OPERATOR_DROPOUT, 1, 1, 2, 1, SCALAR},
    {SIM_OPERATOR_CAST, 1, 1, 1, 0, DTYPE},
    {SIM_OPERATOR_CLONE, 1, 1, 1, 0, 0},
    {SIM_OPERATOR_VIEW, 1, 1, 1, 0, SHAPE},
    {SIM_OPERATOR_EXPAND, 1, 1, 1, 0, SHAPE},
    {SIM_OPERATOR_TRANSPOSE, 1, 1, 1, 0, DIMS},
    {SIM_OPERATOR_SLICE, 1, 1, 1, 0, DIM | PART},
    {SIM_OPERATOR_SPLIT, 1, 1, 3, 0, DIM | LENGTH},
    {SIM_OPERATOR_CAT, 2, 2, 1, 0, DIM},
    {SIM_OPERATOR_SUM_DIM, 1, 1, 1, 0, DIM},
    {SIM_OPERATOR_ARANGE, 0, 0, 1, 0, SHAPE},
};

typedef struct Reader {
    SimModel *model;
    uint32_t module;
    SimProgram *program;
    GPtrArray *names; /* of char *, by slot: the variable's name; "" once it is deleted */
    const cJSON *results;
} Reader;

static bool fail(GError **error, SimError code, const char *where, const char *expected,
                 const char *found)
{
    g_autofree char *quoted = sim_error_quote(found);
    g_set_error(error, SIM_ERROR, (int)code, "%s: expected %s, found %s", where, expected, quoted);
    return false;
}

bool sim_modules_calls_read_dims(const cJSON *list, const char *where, bool allows_rest,
                                 int64_t *dims, uint32_t *n_dims, GError **error)
{
    uint32_t n = 0, n_rest = 0;
    uint64_t elements = 1;
    const char *expected = allows_rest
                               ? "1 to 5 of: a number of 1 or more, \"batch\", \"sequence\", one -1"
                               : "1 to 5 of: a number of 1 or more, \"batch\", \"sequence\"";
    for (const cJSON *item = list->child; item != NULL; item = item->next) {
        double number = cJSON_IsNumber(item) ? item->valuedouble : 0;
        bool is_rest = allows_rest && number < 0 && number >= -1;
        int64_t dim = 0;
        if (cJSON_IsString(item))
            dim = strcmp(item->valuestring, "batch") == 0      ? SIM_DIM_BATCH
                  : strcmp(item->valuestring, "sequence") == 0 ? SIM_DIM_SEQUENCE
                                                               : 0;
        else if (number >= 1 && number < 4294967296.0 && (double)(int64_t)number >= number)
            dim = (int64_t)number;
        else if (is_rest)
            dim = SIM_DIM_REST;
        n_rest += is_rest;
        bool is_large = dim > 0 && elements > MOST_ELEMENTS / (uint64_t)dim;
        elements *= dim > 0 && !is_large ? (uint64_t)dim : 1;
        if (dim == 0 || is_large || n == SIM_SHAPE_MAX_DIMS || n_rest > 1) {
            g_autofree char *text = cJSON_PrintUnformatted(item);
            g_autofree char *place = g_strdup_printf("%s[%u]", where, n);
            return fail(error, SIM_ERROR_RANGE, place, expected, text);
        }
        dims[n++] = dim;
    }
    *n_dims = n;
    return n > 0 || fail(error, SIM_ERROR_RANGE, where, expected, "[]");
}

/* --- names -------------------------------------------------------------------------------------
 */

static SimSlot find_variable(const Reader *reader, const char *name)
{
    for (guint i = 0; *name != '\0' && i < reader->names->len; i++)
        if (strcmp(g_ptr_array_index(reader->names, i), name) == 0)
            return i;
    return SIM_SLOT_NONE;
}

static SimSlot find_operand(const Reader *reader, const char *name)
{
    SimSlot slot = find_variable(reader, name);
    if (slot != SIM_SLOT_NONE)
        return slot;
    const SimModule *module = sim_model_module(reader->model, reader->module);
    size_t skipped = module->path[0] == '\0' ? 0 : strlen(module->path) + 1;
    for (uint32_t i = 0; i < module->n_parameters; i++)
        if (strcmp(sim_model_parameter(reader->model, module->first_parameter + i)->path + skipped,
                   name) == 0)
            return SIM_SLOT_PARAMETER(i);
    for (guint i = 1; i < reader->model->buffers->len; i++)
        if (strcmp(g_array_index(reader->model->buffers, SimModelBuffer, i).name, name) == 0)
            return SIM_SLOT_BUFFER(i);
    return SIM_SLOT_NONE;
}

/* The strings of OBJECT's list KEY into SLOTS, at most MOST of them. */
static bool read_operands(const Reader *reader, const cJSON *object, const char *where,
                          uint32_t most, SimSlot *slots, uint32_t *count, GError **error)
{
    const cJSON *list;
    uint32_t n = 0;
    if (!sim_json_get_array(object, where, "inputs", &list, error))
        return false;
    for (const cJSON *item = list->child; item != NULL; item = item->next, n++) {
        g_autofree char *place = g_strdup_printf("%s.inputs[%u]", where, n);
        SimSlot slot =
            cJSON_IsString(item) ? find_operand(reader, item->valuestring) : SIM_SLOT_NONE;
        if (slot == SIM_SLOT_NONE || n == most) {
            g_autofree char *text = cJSON_PrintUnformatted(item);
            return fail(error, SIM_ERROR_SCHEMA, place,
                        n == most ? "no more inputs"
                                  : "a living variable, a parameter of the module or a buffer",
                        cJSON_IsString(item) ? item->valuestring : text);
        }
        slots[n] = slot;
    }
    *count = n;
    return true;
}

static bool is_result(const Reader *reader, const char *name)
{
    for (const cJSON *item = reader->results->child; item != NULL; item = item->next)
        if (cJSON_IsString(item) && strcmp(item->valuestring, name) == 0)
            return true;
    return false;
}

/* The names that a call gives: new ones. */
static bool read_outputs(const Reader *reader, const cJSON *call, const char *where, uint32_t n,
                         const char **names, GError **error)
{
    const cJSON *list;
    if (!sim_json_get_array(call, where, "outputs", &list, error))
        return false;
    g_autofree char *place = g_strdup_printf("%s.outputs", where);
    if (cJSON_GetArraySize(list) != (int)n) {
        g_autofree char *expected = g_strdup_printf("%u name%s", n, n == 1 ? "" : "s");
        g_autofree char *text = cJSON_PrintUnformatted(list);
        return fail(error, SIM_ERROR_SCHEMA, place, expected, text);
    }
    for (uint32_t i = 0; i < n; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, (int)i);
        bool is_new = cJSON_IsString(item) && item->valuestring[0] != '\0' &&
                      find_operand(reader, item->valuestring) == SIM_SLOT_NONE;
        for (uint32_t j = 0; is_new && j < i; j++)
            is_new = strcmp(names[j], item->valuestring) != 0;
        if (!is_new) {
            g_autofree char *text = cJSON_PrintUnformatted(item);
            return fail(error, SIM_ERROR_SCHEMA, place, "a name that nothing living has", text);
        }
        names[i] = item->valuestring;
    }
    return true;
}

static void name_slot(const Reader *reader, SimSlot slot, const char *name)
{
    while (reader->names->len <= slot)
        g_ptr_array_add(reader->names, g_strdup(""));
    g_free(g_ptr_array_index(reader->names, slot));
    g_ptr_array_index(reader->names, slot) = g_strdup(name);
}

/* "delete": references that go with the call made last. */
static bool read_deletions(const Reader *reader, const cJSON *call, const char *where,
                           GError **error)
{
    const cJSON *list;
    uint32_t n = 0;
    if (!sim_json_has(call, "delete"))
        return true;
    if (!sim_json_get_array(call, where, "delete", &list, error))
        return false;
    for (const cJSON *item = list->child; item != NULL; item = item->next, n++) {
        g_autofree char *place = g_strdup_printf("%s.delete[%u]", where, n);
        g_autofree char *text = cJSON_PrintUnformatted(item);
        SimSlot slot =
            cJSON_IsString(item) ? find_variable(reader, item->valuestring) : SIM_SLOT_NONE;
        if (slot == SIM_SLOT_NONE || slot < reader->program->n_arguments ||
            is_result(reader, item->valuestring))
            return fail(error, SIM_ERROR_SCHEMA, place,
                        "a living variable that is no input and no result of the module", text);
        sim_program_delete(reader->program, slot);
        name_slot(reader, slot, "");
    }
    return true;
}

/* --- calls -------------------------------------------------------------------------------------
 */

static const OperatorRow *find_operator(const char *name, const char *where, GError **error)
{
    const char *names[G_N_ELEMENTS(OPERATORS) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(OPERATORS); i++) {
        names[i] = sim_operator_name(OPERATORS[i].operator_);
        if (strcmp(names[i], name) == 0)
            return &OPERATORS[i];
    }
    sim_error_set_unknown(error, where, "operator", name, names);
    return NULL;
}

static bool check_call_keys(const OperatorRow *row, const cJSON *call, const char *where,
                            GError **error)
{
    const char *keys[12] = {"operator", "inputs", "outputs", "delete"};
    size_t n = 4;
    if ((row->attributes & SHAPE) != 0)
        keys[n++] = "shape";
    if ((row->attributes & DIMS) != 0)
        keys[n++] = "dims";
    if ((row->attributes & DIM) != 0)
        keys[n++] = "dim";
    if ((row->attributes & PART) != 0)
        keys[n++] = "start";
    if ((row->attributes & (PART | LENGTH)) != 0)
        keys[n++] = "length";
    if ((row->attributes & DTYPE) != 0)
        keys[n++] = "dtype";
    if ((row->attributes & SCALAR) != 0)
        keys[n++] = "scalar";
    return sim_json_check_keys(call, where, keys, error);
}

static bool read_shape(const cJSON *call, const char *where, bool is_rest_allowed,
                       SimAttributes *attributes, GError **error)
{
    const cJSON *list;
    g_autofree char *place = g_strdup_printf("%s.shape", where);
    return sim_json_get_array(call, where, "shape", &list, error) &&
           sim_modules_calls_read_dims(list, place, is_rest_allowed, attributes->dims,
                                       &attributes->n_dims, error);
}

static bool read_pair(const cJSON *call, const char *where, SimAttributes *attributes,
                      GError **error)
{
    const cJSON *list;
    if (!sim_json_get_array(call, where, "dims", &list, error))
        return false;
    attributes->n_dims = 2;
    for (int i = 0; i < 2; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        if (cJSON_GetArraySize(list) != 2 || !cJSON_IsNumber(item) || item->valuedouble < 0 ||
            item->valuedouble >= SIM_SHAPE_MAX_DIMS) {
            g_autofree char *place = g_strdup_printf("%s.dims", where);
            g_autofree char *text = cJSON_PrintUnformatted(list);
            return fail(error, SIM_ERROR_RANGE, place, "two dimensions from 0 to 4", text);
        }
        attributes->dims[i] = item->valueint;
    }
    return true;
}

static bool read_numbers(const OperatorRow *row, const cJSON *call, const char *where,
                         SimAttributes *attributes, GError **error)
{
    int64_t dim = 0, start = 0, length = 0;
    if ((row->attributes & DIM) != 0 &&
        !sim_json_get_int64(call, where, "dim", 0, SIM_SHAPE_MAX_DIMS - 1, &dim, error))
        return false;
    if (sim_json_has(call, "start") &&
        !sim_json_get_int64(call, where, "start", 0, INT32_MAX, &start, error))
        return false;
    if ((row->attributes & (PART | LENGTH)) != 0 &&
        !sim_json_get_int64(call, where, "length", 1, INT32_MAX, &length, error))
        return false;
    if (sim_json_has(call, "scalar") &&
        !sim_json_get_double(call, where, "scalar", -1e30, 1e30, &attributes->scalar, error))
        return false;
    attributes->dim = (uint32_t)dim;
    attributes->start = (uint64_t)start;
    attributes->length = (uint64_t)length;
    return true;
}

static bool read_attributes(const OperatorRow *row, const cJSON *call, const char *where,
                            SimAttributes *attributes, GError **error)
{
    const char *text = "";
    g_autofree char *place = g_strdup_printf("%s.dtype", where);
    if ((row->attributes & SHAPE) != 0 &&
        !read_shape(call, where, row->operator_ == SIM_OPERATOR_VIEW, attributes, error))
        return false;
    if ((row->attributes & DIMS) != 0 && !read_pair(call, where, attributes, error))
        return false;
    if (sim_json_has(call, "dtype") && (!sim_json_get_string(call, where, "dtype", &text, error) ||
                                        !sim_dtype_parse(text, place, &attributes->dtype, error)))
        return false;
    return read_numbers(row, call, where, attributes, error);
}

/* One operator has a name, with bias and without. */
static SimOperator choose_operator(const OperatorRow *row, uint32_t n_inputs)
{
    if (row->operator_ == SIM_OPERATOR_LINEAR && n_inputs == 3)
        return SIM_OPERATOR_LINEAR_BIAS;
    if (row->operator_ == SIM_OPERATOR_LAYER_NORM && n_inputs == 2)
        return SIM_OPERATOR_LAYER_NORM_UNBIASED;
    return row->operator_;
}

static void bind_outputs(const Reader *reader, uint32_t n, const SimSlot *slots,
                         const char *const *names)
{
    for (uint32_t i = 0; i < n; i++) {
        sim_program_bind(reader->program, slots[i]);
        name_slot(reader, slots[i], names[i]);
    }
}

static bool read_operator(const Reader *reader, const cJSON *call, const char *where,
                          GError **error)
{
    const char *name;
    if (!sim_json_get_string(call, where, "operator", &name, error))
        return false;
    g_autofree char *place = g_strdup_printf("%s.operator", where);
    const OperatorRow *row = find_operator(name, place, error);
    SimSlot inputs[SIM_OPERATOR_MAX_INPUTS], outputs[SIM_OPERATOR_MAX_OUTPUTS];
    const char *names[SIM_OPERATOR_MAX_OUTPUTS];
    SimAttributes attributes = {0};
    uint32_t n_inputs;
    if (row == NULL || !check_call_keys(row, call, where, error) ||
        !read_operands(reader, call, where, row->max_inputs, inputs, &n_inputs, error) ||
        !read_attributes(row, call, where, &attributes, error))
        return false;
    if (n_inputs < row->min_inputs) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.inputs: expected %u for %s, found %u",
                    where, row->min_inputs, name, n_inputs);
        return false;
    }
    uint32_t n_named = row->operator_ == SIM_OPERATOR_SPLIT ? row->n_outputs : 1;
    if (!read_outputs(reader, call, where, n_named, names, error))
        return false;
    for (uint32_t i = 0; i < row->n_outputs; i++)
        outputs[i] = n_named > 1 || i == row->visible ? 0 : SIM_SLOT_NONE;
    sim_program_call_many(reader->program, choose_operator(row, n_inputs), &attributes, n_inputs,
                          inputs, row->n_outputs, outputs);
    bind_outputs(reader, n_named, &outputs[row->visible], names);
    return read_deletions(reader, call, where, error);
}

static bool read_module_call(const Reader *reader, const cJSON *call, const char *where,
                             GError **error)
{
    static const char *const KEYS[] = {"module", "inputs", "outputs", "delete", NULL};
    const char *path;
    if (!sim_json_check_keys(call, where, KEYS, error) ||
        !sim_json_get_string(call, where, "module", &path, error))
        return false;
    uint32_t module = sim_model_find_module(reader->model, path);
    g_autofree char *place = g_strdup_printf("%s.module", where);
    if (module == SIM_MODEL_NONE || module == reader->module ||
        !sim_model_is_below(reader->model, module, reader->module))
        return fail(error, SIM_ERROR_SCHEMA, place, "a module below the one that calls it", path);
    const SimProgram *callee = sim_model_module(reader->model, module)->forward;
    SimSlot inputs[SIM_OPERATOR_MAX_INPUTS], outputs[SIM_OPERATOR_MAX_OUTPUTS];
    const char *names[SIM_OPERATOR_MAX_OUTPUTS];
    uint32_t n_inputs;
    g_assert(callee != NULL); /* read before its callers (modules_json.c) */
    if (!read_operands(reader, call, where, callee->n_arguments, inputs, &n_inputs, error))
        return false;
    if (n_inputs < callee->n_arguments) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.inputs: %s takes %u, found %u", where,
                    path, callee->n_arguments, n_inputs);
        return false;
    }
    if (!read_outputs(reader, call, where, callee->n_results, names, error))
        return false;
    sim_program_call_module_many(reader->program, module - reader->module, n_inputs, inputs,
                                 callee->n_results, outputs);
    bind_outputs(reader, callee->n_results, outputs, names);
    return read_deletions(reader, call, where, error);
}

/* --- a whole forward ----------------------------------------------------------------------------
 */

/* The length of a list of 1 to MOST strings. */
static bool count_names(const cJSON *entry, const char *where, const char *key, int most,
                        const cJSON **list, GError **error)
{
    if (!sim_json_get_array(entry, where, key, list, error))
        return false;
    int n = cJSON_GetArraySize(*list);
    bool is_valid = n >= 1 && n <= most;
    for (const cJSON *item = (*list)->child; item != NULL; item = item->next)
        is_valid = is_valid && cJSON_IsString(item) && item->valuestring[0] != '\0';
    if (is_valid)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.%s: expected 1 to %d names, found %d",
                where, key, most, n);
    return false;
}

/* Results are new references: what is a mere argument or parameter is not. */
static bool finish(const Reader *reader, const char *where, GError **error)
{
    SimSlot results[3];
    uint32_t n = 0;
    for (const cJSON *item = reader->results->child; item != NULL; item = item->next, n++) {
        g_autofree char *place = g_strdup_printf("%s.outputs[%u]", where, n);
        SimSlot slot = find_variable(reader, item->valuestring);
        bool is_twice = false;
        for (uint32_t i = 0; i < n; i++)
            is_twice = is_twice || results[i] == slot;
        if (slot == SIM_SLOT_NONE || is_twice)
            return fail(error, SIM_ERROR_SCHEMA, place, "a living variable, once",
                        item->valuestring);
        if (slot < reader->program->n_arguments)
            slot = sim_program_bind(
                reader->program,
                sim_program_call(reader->program, SIM_OPERATOR_IDENTITY, NULL, 1, &slot));
        results[n] = slot;
    }
    sim_program_finish(reader->program, n, results);
    return true;
}

static bool read_calls(const Reader *reader, const cJSON *calls, const char *where, GError **error)
{
    uint32_t n = 0;
    for (const cJSON *call = calls->child; call != NULL; call = call->next, n++) {
        g_autofree char *place = g_strdup_printf("%s.calls[%u]", where, n);
        bool is_read = cJSON_GetObjectItemCaseSensitive(call, "module") != NULL
                           ? read_module_call(reader, call, place, error)
                           : read_operator(reader, call, place, error);
        if (!is_read)
            return false;
    }
    return finish(reader, where, error);
}

bool sim_modules_calls_read(SimModel *model, uint32_t module, const cJSON *entry, const char *where,
                            GError **error)
{
    const cJSON *inputs, *outputs, *calls;
    if (!count_names(entry, where, "inputs", SIM_OPERATOR_MAX_INPUTS, &inputs, error) ||
        !count_names(entry, where, "outputs", 3, &outputs, error) ||
        !sim_json_get_array(entry, where, "calls", &calls, error))
        return false;
    g_autoptr(SimProgram) program = sim_program_new((uint32_t)cJSON_GetArraySize(inputs));
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    Reader reader = {model, module, program, names, outputs};
    SimSlot slot = 0;
    for (const cJSON *item = inputs->child; item != NULL; item = item->next)
        name_slot(&reader, slot++, item->valuestring);
    if (!read_calls(&reader, calls, where, error))
        return false;
    sim_module_tree_set_forward(model, module, g_steal_pointer(&program));
    return true;
}
