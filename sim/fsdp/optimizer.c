/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/optimizer.h"

#include "fsdp/rank_classes.h"

#define STEP_BYTES UINT64_C(4)
/* aten/src/ATen/native/cuda/MultiTensorApply.cuh: elements of one tensor that one block takes. */
#define CHUNK_ELEMENTS UINT64_C(65536)

/* The states of one parameter; those with rows exist once for ranks with all rows (0) and once for
 * the rank with the rest (1). */
typedef struct States {
    uint32_t step;
    uint32_t exp_avg[2];
    uint32_t exp_avg_sq[2];
} States;

struct SimOptimizer {
    SimPlan *plan;
    GArray *states; /* of States; step is SIM_PLAN_NONE before the first step */
    uint32_t shard_group, shard_size;
    uint32_t compute;
    int32_t clips; /* how often it has clipped: serial of the temporaries */
};

SimOptimizer *sim_optimizer_new(SimPlan *plan, uint32_t parameters, uint32_t shard_group,
                                uint32_t shard_size)
{
    SimOptimizer *optimizer = g_new0(SimOptimizer, 1);
    optimizer->plan = plan;
    optimizer->states = g_array_new(FALSE, FALSE, sizeof(States));
    const States none = {
        SIM_PLAN_NONE, {SIM_PLAN_NONE, SIM_PLAN_NONE}, {SIM_PLAN_NONE, SIM_PLAN_NONE}};
    for (uint32_t i = 0; i < parameters; i++)
        g_array_append_val(optimizer->states, none);
    optimizer->shard_group = shard_group;
    optimizer->shard_size = shard_size;
    optimizer->compute = sim_plan_stream(plan, "compute");
    return optimizer;
}

void sim_optimizer_free(SimOptimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    g_array_unref(optimizer->states);
    g_free(optimizer);
}

static const SimOptimizerTensor *get_tensor(const GArray *tensors, uint32_t index)
{
    return &g_array_index(tensors, SimOptimizerTensor, index);
}

static GArray *compute_classes(const SimOptimizer *optimizer, const GArray *tensors)
{
    g_autoptr(GArray) shards = g_array_new(FALSE, FALSE, sizeof(SimShard));
    for (uint32_t i = 0; i < tensors->len; i++)
        g_array_append_val(shards, get_tensor(tensors, i)->shard);
    return sim_rank_classes_compute(optimizer->plan, optimizer->shard_size, shards);
}

/* Elements that a rank of CLASS really owns. */
static uint64_t count_elements(const SimOptimizerTensor *tensor, const SimRankClass *class)
{
    return sim_shard_true_rows(&tensor->shard, class->first) * tensor->shard.row_elements;
}

static uint64_t count_bytes(const SimOptimizerTensor *tensor, const SimRankClass *class)
{
    return count_elements(tensor, class) * sim_dtype_bytes(tensor->dtype);
}

/* --- AdamW -------------------------------------------------------------------------------------
 */

/* exp_avg or exp_avg_sq of TENSOR, for the ranks with all rows and for the one with the rest. */
static void alloc_moment(SimOptimizer *optimizer, const SimOptimizerTensor *tensor,
                         const char *what, uint32_t buffers[2])
{
    SimPlan *plan = optimizer->plan;
    SimPlanContext *context = sim_plan_context(plan);
    SimStrings *strings = sim_plan_strings(plan);
    uint32_t breaks[3] = {0, 0, 0};
    sim_shard_find_breaks(&tensor->shard, optimizer->shard_size, &breaks[1], &breaks[2]);
    SimStringId stem = sim_strings_internf(strings, "S:%s", sim_plan_string(plan, tensor->unit));
    SimStringId tail =
        sim_strings_internf(strings, "%s.%s", sim_plan_string(plan, tensor->tail), what);
    for (int i = 0; i < 2; i++) {
        if (breaks[i] == breaks[i + 1])
            continue;
        SimRankClass class =
            sim_rank_classes_make(plan, optimizer->shard_size, breaks[i], breaks[i + 1]);
        context->rank_set = class.rank_set;
        buffers[i] = sim_plan_alloc(
            plan, optimizer->compute, (SimName){.stem = stem, .tail = tail, .serial = i},
            count_bytes(tensor, &class), SIM_CATEGORY_OPTIMIZER_STATE, tensor->dtype, 0);
    }
    context->rank_set = 0;
}

static void alloc_states(SimOptimizer *optimizer, const SimOptimizerTensor *tensor)
{
    SimPlan *plan = optimizer->plan;
    States *states = &g_array_index(optimizer->states, States, tensor->parameter);
    if (states->step != SIM_PLAN_NONE)
        return;
    sim_plan_context(plan)->unit = tensor->unit;
    SimStrings *strings = sim_plan_strings(plan);
    SimName name = {
        .stem = sim_strings_internf(strings, "S:%s", sim_plan_string(plan, tensor->unit)),
        .tail = sim_strings_internf(strings, "%s.step", sim_plan_string(plan, tensor->tail)),
        .serial = 0,
    };
    states->step = sim_plan_alloc(plan, optimizer->compute, name, STEP_BYTES,
                                  SIM_CATEGORY_OPTIMIZER_STATE, SIM_DTYPE_F32, 0);
    alloc_moment(optimizer, tensor, "exp_avg", states->exp_avg);
    alloc_moment(optimizer, tensor, "exp_avg_sq", states->exp_avg_sq);
    sim_plan_context(plan)->unit = 0;
}

/* Which of a tensor's two kinds of states a rank of CLASS has; only asked where it has rows. */
static int find_kind(const SimOptimizer *optimizer, const SimOptimizerTensor *tensor,
                     const SimRankClass *class)
{
    uint32_t first_partial, first_empty;
    sim_shard_find_breaks(&tensor->shard, optimizer->shard_size, &first_partial, &first_empty);
    return class->first < first_partial ? 0 : 1;
}

static SimTouch touch_first(uint32_t buffer, uint64_t offset, uint64_t bytes)
{
    return (SimTouch){.buffer = buffer, .offset = offset, .bytes = bytes};
}

/* A tensor's five operands, in the order of torch._fused_adamw_. */
static void add_operands(SimOptimizer *optimizer, const SimOptimizerTensor *tensor,
                         const SimRankClass *class, bool is_write)
{
    uint64_t bytes = count_bytes(tensor, class);
    if (bytes == 0)
        return;
    const States *states = &g_array_index(optimizer->states, States, tensor->parameter);
    int kind = find_kind(optimizer, tensor, class);
    SimTouch value = touch_first(tensor->value, 0, bytes);
    SimTouch moments[2] = {SIM_TOUCH_WHOLE(states->exp_avg[kind]),
                           SIM_TOUCH_WHOLE(states->exp_avg_sq[kind])};
    if (is_write) {
        sim_plan_add_write(optimizer->plan, value);
        sim_plan_add_write(optimizer->plan, moments[0]);
        sim_plan_add_write(optimizer->plan, moments[1]);
        return;
    }
    sim_plan_add_read(optimizer->plan, value);
    sim_plan_add_read(optimizer->plan,
                      touch_first(tensor->gradient, tensor->gradient_offset, bytes));
    sim_plan_add_read(optimizer->plan, moments[0]);
    sim_plan_add_read(optimizer->plan, moments[1]);
    sim_plan_add_read(optimizer->plan, SIM_TOUCH_WHOLE(states->step));
}

static SimInstruction *launch(SimOptimizer *optimizer, const char *word)
{
    SimStringId id = sim_strings_intern(sim_plan_strings(optimizer->plan), word);
    return sim_plan_kernel(optimizer->plan, optimizer->compute, id, id, SIM_DTYPE_F32);
}

/* Reads value, gradient and both moments; writes all but the gradient. */
static void launch_adamw(SimOptimizer *optimizer, const GArray *tensors, const SimRankClass *class)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tensors->len; i++)
        bytes += count_bytes(get_tensor(tensors, i), class);
    sim_plan_context(optimizer->plan)->rank_set = class->rank_set;
    launch(optimizer, "adamw")->hbm_bytes = 7 * bytes;
    for (uint32_t i = 0; i < tensors->len; i++)
        add_operands(optimizer, get_tensor(tensors, i), class, false);
    for (uint32_t i = 0; i < tensors->len; i++)
        add_operands(optimizer, get_tensor(tensors, i), class, true);
    sim_plan_context(optimizer->plan)->rank_set = 0;
}

void sim_optimizer_step(SimOptimizer *optimizer, const GArray *tensors)
{
    if (tensors->len == 0)
        return;
    SimPlan *plan = optimizer->plan;
    for (uint32_t i = 0; i < tensors->len; i++)
        alloc_states(optimizer, get_tensor(tensors, i));
    launch(optimizer, "adamw_step")->hbm_bytes = 2 * STEP_BYTES * tensors->len;
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_add_read(
            plan,
            SIM_TOUCH_WHOLE(
                g_array_index(optimizer->states, States, get_tensor(tensors, i)->parameter).step));
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_add_write(
            plan,
            SIM_TOUCH_WHOLE(
                g_array_index(optimizer->states, States, get_tensor(tensors, i)->parameter).step));
    g_autoptr(GArray) classes = compute_classes(optimizer, tensors);
    for (uint32_t i = 0; i < classes->len; i++)
        launch_adamw(optimizer, tensors, &g_array_index(classes, SimRankClass, i));
}

/* --- clipping ----------------------------------------------------------------------------------
 */

static uint32_t alloc_temporary(SimOptimizer *optimizer, const char *what, int32_t serial,
                                uint64_t bytes, SimDtype dtype)
{
    SimStringId stem = sim_strings_internf(sim_plan_strings(optimizer->plan), "clip:%s", what);
    return sim_plan_alloc(optimizer->plan, optimizer->compute,
                          (SimName){.stem = stem, .serial = serial}, bytes, SIM_CATEGORY_TEMPORARY,
                          dtype, 0);
}

/* A small kernel from FROM to a new buffer. */
static uint32_t launch_small(SimOptimizer *optimizer, const char *word, uint32_t from,
                             uint64_t bytes)
{
    uint32_t to = alloc_temporary(optimizer, word, optimizer->clips, bytes, SIM_DTYPE_F32);
    launch(optimizer, word)->hbm_bytes = sim_plan_buffer(optimizer->plan, from)->bytes + bytes;
    sim_plan_add_read(optimizer->plan, SIM_TOUCH_WHOLE(from));
    sim_plan_add_write(optimizer->plan, SIM_TOUCH_WHOLE(to));
    return to;
}

static void touch_gradients(SimOptimizer *optimizer, const GArray *tensors,
                            const SimRankClass *class, bool is_write)
{
    for (uint32_t i = 0; i < tensors->len; i++) {
        const SimOptimizerTensor *tensor = get_tensor(tensors, i);
        uint64_t bytes = count_bytes(tensor, class);
        if (bytes == 0)
            continue;
        SimTouch touch = touch_first(tensor->gradient, tensor->gradient_offset, bytes);
        if (is_write)
            sim_plan_add_write(optimizer->plan, touch);
        else
            sim_plan_add_read(optimizer->plan, touch);
    }
}

static uint64_t count_class_bytes(const GArray *tensors, const SimRankClass *class)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tensors->len; i++)
        bytes += count_bytes(get_tensor(tensors, i), class);
    return bytes;
}

/* The partial sums of one class of ranks and the kernel that makes them. */
static uint32_t launch_partial_norms(SimOptimizer *optimizer, const GArray *tensors,
                                     const SimRankClass *class, int32_t serial)
{
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < tensors->len; i++)
        chunks +=
            (count_elements(get_tensor(tensors, i), class) + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
    uint32_t partials =
        alloc_temporary(optimizer, "partial_norms", serial, MAX(chunks, 1) * 4, SIM_DTYPE_F32);
    launch(optimizer, "partial_norms")->hbm_bytes = count_class_bytes(tensors, class) + 4 * chunks;
    touch_gradients(optimizer, tensors, class, false);
    sim_plan_add_write(optimizer->plan, SIM_TOUCH_WHOLE(partials));
    return partials;
}

/* _foreach_norm: NORMS, one number a tensor. */
static void compute_norms(SimOptimizer *optimizer, const GArray *tensors, const GArray *classes,
                          uint32_t *norms)
{
    SimPlan *plan = optimizer->plan;
    SimPlanContext *context = sim_plan_context(plan);
    uint32_t offsets = alloc_temporary(optimizer, "norm_offsets", optimizer->clips,
                                       (tensors->len + UINT64_C(1)) * 8, SIM_DTYPE_I64);
    for (uint32_t i = 0; i < tensors->len; i++)
        norms[i] = alloc_temporary(optimizer, "norm",
                                   optimizer->clips * (int32_t)tensors->len + (int32_t)i, 4,
                                   SIM_DTYPE_F32);
    for (uint32_t c = 0; c < classes->len; c++) {
        const SimRankClass *class = &g_array_index(classes, SimRankClass, c);
        context->rank_set = class->rank_set;
        uint32_t partials = launch_partial_norms(
            optimizer, tensors, class, optimizer->clips * (int32_t)classes->len + (int32_t)c);
        launch(optimizer, "norms")->hbm_bytes =
            sim_plan_buffer(plan, partials)->bytes + 4 * tensors->len;
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(partials));
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(offsets));
        for (uint32_t i = 0; i < tensors->len; i++)
            sim_plan_add_write(plan, SIM_TOUCH_WHOLE(norms[i]));
        sim_plan_free_buffer(plan, partials);
    }
    context->rank_set = 0;
    sim_plan_free_buffer(plan, offsets);
}

static uint32_t stack_norms(SimOptimizer *optimizer, const uint32_t *norms, uint32_t count)
{
    uint64_t bytes = UINT64_C(4) * count;
    uint32_t stacked = alloc_temporary(optimizer, "stack", optimizer->clips, bytes, SIM_DTYPE_F32);
    launch(optimizer, "stack")->hbm_bytes = 2 * bytes;
    for (uint32_t i = 0; i < count; i++)
        sim_plan_add_read(optimizer->plan, SIM_TOUCH_WHOLE(norms[i]));
    sim_plan_add_write(optimizer->plan, SIM_TOUCH_WHOLE(stacked));
    return stacked;
}

/* The norms of shards become norms of whole tensors: squares, their sum over the group, the root.
 */
static uint32_t reduce_norms(SimOptimizer *optimizer, uint32_t stacked)
{
    SimPlan *plan = optimizer->plan;
    uint64_t bytes = sim_plan_buffer(plan, stacked)->bytes;
    uint32_t squares = launch_small(optimizer, "pow", stacked, bytes);
    uint32_t sums = launch_small(optimizer, "clone", squares, bytes);
    SimStrings *strings = sim_plan_strings(plan);
    SimInstruction *row = sim_plan_collective(
        plan, optimizer->compute, sim_strings_intern(strings, "all_reduce"),
        SIM_COLLECTIVE_ALL_REDUCE, optimizer->shard_group, bytes, SIM_DTYPE_F32);
    row->arguments = sim_strings_intern(strings, "reduction=sum");
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(sums));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(sums));
    uint32_t roots = launch_small(optimizer, "sqrt", sums, bytes);
    sim_plan_free_buffer(plan, squares);
    sim_plan_free_buffer(plan, sums);
    sim_plan_free_buffer(plan, stacked);
    return roots;
}

/* min(1, max_norm / (total + 1e-6)), kernel by kernel. */
static uint32_t compute_coefficient(SimOptimizer *optimizer, uint32_t total)
{
    static const char *const STEPS[] = {"add", "reciprocal", "mul", "clamp"};
    uint32_t value = total;
    for (size_t i = 0; i < G_N_ELEMENTS(STEPS); i++) {
        uint32_t next = launch_small(optimizer, STEPS[i], value, 4);
        if (value != total)
            sim_plan_free_buffer(optimizer->plan, value);
        value = next;
    }
    return value;
}

static void scale_gradients(SimOptimizer *optimizer, const GArray *tensors, const GArray *classes,
                            uint32_t coefficient)
{
    SimPlanContext *context = sim_plan_context(optimizer->plan);
    for (uint32_t c = 0; c < classes->len; c++) {
        const SimRankClass *class = &g_array_index(classes, SimRankClass, c);
        context->rank_set = class->rank_set;
        launch(optimizer, "scale")->hbm_bytes = 2 * count_class_bytes(tensors, class);
        touch_gradients(optimizer, tensors, class, false);
        sim_plan_add_read(optimizer->plan, SIM_TOUCH_WHOLE(coefficient));
        touch_gradients(optimizer, tensors, class, true);
    }
    context->rank_set = 0;
}

void sim_optimizer_clip(SimOptimizer *optimizer, const GArray *tensors)
{
    if (tensors->len == 0)
        return;
    SimPlan *plan = optimizer->plan;
    g_autoptr(GArray) classes = compute_classes(optimizer, tensors);
    g_autofree uint32_t *norms = g_new(uint32_t, tensors->len);
    compute_norms(optimizer, tensors, classes, norms);
    uint32_t stacked = stack_norms(optimizer, norms, tensors->len);
    if (optimizer->shard_size > 1)
        stacked = reduce_norms(optimizer, stacked);
    uint32_t total = launch_small(optimizer, "vector_norm", stacked, 4);
    sim_plan_free_buffer(plan, stacked);
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_free_buffer(plan, norms[i]);
    uint32_t coefficient = compute_coefficient(optimizer, total);
    scale_gradients(optimizer, tensors, classes, coefficient);
    sim_plan_free_buffer(plan, coefficient);
    sim_plan_free_buffer(plan, total);
    optimizer->clips++;
}
