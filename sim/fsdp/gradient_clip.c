/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/gradient_clip.h"

#include <inttypes.h>

/* aten/src/ATen/native/cuda/MultiTensorApply.cuh: elements of one tensor that one block takes. */
#define CHUNK_ELEMENTS UINT64_C(65536)
#define NORM_BYTES UINT64_C(4)

/* Kernels; the buffers they make are "clip:" and the kernel's name. */
typedef enum Word {
    PARTIAL_NORMS,
    NORM_OFFSETS,
    NORM,
    STACK,
    POW,
    CLONE,
    SQRT,
    VECTOR_NORM,
    ADD,
    RECIPROCAL,
    MUL,
    CLAMP,
    SCALE,
    WORDS
} Word;

static const char *const NAMES[WORDS] = {
    "partial_norms", "norm_offsets", "norm",       "stack", "pow",   "clone", "sqrt",
    "vector_norm",   "add",          "reciprocal", "mul",   "clamp", "scale",
};

struct SimGradientClip {
    SimPlan *plan;
    uint32_t shard_group, shard_size;
    uint32_t compute;
    SimStringId words[WORDS], stems[WORDS];
    SimStringId all_reduce, sum;
    int32_t serials[WORDS];
};

SimGradientClip *sim_gradient_clip_new(SimPlan *plan, uint32_t shard_group, uint32_t shard_size)
{
    SimGradientClip *clip = g_new0(SimGradientClip, 1);
    SimStrings *strings = sim_plan_strings(plan);
    clip->plan = plan;
    clip->shard_group = shard_group;
    clip->shard_size = shard_size;
    clip->compute = sim_plan_stream(plan, "compute");
    for (int i = 0; i < WORDS; i++) {
        clip->words[i] = sim_strings_intern(strings, NAMES[i]);
        clip->stems[i] = sim_strings_internf(strings, "clip:%s", NAMES[i]);
    }
    clip->all_reduce = sim_strings_intern(strings, "all_reduce");
    clip->sum = sim_strings_intern(strings, "reduction=sum");
    return clip;
}

void sim_gradient_clip_free(SimGradientClip *clip)
{
    g_free(clip);
}

static uint32_t alloc(SimGradientClip *clip, Word word, uint64_t bytes)
{
    SimName name = {.stem = clip->stems[word], .serial = clip->serials[word]++};
    SimDtype dtype = word == NORM_OFFSETS ? SIM_DTYPE_I64 : SIM_DTYPE_F32;
    return sim_plan_alloc(clip->plan, clip->compute, name, bytes, SIM_CATEGORY_TEMPORARY, dtype, 0);
}

static SimInstruction *launch(SimGradientClip *clip, Word word)
{
    return sim_plan_kernel(clip->plan, clip->compute, clip->words[word], clip->words[word],
                           SIM_DTYPE_F32);
}

/* A small kernel from FROM to a new buffer. */
static uint32_t launch_small(SimGradientClip *clip, Word word, uint32_t from, uint64_t bytes)
{
    uint32_t to = alloc(clip, word, bytes);
    launch(clip, word)->hbm_bytes = sim_plan_buffer(clip->plan, from)->bytes + bytes;
    sim_plan_add_read(clip->plan, SIM_TOUCH_WHOLE(from));
    sim_plan_add_write(clip->plan, SIM_TOUCH_WHOLE(to));
    return to;
}

static void touch_gradients(SimGradientClip *clip, const GArray *tensors, const SimRankClass *class,
                            bool is_write)
{
    for (uint32_t i = 0; i < tensors->len; i++) {
        SimTouch touch =
            sim_optimizer_tensor_gradient(&g_array_index(tensors, SimOptimizerTensor, i), class);
        if (touch.bytes == 0)
            continue;
        if (is_write)
            sim_plan_add_write(clip->plan, touch);
        else
            sim_plan_add_read(clip->plan, touch);
    }
}

static uint64_t count_chunks(const SimOptimizerTensor *tensor, const SimRankClass *class)
{
    return (sim_optimizer_tensor_elements(tensor, class) + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
}

/* "chunks=4,1,0": how many partial sums each tensor has. */
static SimStringId print_chunks(SimGradientClip *clip, const GArray *tensors,
                                const SimRankClass *class)
{
    g_autoptr(GString) text = g_string_new("chunks=");
    for (uint32_t i = 0; i < tensors->len; i++)
        g_string_append_printf(text, i == 0 ? "%" PRIu64 : ",%" PRIu64,
                               count_chunks(&g_array_index(tensors, SimOptimizerTensor, i), class));
    return sim_strings_intern(sim_plan_strings(clip->plan), text->str);
}

/* A rank of CLASS: partial sums, and the kernel that makes norms of them. */
static void launch_norms(SimGradientClip *clip, const GArray *tensors, const SimRankClass *class,
                         uint32_t offsets, const uint32_t *norms)
{
    SimPlan *plan = clip->plan;
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < tensors->len; i++)
        chunks += count_chunks(&g_array_index(tensors, SimOptimizerTensor, i), class);
    uint64_t bytes = MAX(chunks, 1) * NORM_BYTES;
    uint32_t partials = alloc(clip, PARTIAL_NORMS, bytes);
    launch(clip, PARTIAL_NORMS)->hbm_bytes = sim_optimizer_tensor_sum(tensors, class) + bytes;
    touch_gradients(clip, tensors, class, false);
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(partials));
    SimStringId counts = print_chunks(clip, tensors, class);
    SimInstruction *norm = launch(clip, NORM);
    norm->hbm_bytes = bytes + NORM_BYTES * tensors->len;
    norm->arguments = counts;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(partials));
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(offsets));
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(norms[i]));
    sim_plan_free_buffer(plan, partials);
}

/* _foreach_norm: NORMS, one number a tensor. OFFSETS: where each tensor's partial sums begin. */
static void compute_norms(SimGradientClip *clip, const GArray *tensors, const GArray *classes,
                          uint32_t *norms)
{
    SimPlan *plan = clip->plan;
    uint64_t bytes = (tensors->len + UINT64_C(1)) * sim_dtype_bytes(SIM_DTYPE_I64);
    uint32_t offsets = alloc(clip, NORM_OFFSETS, bytes);
    SimInstruction *copy = sim_plan_append(plan, SIM_PLAN_COPY);
    copy->stream = (uint16_t)clip->compute;
    copy->name = clip->words[NORM_OFFSETS];
    copy->bytes = bytes;
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(offsets));
    for (uint32_t i = 0; i < tensors->len; i++)
        norms[i] = alloc(clip, NORM, NORM_BYTES);
    for (uint32_t c = 0; c < classes->len; c++) {
        const SimRankClass *class = &g_array_index(classes, SimRankClass, c);
        sim_plan_context(plan)->rank_set = class->rank_set;
        launch_norms(clip, tensors, class, offsets, norms);
    }
    sim_plan_context(plan)->rank_set = 0;
    sim_plan_free_buffer(plan, offsets);
}

static uint32_t stack_norms(SimGradientClip *clip, const uint32_t *norms, uint32_t count)
{
    uint64_t bytes = NORM_BYTES * count;
    uint32_t stacked = alloc(clip, STACK, bytes);
    launch(clip, STACK)->hbm_bytes = 2 * bytes;
    for (uint32_t i = 0; i < count; i++)
        sim_plan_add_read(clip->plan, SIM_TOUCH_WHOLE(norms[i]));
    sim_plan_add_write(clip->plan, SIM_TOUCH_WHOLE(stacked));
    return stacked;
}

/* Norms of shards become norms of whole tensors: squares, their sum over the group, the root. */
static uint32_t reduce_norms(SimGradientClip *clip, uint32_t stacked)
{
    SimPlan *plan = clip->plan;
    uint64_t bytes = sim_plan_buffer(plan, stacked)->bytes;
    uint32_t squares = launch_small(clip, POW, stacked, bytes);
    uint32_t sums = launch_small(clip, CLONE, squares, bytes);
    sim_plan_collective(plan, clip->compute, clip->all_reduce, SIM_COLLECTIVE_ALL_REDUCE,
                        clip->shard_group, bytes, SIM_DTYPE_F32)
        ->arguments = clip->sum;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(sums));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(sums));
    uint32_t roots = launch_small(clip, SQRT, sums, bytes);
    sim_plan_free_buffer(plan, squares);
    sim_plan_free_buffer(plan, sums);
    sim_plan_free_buffer(plan, stacked);
    return roots;
}

/* min(1, max_norm / (total + 1e-6)), kernel by kernel. */
static uint32_t compute_coefficient(SimGradientClip *clip, uint32_t total)
{
    static const Word STEPS[] = {ADD, RECIPROCAL, MUL, CLAMP};
    static const char *const ARGUMENTS[] = {"scalar=1e-06", "", "scalar=1", "max=1"};
    SimStrings *strings = sim_plan_strings(clip->plan);
    uint32_t value = total;
    for (size_t i = 0; i < G_N_ELEMENTS(STEPS); i++) {
        uint32_t next = launch_small(clip, STEPS[i], value, NORM_BYTES);
        sim_plan_last(clip->plan)->arguments = sim_strings_intern(strings, ARGUMENTS[i]);
        if (value != total)
            sim_plan_free_buffer(clip->plan, value);
        value = next;
    }
    return value;
}

static void scale_gradients(SimGradientClip *clip, const GArray *tensors, const GArray *classes,
                            uint32_t coefficient)
{
    for (uint32_t c = 0; c < classes->len; c++) {
        const SimRankClass *class = &g_array_index(classes, SimRankClass, c);
        sim_plan_context(clip->plan)->rank_set = class->rank_set;
        launch(clip, SCALE)->hbm_bytes = 2 * sim_optimizer_tensor_sum(tensors, class);
        touch_gradients(clip, tensors, class, false);
        sim_plan_add_read(clip->plan, SIM_TOUCH_WHOLE(coefficient));
        touch_gradients(clip, tensors, class, true);
    }
    sim_plan_context(clip->plan)->rank_set = 0;
}

void sim_gradient_clip_run(SimGradientClip *clip, const GArray *tensors)
{
    if (tensors->len == 0)
        return;
    SimPlan *plan = clip->plan;
    g_autoptr(GArray) classes = sim_optimizer_tensor_classes(plan, clip->shard_size, tensors);
    g_autofree uint32_t *norms = g_new(uint32_t, tensors->len);
    compute_norms(clip, tensors, classes, norms);
    uint32_t stacked = stack_norms(clip, norms, tensors->len);
    if (clip->shard_size > 1)
        stacked = reduce_norms(clip, stacked);
    uint32_t total = launch_small(clip, VECTOR_NORM, stacked, NORM_BYTES);
    sim_plan_free_buffer(plan, stacked);
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_free_buffer(plan, norms[i]);
    uint32_t coefficient = compute_coefficient(clip, total);
    scale_gradients(clip, tensors, classes, coefficient);
    sim_plan_free_buffer(plan, coefficient);
    sim_plan_free_buffer(plan, total);
}
