/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_clip.h"

#include "fsdp/gradient_clip.h"
#include "fsdp/optimizer_tensor.h"

#define NORM_BYTES UINT64_C(4)

/* aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig of a sum of one vector: threads of a block,
 * numbers a thread takes before and at most, blocks of that size on a multiprocessor (which holds
 * 2048 threads). */
#define THREADS 512
#define MIN_VALUES_PER_THREAD 16
#define MAX_VALUES_PER_THREAD 256
#define BLOCKS_PER_MULTIPROCESSOR 4

struct SimFsdp1Clip {
    SimFsdp1Slices *slices; /* borrowed, as the next */
    SimFsdp1Context *context;
    SimGradientClip *whole; /* NO_SHARD */
    uint32_t zero;          /* _zero_scalar, or NONE */
    int32_t serial;         /* of temporaries */
};

SimFsdp1Clip *sim_fsdp1_clip_new(SimFsdp1Slices *slices)
{
    SimFsdp1Clip *clip = g_new0(SimFsdp1Clip, 1);
    clip->slices = slices;
    clip->context = slices->context;
    clip->whole = sim_gradient_clip_new(slices->context->plan, slices->context->replicate_group, 1);
    clip->zero = SIM_PLAN_NONE;
    return clip;
}

void sim_fsdp1_clip_free(SimFsdp1Clip *clip)
{
    if (clip == NULL)
        return;
    sim_gradient_clip_free(clip->whole);
    g_free(clip);
}

static uint32_t alloc(SimFsdp1Clip *clip, const char *what, uint64_t bytes)
{
    SimStringId stem = sim_strings_internf(sim_plan_strings(clip->context->plan), "clip:%s", what);
    return sim_plan_alloc(clip->context->plan, clip->context->compute,
                          (SimName){.stem = stem, .serial = clip->serial++}, bytes,
                          SIM_CATEGORY_TEMPORARY, SIM_DTYPE_F32, 0);
}

static SimInstruction *launch(SimFsdp1Clip *clip, const char *what)
{
    SimStringId word = sim_strings_intern(sim_plan_strings(clip->context->plan), what);
    return sim_plan_kernel(clip->context->plan, clip->context->compute, word, word, SIM_DTYPE_F32);
}

/* A kernel of one number, from FROM, which it frees, to a new buffer. */
static uint32_t launch_small(SimFsdp1Clip *clip, const char *what, const char *arguments,
                             uint32_t from)
{
    SimPlan *plan = clip->context->plan;
    uint32_t to = alloc(clip, what, NORM_BYTES);
    SimStringId text = sim_strings_intern(sim_plan_strings(plan), arguments);
    SimInstruction *kernel = launch(clip, what);
    kernel->hbm_bytes = sim_plan_buffer(plan, from)->bytes + NORM_BYTES;
    kernel->arguments = text;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(from));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(to));
    sim_plan_free_buffer(plan, from);
    return to;
}

static SimTouch touch_gradient(const SimFsdp1Clip *clip, const SimOptimizerTensor *tensor)
{
    const SimBuffer *gradient = sim_plan_buffer(clip->context->plan, tensor->gradient);
    return (SimTouch){.buffer = tensor->gradient,
                      .offset = tensor->gradient_offset,
                      .bytes = tensor->shard.elements * sim_dtype_bytes((SimDtype)gradient->dtype)};
}

static uint64_t divide_up(uint64_t number, uint64_t divisor)
{
    return (number + divisor - 1) / divisor;
}

/* How many blocks reduce a vector of ELEMENTS together; 1: no memory between them is needed. */
static uint64_t count_blocks(const SimFsdp1Clip *clip, uint64_t elements)
{
    uint64_t values = divide_up(elements, THREADS);
    if (values < MAX_VALUES_PER_THREAD)
        return 1;
    uint64_t target = (uint64_t)clip->context->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    return MAX(MIN(target, divide_up(values, MIN_VALUES_PER_THREAD)),
               divide_up(values, MAX_VALUES_PER_THREAD));
}

/* What blocks leave for each other: a number a block, and one that counts them. */
static uint32_t launch_norm(SimFsdp1Clip *clip, const SimOptimizerTensor *tensor)
{
    SimPlan *plan = clip->context->plan;
    SimTouch gradient = touch_gradient(clip, tensor);
    uint32_t norm = alloc(clip, "norm", NORM_BYTES);
    uint64_t blocks = count_blocks(clip, tensor->shard.elements);
    uint32_t partials = SIM_PLAN_NONE, counter = SIM_PLAN_NONE;
    if (blocks > 1) {
        partials = alloc(clip, "partials", NORM_BYTES * blocks);
        counter = alloc(clip, "counter", NORM_BYTES);
        launch(clip, "zeros")->hbm_bytes = NORM_BYTES;
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(counter));
    }
    launch(clip, "norm")->hbm_bytes = gradient.bytes + NORM_BYTES;
    sim_plan_add_read(plan, gradient);
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(norm));
    if (blocks > 1) {
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(partials));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(counter));
        sim_plan_free_buffer(plan, counter);
        sim_plan_free_buffer(plan, partials);
    }
    return norm;
}

/* _get_grad_norm of the ranks of one class. */
static uint32_t compute_local(SimFsdp1Clip *clip, const GArray *tensors)
{
    SimPlan *plan = clip->context->plan;
    g_autofree uint32_t *norms = g_new(uint32_t, tensors->len + 1);
    for (uint32_t i = 0; i < tensors->len; i++)
        norms[i] = launch_norm(clip, &g_array_index(tensors, SimOptimizerTensor, i));
    uint32_t stacked = alloc(clip, "stack", NORM_BYTES * MAX(tensors->len, 1));
    launch(clip, "stack")->hbm_bytes = 2 * NORM_BYTES * tensors->len;
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(norms[i]));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(stacked));
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_free_buffer(plan, norms[i]);
    return launch_small(clip, "vector_norm", "", stacked);
}

/* The square of every class's LOCALS into TOTAL. */
static void square(SimFsdp1Clip *clip, const uint32_t *locals, uint32_t total)
{
    SimPlan *plan = clip->context->plan;
    const GArray *classes = clip->slices->classes;
    for (uint32_t c = 0; c < classes->len; c++) {
        sim_plan_context(plan)->rank_set = g_array_index(classes, SimFsdp1Class, c).rank_set;
        launch(clip, "pow")->hbm_bytes = 2 * NORM_BYTES;
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(locals[c]));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(total));
        sim_plan_free_buffer(plan, locals[c]);
    }
    sim_plan_context(plan)->rank_set = 0;
}

static void all_reduce(SimFsdp1Clip *clip, uint32_t total)
{
    SimFsdp1Context *context = clip->context;
    sim_plan_collective(context->plan, context->compute, context->words.all_reduce,
                        SIM_COLLECTIVE_ALL_REDUCE, context->shard_group, NORM_BYTES, SIM_DTYPE_F32)
        ->arguments = context->words.sum;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(total));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(total));
}

static void scale(SimFsdp1Clip *clip, const GArray *tensors, uint32_t coefficient)
{
    for (uint32_t i = 0; i < tensors->len; i++) {
        SimTouch gradient = touch_gradient(clip, &g_array_index(tensors, SimOptimizerTensor, i));
        launch(clip, "scale")->hbm_bytes = 2 * gradient.bytes;
        sim_plan_add_read(clip->context->plan, gradient);
        sim_plan_add_read(clip->context->plan, SIM_TOUCH_WHOLE(coefficient));
        sim_plan_add_write(clip->context->plan, gradient);
    }
}

/* Unit by unit, in the order of root.modules(). */
static GArray *collect_by_unit(SimFsdp1Clip *clip, const SimFsdp1Class *class)
{
    const SimUnitList *units = clip->context->units;
    g_autoptr(GArray) all = sim_fsdp1_slices_collect(clip->slices, class);
    GArray *ordered = g_array_new(FALSE, FALSE, sizeof(SimOptimizerTensor));
    for (uint32_t u = 0; u < sim_unit_list_count(units); u++)
        for (uint32_t i = 0; i < all->len; i++) {
            SimOptimizerTensor *tensor = &g_array_index(all, SimOptimizerTensor, i);
            if (tensor->unit == sim_unit_list_get(units, units->traversal[u])->name)
                g_array_append_vals(ordered, tensor, 1);
        }
    return ordered;
}

/* torch.tensor(0.0, device=...): a copy from pageable memory, for which the host waits. */
static void make_zero(SimFsdp1Clip *clip)
{
    SimPlan *plan = clip->context->plan;
    clip->zero = alloc(clip, "zero", NORM_BYTES);
    SimInstruction *copy = sim_plan_append(plan, SIM_PLAN_COPY);
    copy->stream = (uint16_t)clip->context->compute;
    copy->name = sim_strings_intern(sim_plan_strings(plan), "zero");
    copy->bytes = NORM_BYTES;
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(clip->zero));
    SimName name = {.stem = sim_strings_intern(sim_plan_strings(plan), "clip:zero"), .serial = -1};
    sim_plan_host_wait(plan, sim_plan_record(plan, clip->context->compute, name));
}

/* Whole gradients: torch.nn.utils.clip_grad_norm_. */
static void run_whole(SimFsdp1Clip *clip)
{
    const SimFsdp1Class *all = &g_array_index(clip->slices->classes, SimFsdp1Class, 0);
    g_autoptr(GArray) tensors = sim_fsdp1_slices_collect(clip->slices, all);
    sim_gradient_clip_run(clip->whole, tensors);
}

static void run_sharded(SimFsdp1Clip *clip)
{
    static const char *const STEPS[] = {"sqrt", "add", "reciprocal", "mul", "clamp"};
    static const char *const ARGUMENTS[] = {"", "scalar=1e-06", "", "scalar=1", "max=1"};
    SimPlanContext *plan_context = sim_plan_context(clip->context->plan);
    const GArray *classes = clip->slices->classes;
    g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    g_autofree uint32_t *locals = g_new(uint32_t, classes->len);
    for (uint32_t c = 0; c < classes->len; c++) {
        const SimFsdp1Class *class = &g_array_index(classes, SimFsdp1Class, c);
        g_ptr_array_add(tensors, collect_by_unit(clip, class));
        plan_context->rank_set = class->rank_set;
        locals[c] = compute_local(clip, g_ptr_array_index(tensors, c));
    }
    plan_context->rank_set = 0;
    uint32_t value = alloc(clip, "total", NORM_BYTES);
    square(clip, locals, value);
    all_reduce(clip, value);
    for (size_t i = 0; i < G_N_ELEMENTS(STEPS); i++)
        value = launch_small(clip, STEPS[i], ARGUMENTS[i], value);
    for (uint32_t c = 0; c < classes->len; c++) {
        plan_context->rank_set = g_array_index(classes, SimFsdp1Class, c).rank_set;
        scale(clip, g_ptr_array_index(tensors, c), value);
    }
    plan_context->rank_set = 0;
    sim_plan_free_buffer(clip->context->plan, value);
}

void sim_fsdp1_clip_run(SimFsdp1Clip *clip)
{
    if (clip->zero == SIM_PLAN_NONE)
        make_zero(clip);
    if (clip->context->is_sharded)
        run_sharded(clip);
    else
        run_whole(clip);
}
