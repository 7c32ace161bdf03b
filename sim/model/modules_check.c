/* SPDX-License-Identifier: Apache-2.0 */
#include "model/modules_check.h"

#include <string.h>

#include "base/error.h"
#include "model/catalogue.h"
#include "model/program.h"

typedef struct Value {
    SimLayout layout;
    bool has_gradient;
} Value;

typedef struct Checker {
    const SimModel *model;
    const char *file;
    SimOperatorSetting setting;
    GArray *values; /* of Value: a stack of frames, one value a slot */
} Checker;

static uint64_t last_dim(const SimLayout *layout)
{
    return layout->shape.n_dims == 0 ? 0 : layout->shape.dims[layout->shape.n_dims - 1];
}

/* --- what an operator expects: NULL, or words for a message -------------------------------------
 */

static const char *expect_linear(const SimOperatorCall *call)
{
    const SimShape *weight = &call->inputs[1]->shape;
    if (weight->n_dims != 2 || last_dim(call->inputs[0]) != weight->dims[1])
        return "an input whose last dimension is the weight's second";
    if (call->n_inputs == 3 &&
        (call->inputs[2]->shape.n_dims != 1 || call->inputs[2]->shape.dims[0] != weight->dims[0]))
        return "a bias as long as the weight's first dimension";
    return NULL;
}

static const char *expect_embedding(const SimOperatorCall *call)
{
    bool fits =
        call->inputs[0]->shape.n_dims == 2 && call->inputs[1]->shape.n_dims < SIM_SHAPE_MAX_DIMS &&
        (call->inputs[1]->dtype == SIM_DTYPE_I64 || call->inputs[1]->dtype == SIM_DTYPE_I32);
    return fits ? NULL : "a table of 2 dimensions, then indices";
}

static const char *expect_norm(const SimOperatorCall *call)
{
    for (uint32_t i = 1; i < call->n_inputs; i++)
        if (call->inputs[i]->shape.n_dims != 1 ||
            call->inputs[i]->shape.dims[0] != last_dim(call->inputs[0]))
            return "weights as long as the last dimension";
    return NULL;
}

static const char *expect_attention(const SimOperatorCall *call)
{
    const SimShape *q = &call->inputs[0]->shape, *k = &call->inputs[1]->shape;
    const SimShape *v = &call->inputs[2]->shape;
    bool fits = q->n_dims == 4 && k->n_dims == 4 && v->n_dims == 4 && q->dims[0] == k->dims[0] &&
                q->dims[3] == k->dims[3] && q->dims[1] % k->dims[1] == 0;
    for (uint32_t i = 0; fits && i < 4; i++)
        fits = k->dims[i] == v->dims[i];
    return fits ? NULL : "[batch, heads, sequence, head] three times, heads a multiple of keys'";
}

static const char *expect_product(const SimOperatorCall *call)
{
    const SimShape *a = &call->inputs[0]->shape, *b = &call->inputs[1]->shape;
    bool fits =
        a->n_dims == 3 && b->n_dims == 3 && a->dims[0] == b->dims[0] && a->dims[2] == b->dims[1];
    return fits ? NULL : "[n, a, b] and [n, b, c]";
}

static const char *expect_broadcast(const SimOperatorCall *call)
{
    const SimShape *a = &call->inputs[0]->shape, *b = &call->inputs[1]->shape;
    for (uint32_t i = 1; i <= MIN(a->n_dims, b->n_dims); i++) {
        uint64_t x = a->dims[a->n_dims - i], y = b->dims[b->n_dims - i];
        if (x != y && x != 1 && y != 1)
            return "shapes that broadcast";
    }
    return NULL;
}

static uint64_t resolve_dim(const SimOperatorCall *call, uint32_t i)
{
    int64_t dim = call->attributes->dims[i];
    return dim == SIM_DIM_BATCH      ? call->setting->batch
           : dim == SIM_DIM_SEQUENCE ? call->setting->sequence
           : dim == SIM_DIM_REST     ? 0
                                     : (uint64_t)dim;
}

static const char *expect_view(const SimOperatorCall *call)
{
    uint64_t elements = sim_layout_elements(call->inputs[0]), known = 1;
    bool has_rest = false;
    for (uint32_t i = 0; i < call->attributes->n_dims; i++) {
        uint64_t dim = resolve_dim(call, i);
        has_rest = has_rest || dim == 0;
        known *= dim == 0 ? 1 : dim;
    }
    bool fits = has_rest ? elements % known == 0 : elements == known;
    return fits ? NULL : "a shape of as many elements";
}

static const char *expect_expand(const SimOperatorCall *call)
{
    const SimShape *in = &call->inputs[0]->shape;
    uint32_t n = call->attributes->n_dims;
    bool fits = n >= in->n_dims;
    for (uint32_t i = 1; fits && i <= in->n_dims; i++)
        fits =
            in->dims[in->n_dims - i] == 1 || in->dims[in->n_dims - i] == resolve_dim(call, n - i);
    return fits ? NULL : "a shape to which the input broadcasts";
}

static const char *expect_part(const SimOperatorCall *call)
{
    const SimShape *in = &call->inputs[0]->shape;
    const SimAttributes *attributes = call->attributes;
    if (attributes->dim >= in->n_dims)
        return "a dimension that the input has";
    uint64_t whole = in->dims[attributes->dim];
    bool fits = call->operator_ == SIM_OPERATOR_SPLIT
                    ? attributes->length * 3 == whole
                    : attributes->start + attributes->length <= whole;
    return fits                                    ? NULL
           : call->operator_ == SIM_OPERATOR_SPLIT ? "three parts of equal length"
                                                   : "a part of the input";
}

static const char *expect_cat(const SimOperatorCall *call)
{
    const SimShape *a = &call->inputs[0]->shape, *b = &call->inputs[1]->shape;
    bool fits = a->n_dims == b->n_dims && call->attributes->dim < a->n_dims;
    for (uint32_t i = 0; fits && i < a->n_dims; i++)
        fits = i == call->attributes->dim || a->dims[i] == b->dims[i];
    return fits ? NULL : "equal shapes but for the dimension along which they are joined";
}

static const char *expect_dims(const SimOperatorCall *call)
{
    uint32_t n = call->inputs[0]->shape.n_dims;
    bool fits = n > 0;
    if (call->operator_ == SIM_OPERATOR_TRANSPOSE)
        fits = (uint64_t)call->attributes->dims[0] < n && (uint64_t)call->attributes->dims[1] < n;
    if (call->operator_ == SIM_OPERATOR_SUM_DIM)
        fits = call->attributes->dim < n;
    return fits ? NULL : "a dimension that the input has";
}

static const char *expect(const SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_LINEAR:
    case SIM_OPERATOR_LINEAR_BIAS:
        return expect_linear(call);
    case SIM_OPERATOR_EMBEDDING:
        return expect_embedding(call);
    case SIM_OPERATOR_RMS_NORM:
    case SIM_OPERATOR_LAYER_NORM:
    case SIM_OPERATOR_LAYER_NORM_UNBIASED:
        return expect_norm(call);
    case SIM_OPERATOR_ATTENTION:
        return expect_attention(call);
    case SIM_OPERATOR_BMM:
        return expect_product(call);
    case SIM_OPERATOR_ADD:
    case SIM_OPERATOR_MUL:
        return expect_broadcast(call);
    case SIM_OPERATOR_VIEW:
        return expect_view(call);
    case SIM_OPERATOR_EXPAND:
        return expect_expand(call);
    case SIM_OPERATOR_SLICE:
    case SIM_OPERATOR_SPLIT:
        return expect_part(call);
    case SIM_OPERATOR_CAT:
        return expect_cat(call);
    case SIM_OPERATOR_TRANSPOSE:
    case SIM_OPERATOR_SUM_DIM:
    case SIM_OPERATOR_SOFTMAX:
    case SIM_OPERATOR_LOG_SOFTMAX:
    case SIM_OPERATOR_MEAN:
        return expect_dims(call);
    default:
        return NULL;
    }
}

/* --- running ------------------------------------------------------------------------------------
 */

static Value *value_at(const Checker *checker, guint place)
{
    return &g_array_index(checker->values, Value, place);
}

static SimLayout buffer_layout(const Checker *checker, const SimModelBuffer *buffer)
{
    SimShape shape = {.n_dims = buffer->n_dims};
    for (uint32_t i = 0; i < buffer->n_dims; i++)
        shape.dims[i] = buffer->dims[i] == SIM_DIM_BATCH      ? checker->setting.batch
                        : buffer->dims[i] == SIM_DIM_SEQUENCE ? checker->setting.sequence
                                                              : (uint64_t)buffer->dims[i];
    return sim_layout_contiguous(&shape, buffer->dtype);
}

static Value read_operand(const Checker *checker, uint32_t module, guint frame, SimSlot slot)
{
    const SimModel *model = checker->model;
    if (SIM_SLOT_IS_PARAMETER(slot)) {
        const SimParameter *parameter = sim_model_parameter(
            model, sim_model_module(model, module)->first_parameter + SIM_SLOT_INDEX(slot));
        return (Value){sim_layout_contiguous(&parameter->shape, SIM_DTYPE_F32), true};
    }
    if (SIM_SLOT_IS_BUFFER(slot))
        return (Value){buffer_layout(checker, &g_array_index(model->buffers, SimModelBuffer,
                                                             SIM_SLOT_INDEX(slot))),
                       false};
    return *value_at(checker, frame + slot);
}

static bool fail_call(const Checker *checker, uint32_t module, guint number,
                      const SimOperatorCall *call, const char *expected, GError **error)
{
    g_autoptr(GString) shapes = g_string_new(NULL);
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        g_autofree char *shape = sim_shape_print(&call->inputs[i]->shape);
        g_string_append_printf(shapes, "%s[%s]", i > 0 ? ", " : "", shape);
    }
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: module \"%s\", calls[%u]: %s: expected %s, found %s (batch %" G_GUINT64_FORMAT
                ", sequence %" G_GUINT64_FORMAT ")",
                checker->file, sim_model_module(checker->model, module)->path, number,
                sim_operator_name(call->operator_), expected, shapes->str, checker->setting.batch,
                checker->setting.sequence);
    return false;
}

static bool check_operator(const Checker *checker, uint32_t module, const SimProgram *program,
                           guint number, const Value *inputs, Value *outputs, GError **error)
{
    const SimProgramCall *row = &g_array_index(program->calls, SimProgramCall, number);
    SimOperatorCall call = {
        .operator_ = row->operator_,
        .n_inputs = row->n_inputs,
        .attributes = &g_array_index(program->attributes, SimAttributes, row->attributes),
        .setting = &checker->setting,
    };
    bool has_gradient = false;
    for (uint32_t i = 0; i < row->n_inputs; i++) {
        call.inputs[i] = &inputs[i].layout;
        has_gradient = has_gradient || inputs[i].has_gradient;
    }
    const char *expected = expect(&call);
    if (expected != NULL)
        return fail_call(checker, module, number, &call, expected, error);
    has_gradient = has_gradient && sim_catalogue_formula(row->operator_)->n_steps > 0;
    sim_operator_describe(&call);
    for (uint32_t i = 0; i < call.n_outputs; i++)
        outputs[i] = (Value){call.outputs[i], has_gradient};
    return true;
}

static bool check_module(const Checker *checker, uint32_t module, const Value *arguments,
                         Value *results, GError **error)
{
    const SimProgram *program = sim_model_module(checker->model, module)->forward;
    guint frame = checker->values->len;
    g_array_set_size(checker->values, frame + program->n_slots);
    for (uint32_t i = 0; i < program->n_arguments; i++)
        *value_at(checker, frame + i) = arguments[i];
    for (guint i = 0; i < program->calls->len; i++) {
        const SimProgramCall *call = &g_array_index(program->calls, SimProgramCall, i);
        Value inputs[SIM_OPERATOR_MAX_INPUTS], outputs[SIM_OPERATOR_MAX_OUTPUTS];
        for (uint32_t j = 0; j < call->n_inputs; j++)
            inputs[j] = read_operand(checker, module, frame, call->inputs[j]);
        bool is_valid = call->is_module
                            ? check_module(checker, module + call->child, inputs, outputs, error)
                            : check_operator(checker, module, program, i, inputs, outputs, error);
        if (!is_valid)
            return false;
        for (uint32_t j = 0; j < call->n_outputs; j++)
            if (call->outputs[j] != SIM_SLOT_NONE)
                *value_at(checker, frame + call->outputs[j]) = outputs[j];
    }
    for (uint32_t i = 0; i < program->n_results; i++)
        results[i] = *value_at(checker, frame + program->results[i]);
    g_array_set_size(checker->values, frame);
    return true;
}

bool sim_modules_check_shapes(const SimModel *model, const char *file, uint64_t batch,
                              uint64_t sequence, SimShape *result, GError **error)
{
    g_autoptr(GArray) values = g_array_new(FALSE, TRUE, sizeof(Value));
    Checker checker = {
        .model = model,
        .file = file,
        .setting = {.batch = batch,
                    .sequence = sequence,
                    .sm_count = 1,
                    .compute_capability = 90,
                    .compute_dtype = SIM_DTYPE_F32},
        .values = values,
    };
    Value input = {buffer_layout(&checker, &g_array_index(model->buffers, SimModelBuffer, 0)),
                   false};
    Value results[3];
    if (!check_module(&checker, 0, &input, results, error))
        return false;
    *result = results[0].layout.shape;
    if (results[0].has_gradient)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: expected a result of the root that depends on a parameter, found none", file);
    return false;
}
