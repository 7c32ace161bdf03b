/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/ddp_reducer.h"

#include "fsdp/mesh_groups.h"

/* torch/csrc/distributed/c10d/reducer.hpp: kDefaultFirstBucketBytes, kDefaultBucketBytesCap */
#define FIRST_BUCKET_BYTES (UINT64_C(1) << 20)
#define BUCKET_BYTES (UINT64_C(25) << 20)
#define USED_BYTES 4 /* of int32: the map of used parameters */

/* Where a parameter's gradient lies among the buckets. */
typedef struct Place {
    uint32_t bucket; /* NONE: not reduced */
    uint64_t offset; /* bytes */
    uint64_t bytes;
    bool is_ready; /* in this backward */
    bool is_unused;
} Place;

struct SimDdpReducer {
    const SimJob *job;
    const SimModel *model;
    SimPlan *plan;
    uint32_t compute, all_reduce, group;
    SimStringId copy, divide, zeros, accumulate, all_reduce_word, sum, bucket_stem, event_stem;
    GArray *buckets;           /* of SimDdpBucket */
    GArray *buffers;           /* of uint32_t: by bucket */
    GArray *events;            /* of uint32_t: all-reduces of this backward */
    Place *places;             /* by parameter */
    SimDdpGradient *gradients; /* by parameter */
    GArray *arrivals;     /* of uint32_t: parameters, in the order of the backward that counts */
    uint32_t used_map;    /* find_unused_parameters; else NONE */
    uint32_t next_bucket; /* the first that is not reduced yet */
    uint32_t backwards;   /* synchronised ones that are over */
    int32_t generation;   /* of buckets */
    int32_t reductions;
    uint32_t stuck; /* parameter without a gradient that its bucket waits for; or NONE */
    bool is_rebuilt, is_reducing, has_marked_unused;
};

static SimDdpBucket *get_bucket(const SimDdpReducer *reducer, uint32_t bucket)
{
    return &g_array_index(reducer->buckets, SimDdpBucket, bucket);
}

static uint32_t get_buffer(const SimDdpReducer *reducer, uint32_t bucket)
{
    return g_array_index(reducer->buffers, uint32_t, bucket);
}

/* --- buckets -----------------------------------------------------------------------------------
 */

static GArray *list_trained(const SimModel *model)
{
    GArray *parameters = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t p = 0; p < model->parameters->len; p++)
        if (!sim_model_parameter(model, p)->is_frozen &&
            sim_model_parameter(model, p)->tied_to == SIM_MODEL_NONE)
            g_array_append_val(parameters, p);
    return parameters;
}

static GArray *assign(const SimDdpReducer *reducer, const GArray *parameters)
{
    uint64_t cap = reducer->job->ddp.bucket_cap_bytes;
    uint64_t limits[] = {cap == 0 ? FIRST_BUCKET_BYTES : cap, cap == 0 ? BUCKET_BYTES : cap};
    return sim_ddp_buckets_assign(reducer->model, parameters,
                                  sim_dtype_bytes(reducer->job->store_dtype), limits, 2);
}

static void reverse(GArray *buckets)
{
    for (uint32_t i = 0; i < buckets->len / 2; i++) {
        SimDdpBucket *first = &g_array_index(buckets, SimDdpBucket, i);
        SimDdpBucket *last = &g_array_index(buckets, SimDdpBucket, buckets->len - 1 - i);
        SimDdpBucket swapped = *first;
        *first = *last;
        *last = swapped;
    }
}

static GArray *assign_first(const SimDdpReducer *reducer)
{
    const SimJobDdp *job = &reducer->job->ddp;
    const uint64_t unlimited = UINT64_MAX;
    g_autoptr(GArray) parameters = list_trained(reducer->model);
    GArray *buckets =
        job->find_unused_parameters && !job->static_graph
            ? assign(reducer, parameters)
            : sim_ddp_buckets_assign(reducer->model, parameters,
                                     sim_dtype_bytes(reducer->job->store_dtype), &unlimited, 1);
    reverse(buckets);
    return buckets;
}

static void set_places(SimDdpReducer *reducer)
{
    for (uint32_t b = 0; b < reducer->buckets->len; b++) {
        const SimDdpBucket *bucket = get_bucket(reducer, b);
        uint64_t offset = 0;
        for (uint32_t i = 0; i < bucket->parameters->len; i++) {
            Place *place = &reducer->places[g_array_index(bucket->parameters, uint32_t, i)];
            place->bucket = b;
            place->offset = offset;
            offset += place->bytes;
        }
    }
}

static void alloc_buckets(SimDdpReducer *reducer)
{
    SimStrings *strings = sim_plan_strings(reducer->plan);
    g_array_set_size(reducer->buffers, 0);
    for (uint32_t b = 0; b < reducer->buckets->len; b++) {
        SimName name = {.stem = reducer->bucket_stem,
                        .tail = sim_strings_internf(strings, "%u", b),
                        .serial = reducer->generation};
        uint32_t buffer =
            sim_plan_alloc(reducer->plan, reducer->compute, name, get_bucket(reducer, b)->bytes,
                           SIM_CATEGORY_BUCKET, reducer->job->store_dtype, 0);
        g_array_append_val(reducer->buffers, buffer);
    }
    reducer->generation++;
    set_places(reducer);
}

SimDdpReducer *sim_ddp_reducer_new(const SimJob *job, const SimModel *model, SimPlan *plan)
{
    SimStrings *strings = sim_plan_strings(plan);
    uint32_t count = model->parameters->len;
    SimDdpReducer *reducer = g_new(SimDdpReducer, 1);
    *reducer = (SimDdpReducer){
        .job = job,
        .model = model,
        .plan = plan,
        .compute = sim_plan_stream(plan, "compute"),
        .all_reduce = sim_plan_stream(plan, "all_reduce"),
        .group = sim_mesh_groups_add_replicas(plan, "replicate", 1),
        .copy = sim_strings_intern(strings, "copy"),
        .divide = sim_strings_intern(strings, "divide"),
        .zeros = sim_strings_intern(strings, "zeros"),
        .accumulate = sim_strings_intern(strings, "accumulate"),
        .all_reduce_word = sim_strings_intern(strings, "all_reduce"),
        .sum = sim_strings_intern(strings, "reduction=sum"),
        .bucket_stem = sim_strings_intern(strings, "B:ddp"),
        .event_stem = sim_strings_intern(strings, "ar:ddp"),
        .buffers = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .events = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .places = g_new0(Place, count + 1),
        .gradients = g_new0(SimDdpGradient, count + 1),
        .arrivals = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .used_map = SIM_PLAN_NONE,
        .stuck = SIM_MODEL_NONE,
    };
    for (uint32_t p = 0; p < count; p++) {
        reducer->places[p].bucket = SIM_PLAN_NONE;
        reducer->places[p].bytes =
            sim_model_parameter(model, p)->elements * sim_dtype_bytes(job->store_dtype);
        reducer->gradients[p].buffer = SIM_PLAN_NONE;
    }
    reducer->buckets = assign_first(reducer);
    alloc_buckets(reducer);
    if (job->ddp.find_unused_parameters)
        reducer->used_map =
            sim_plan_alloc(plan, reducer->compute,
                           (SimName){.stem = sim_strings_intern(strings, "ddp:used"), .serial = -1},
                           (uint64_t)count * USED_BYTES, SIM_CATEGORY_BUFFER, SIM_DTYPE_U8, 0);
    return reducer;
}

void sim_ddp_reducer_free(SimDdpReducer *reducer)
{
    if (reducer == NULL)
        return;
    g_array_unref(reducer->buckets);
    g_array_unref(reducer->buffers);
    g_array_unref(reducer->events);
    g_array_unref(reducer->arrivals);
    g_free(reducer->places);
    g_free(reducer->gradients);
    g_free(reducer);
}

/* Asks every forward's graph what it leaves out. */
static bool finds_unused(const SimDdpReducer *reducer)
{
    return reducer->job->ddp.find_unused_parameters && !reducer->job->ddp.static_graph;
}

static bool can_rebuild(const SimDdpReducer *reducer)
{
    const SimJobDdp *job = &reducer->job->ddp;
    return !reducer->is_rebuilt && (job->static_graph || !job->find_unused_parameters);
}

/* Gradients that are parts of an old bucket keep it until they are copied into the new one. */
static void move_views(SimDdpReducer *reducer)
{
    for (uint32_t p = 0; p < reducer->model->parameters->len; p++) {
        SimDdpGradient *gradient = &reducer->gradients[p];
        const Place *place = &reducer->places[p];
        if (!gradient->is_view)
            continue;
        sim_plan_kernel(reducer->plan, reducer->compute, reducer->copy, reducer->copy,
                        reducer->job->store_dtype)
            ->hbm_bytes = 2 * place->bytes;
        sim_plan_add_read(reducer->plan, sim_ddp_reducer_touch(reducer, p));
        *gradient = (SimDdpGradient){get_buffer(reducer, place->bucket), place->offset, true};
        sim_plan_add_write(reducer->plan, sim_ddp_reducer_touch(reducer, p));
    }
}

static bool has_views(const SimDdpReducer *reducer)
{
    for (uint32_t p = 0; p < reducer->model->parameters->len; p++)
        if (reducer->gradients[p].is_view)
            return true;
    return false;
}

static void free_buffers(SimDdpReducer *reducer, const GArray *buffers)
{
    for (uint32_t i = 0; i < buffers->len; i++)
        sim_plan_free_buffer(reducer->plan, g_array_index(buffers, uint32_t, i));
}

void sim_ddp_reducer_prepare_forward(SimDdpReducer *reducer)
{
    if (!can_rebuild(reducer) || reducer->arrivals->len == 0)
        return;
    bool is_moved = has_views(reducer);
    g_autoptr(GArray) old = g_array_copy(reducer->buffers);
    if (!is_moved)
        free_buffers(reducer, old);
    g_array_unref(reducer->buckets);
    reducer->buckets = assign(reducer, reducer->arrivals);
    alloc_buckets(reducer);
    if (is_moved) {
        move_views(reducer);
        free_buffers(reducer, old);
    }
    reducer->is_rebuilt = true;
}

/* --- backward ----------------------------------------------------------------------------------
 */

SimDdpGradient sim_ddp_reducer_gradient(const SimDdpReducer *reducer, uint32_t parameter)
{
    return reducer->gradients[parameter];
}

SimTouch sim_ddp_reducer_touch(const SimDdpReducer *reducer, uint32_t parameter)
{
    const SimDdpGradient *gradient = &reducer->gradients[parameter];
    return (SimTouch){.buffer = gradient->buffer,
                      .offset = gradient->offset,
                      .bytes = reducer->places[parameter].bytes};
}

static SimTouch touch_bucket(const SimDdpReducer *reducer, uint32_t parameter)
{
    const Place *place = &reducer->places[parameter];
    return (SimTouch){.buffer = get_buffer(reducer, place->bucket),
                      .offset = place->offset,
                      .bytes = place->bytes};
}

static SimInstruction *launch(SimDdpReducer *reducer, SimStringId word, uint64_t bytes)
{
    SimInstruction *kernel =
        sim_plan_kernel(reducer->plan, reducer->compute, word, word, reducer->job->store_dtype);
    kernel->hbm_bytes = bytes;
    return kernel;
}

/* mark_variable_ready_dense: the gradient, divided by the ranks, into the bucket. */
static void fill_bucket(SimDdpReducer *reducer, uint32_t parameter)
{
    SimDdpGradient *gradient = &reducer->gradients[parameter];
    SimTouch part = touch_bucket(reducer, parameter);
    if (gradient->buffer == SIM_PLAN_NONE) {
        launch(reducer, reducer->zeros, part.bytes);
        sim_plan_add_write(reducer->plan, part);
        return;
    }
    SimStringId arguments =
        sim_strings_internf(sim_plan_strings(reducer->plan), "factor=%u", reducer->job->ranks);
    launch(reducer, reducer->divide, 2 * part.bytes)->arguments = arguments;
    sim_plan_add_read(reducer->plan, sim_ddp_reducer_touch(reducer, parameter));
    sim_plan_add_write(reducer->plan, part);
    if (!reducer->job->ddp.gradient_as_bucket_view || gradient->is_view)
        return;
    sim_plan_free_buffer(reducer->plan, gradient->buffer);
    *gradient = (SimDdpGradient){part.buffer, part.offset, true};
}

static bool is_complete(const SimDdpReducer *reducer, uint32_t bucket)
{
    const GArray *parameters = get_bucket(reducer, bucket)->parameters;
    for (uint32_t i = 0; i < parameters->len; i++)
        if (!reducer->places[g_array_index(parameters, uint32_t, i)].is_ready)
            return false;
    return true;
}

static void reduce(SimDdpReducer *reducer, uint32_t buffer, SimDtype dtype)
{
    SimPlan *plan = reducer->plan;
    uint64_t bytes = sim_plan_buffer(plan, buffer)->bytes;
    sim_plan_wait_stream(plan, reducer->all_reduce, reducer->compute);
    sim_plan_collective(plan, reducer->all_reduce, reducer->all_reduce_word,
                        SIM_COLLECTIVE_ALL_REDUCE, reducer->group, bytes, dtype)
        ->arguments = reducer->sum;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(buffer));
    SimName name = {.stem = reducer->event_stem, .serial = reducer->reductions++};
    uint32_t event = sim_plan_record(plan, reducer->all_reduce, name);
    g_array_append_val(reducer->events, event);
}

/* all_reduce_local_used_map: which parameters any rank has used. */
static void reduce_used_map(SimDdpReducer *reducer)
{
    if (reducer->used_map == SIM_PLAN_NONE || reducer->job->ddp.static_graph)
        return;
    uint64_t bytes = sim_plan_buffer(reducer->plan, reducer->used_map)->bytes;
    SimInstruction *copy = sim_plan_append(reducer->plan, SIM_PLAN_COPY);
    copy->stream = (uint16_t)reducer->compute;
    copy->name = reducer->copy;
    copy->bytes = bytes;
    sim_plan_add_write(reducer->plan, SIM_TOUCH_WHOLE(reducer->used_map));
    reduce(reducer, reducer->used_map, SIM_DTYPE_U8);
}

/* static_graph: what is used is only known after the first backward. */
static bool is_delayed(const SimDdpReducer *reducer)
{
    return reducer->job->ddp.static_graph && reducer->backwards == 0;
}

static void mark_ready(SimDdpReducer *reducer, uint32_t parameter)
{
    if (reducer->places[parameter].bucket == SIM_PLAN_NONE || reducer->places[parameter].is_ready)
        return;
    if (can_rebuild(reducer) && !is_delayed(reducer))
        g_array_append_val(reducer->arrivals, parameter);
    fill_bucket(reducer, parameter);
    reducer->places[parameter].is_ready = true;
    while (reducer->next_bucket < reducer->buckets->len &&
           is_complete(reducer, reducer->next_bucket)) {
        reduce(reducer, get_buffer(reducer, reducer->next_bucket), reducer->job->store_dtype);
        reducer->next_bucket++;
        if (reducer->next_bucket == reducer->buckets->len)
            reduce_used_map(reducer);
    }
}

static void mark_unused(SimDdpReducer *reducer)
{
    for (uint32_t p = 0; p < reducer->model->parameters->len; p++)
        if (reducer->places[p].is_unused)
            mark_ready(reducer, p);
    reducer->has_marked_unused = true;
}

void sim_ddp_reducer_prepare_backward(SimDdpReducer *reducer, const bool *is_used)
{
    reducer->is_reducing = true;
    reducer->has_marked_unused = false;
    reducer->next_bucket = 0;
    for (uint32_t p = 0; p < reducer->model->parameters->len; p++) {
        reducer->places[p].is_ready = false;
        reducer->places[p].is_unused = !is_used[p];
    }
    if (finds_unused(reducer))
        mark_unused(reducer);
}

static void add(SimDdpReducer *reducer, uint32_t parameter, uint32_t buffer)
{
    SimDdpGradient *gradient = &reducer->gradients[parameter];
    if (gradient->buffer == SIM_PLAN_NONE) {
        *gradient = (SimDdpGradient){buffer, 0, false};
        return;
    }
    launch(reducer, reducer->accumulate, 3 * reducer->places[parameter].bytes);
    sim_plan_add_read(reducer->plan, sim_ddp_reducer_touch(reducer, parameter));
    sim_plan_add_read(reducer->plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(reducer->plan, sim_ddp_reducer_touch(reducer, parameter));
    sim_plan_free_buffer(reducer->plan, buffer);
}

void sim_ddp_reducer_add_gradient(SimDdpReducer *reducer, uint32_t parameter, uint32_t buffer)
{
    add(reducer, parameter, buffer);
    if (!reducer->is_reducing || is_delayed(reducer))
        return;
    if (reducer->job->ddp.static_graph && !reducer->has_marked_unused)
        mark_unused(reducer);
    mark_ready(reducer, parameter);
}

/* copy_bucket_to_grad; a gradient that no rank has is left alone. */
static void copy_back(SimDdpReducer *reducer, uint32_t bucket)
{
    const GArray *parameters = get_bucket(reducer, bucket)->parameters;
    for (uint32_t i = 0; i < parameters->len; i++) {
        uint32_t parameter = g_array_index(parameters, uint32_t, i);
        const SimDdpGradient *gradient = &reducer->gradients[parameter];
        if (gradient->buffer == SIM_PLAN_NONE || gradient->is_view)
            continue;
        launch(reducer, reducer->copy, 2 * reducer->places[parameter].bytes);
        sim_plan_add_read(reducer->plan, touch_bucket(reducer, parameter));
        sim_plan_add_write(reducer->plan, sim_ddp_reducer_touch(reducer, parameter));
    }
}

static bool has_unused(const SimDdpReducer *reducer)
{
    for (uint32_t p = 0; p < reducer->model->parameters->len; p++)
        if (reducer->places[p].bucket != SIM_PLAN_NONE && reducer->places[p].is_unused)
            return true;
    return false;
}

/* What was delayed, or got no gradient although it was used. */
static void mark_rest(SimDdpReducer *reducer)
{
    bool can_wait = finds_unused(reducer) || reducer->job->ddp.static_graph;
    for (uint32_t p = 0; p < reducer->model->parameters->len; p++) {
        const Place *place = &reducer->places[p];
        if (place->bucket != SIM_PLAN_NONE && !place->is_ready && !can_wait)
            reducer->stuck = MIN(reducer->stuck, p);
        mark_ready(reducer, p);
    }
}

uint32_t sim_ddp_reducer_stuck(const SimDdpReducer *reducer)
{
    return reducer->stuck;
}

void sim_ddp_reducer_finish_backward(SimDdpReducer *reducer)
{
    if (!reducer->is_reducing)
        return;
    mark_rest(reducer);
    bool has_map = reducer->events->len > reducer->buckets->len;
    bool asks = has_map && has_unused(reducer);
    /* A rank that left parameters out asks whether another has used them: the host waits. */
    if (asks)
        sim_plan_host_wait(reducer->plan,
                           g_array_index(reducer->events, uint32_t, reducer->events->len - 1));
    for (uint32_t b = 0; b < reducer->buckets->len; b++) {
        sim_plan_wait(reducer->plan, reducer->compute, g_array_index(reducer->events, uint32_t, b));
        copy_back(reducer, b);
    }
    /* finalize_backward: before the next backward writes the map */
    if (has_map && !asks)
        sim_plan_wait(reducer->plan, reducer->compute,
                      g_array_index(reducer->events, uint32_t, reducer->events->len - 1));
    g_array_set_size(reducer->events, 0);
    reducer->is_reducing = false;
    reducer->backwards++;
}

void sim_ddp_reducer_drop_gradient(SimDdpReducer *reducer, uint32_t parameter)
{
    SimDdpGradient *gradient = &reducer->gradients[parameter];
    if (gradient->buffer != SIM_PLAN_NONE && !gradient->is_view)
        sim_plan_free_buffer(reducer->plan, gradient->buffer);
    *gradient = (SimDdpGradient){SIM_PLAN_NONE, 0, false};
}

uint32_t sim_ddp_reducer_group(const SimDdpReducer *reducer)
{
    return reducer->group;
}
