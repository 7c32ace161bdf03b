/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/optimizer.h"

#include "fsdp/optimizer_method.h"

#define STEP_BYTES UINT64_C(4)
/* bitsandbytes: Optimizer8bit(min_8bit_size, block_wise) and its tables of 256 values. */
#define LEAST_QUANTISED UINT64_C(4096)
#define QUANTISED_BLOCK UINT64_C(256)
#define MAP_BYTES UINT64_C(1024)

/* A buffer that exists once for ranks with all rows (0) and once for the rank with the rest (1). */
typedef struct Pair {
    uint32_t buffers[2];
} Pair;

typedef struct States {
    uint32_t step; /* SIM_PLAN_NONE where there is none */
    bool is_born;
    Pair states[SIM_OPTIMIZER_MOST_STATES];
} States;

struct SimOptimizer {
    SimPlan *plan;
    const SimOptimizerMethod *method;
    GArray *states;      /* of States, by parameter */
    GArray *temporaries; /* of Pair: of the step that runs; by tensor, or of the last tensor */
    uint32_t shard_size;
    uint32_t compute;
    bool has_maps;
    int32_t serial; /* of temporaries */
};

static const Pair no_pair = {{SIM_PLAN_NONE, SIM_PLAN_NONE}};

SimOptimizer *sim_optimizer_new(SimPlan *plan, SimJobOptimizer kind, uint32_t parameters,
                                uint32_t shard_size)
{
    SimOptimizer *optimizer = g_new0(SimOptimizer, 1);
    optimizer->plan = plan;
    optimizer->method = sim_optimizer_method_get(kind);
    optimizer->states = g_array_new(FALSE, TRUE, sizeof(States));
    optimizer->temporaries = g_array_new(FALSE, TRUE, sizeof(Pair));
    g_array_set_size(optimizer->states, parameters);
    optimizer->shard_size = shard_size;
    optimizer->compute = sim_plan_stream(plan, "compute");
    return optimizer;
}

void sim_optimizer_free(SimOptimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    g_array_unref(optimizer->states);
    g_array_unref(optimizer->temporaries);
    g_free(optimizer);
}

static const SimOptimizerTensor *get_tensor(const GArray *tensors, uint32_t index)
{
    return &g_array_index(tensors, SimOptimizerTensor, index);
}

static States *get_states(const SimOptimizer *optimizer, const SimOptimizerTensor *tensor)
{
    return &g_array_index(optimizer->states, States, tensor->parameter);
}

/* --- buffers -----------------------------------------------------------------------------------
 */

static SimName name_state(SimOptimizer *optimizer, const SimOptimizerTensor *tensor,
                          const char *what, int32_t serial)
{
    SimPlan *plan = optimizer->plan;
    SimStrings *strings = sim_plan_strings(plan);
    return (SimName){
        .stem = sim_strings_internf(strings, "S:%s", sim_plan_string(plan, tensor->unit)),
        .tail = sim_strings_internf(strings, "%s.%s", sim_plan_string(plan, tensor->tail), what),
        .serial = serial,
    };
}

static bool is_matrix(const SimOptimizerTensor *tensor)
{
    return tensor->shard.row_elements > 1;
}

static uint64_t state_bytes(const SimOptimizerTensor *tensor, SimOptimizerStateSize size,
                            uint64_t elements)
{
    uint64_t element = sim_dtype_bytes(tensor->dtype);
    bool is_quantised = elements >= LEAST_QUANTISED;
    switch (size) {
    case SIM_STATE_LIKE_VALUE:
        return elements * element;
    case SIM_STATE_QUANTISED:
        return elements * (is_quantised ? 1 : 4);
    case SIM_STATE_MAXIMA:
        return is_quantised ? (elements + QUANTISED_BLOCK - 1) / QUANTISED_BLOCK * 4 : 0;
    case SIM_STATE_ROWS:
        return is_matrix(tensor) ? elements / tensor->shard.row_elements * element : 0;
    case SIM_STATE_COLUMNS:
        return is_matrix(tensor) ? tensor->shard.row_elements * element : 0;
    case SIM_STATE_VECTOR:
        return is_matrix(tensor) ? 0 : elements * element;
    }
    g_assert_not_reached();
}

static SimDtype state_dtype(const SimOptimizerTensor *tensor, SimOptimizerStateSize size)
{
    return size == SIM_STATE_QUANTISED ? SIM_DTYPE_U8
           : size == SIM_STATE_MAXIMA  ? SIM_DTYPE_F32
                                       : tensor->dtype;
}

/* torch.zeros and zeros_like: states are born as zeros. */
static void launch_zeros(SimOptimizer *optimizer, uint32_t buffer)
{
    SimPlan *plan = optimizer->plan;
    SimStringId word = sim_strings_intern(sim_plan_strings(plan), "zeros");
    const SimBuffer *state = sim_plan_buffer(plan, buffer);
    SimInstruction *row =
        sim_plan_kernel(plan, optimizer->compute, word, word, (SimDtype)state->dtype);
    row->hbm_bytes = state->bytes;
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(buffer));
}

/* WHAT of TENSOR, for the ranks with all rows and for the one with the rest. */
static Pair alloc_pair(SimOptimizer *optimizer, const SimOptimizerTensor *tensor, const char *what,
                       SimOptimizerStateSize size, SimCategory category, int32_t serial)
{
    SimPlan *plan = optimizer->plan;
    SimPlanContext *context = sim_plan_context(plan);
    uint32_t ranks = context->rank_set;
    uint32_t breaks[3] = {0, 0, 0};
    Pair pair = no_pair;
    sim_shard_find_breaks(&tensor->shard, optimizer->shard_size, &breaks[1], &breaks[2]);
    for (int32_t i = 0; i < 2; i++) {
        if (breaks[i] == breaks[i + 1])
            continue;
        SimRankClass class =
            sim_rank_classes_make(plan, optimizer->shard_size, breaks[i], breaks[i + 1]);
        uint64_t bytes = state_bytes(tensor, size, sim_optimizer_tensor_elements(tensor, &class));
        if (bytes == 0)
            continue;
        context->rank_set = class.rank_set == 0 ? ranks : class.rank_set;
        pair.buffers[i] = sim_plan_alloc(plan, optimizer->compute,
                                         name_state(optimizer, tensor, what, 2 * serial + i), bytes,
                                         category, state_dtype(tensor, size), 0);
        if (category == SIM_CATEGORY_OPTIMIZER_STATE)
            launch_zeros(optimizer, pair.buffers[i]);
    }
    context->rank_set = ranks;
    return pair;
}

static void free_pair(SimOptimizer *optimizer, const Pair *pair)
{
    for (int i = 0; i < 2; i++)
        if (pair->buffers[i] != SIM_PLAN_NONE)
            sim_plan_free_buffer(optimizer->plan, pair->buffers[i]);
}

static void alloc_maps(SimOptimizer *optimizer)
{
    SimStringId stem = sim_strings_intern(sim_plan_strings(optimizer->plan), "S:qmap");
    for (int32_t i = 0; i < 2; i++)
        sim_plan_alloc(optimizer->plan, optimizer->compute, (SimName){.stem = stem, .serial = i},
                       MAP_BYTES, SIM_CATEGORY_OPTIMIZER_STATE, SIM_DTYPE_F32, 0);
    optimizer->has_maps = true;
}

static void alloc_states(SimOptimizer *optimizer, const SimOptimizerTensor *tensor)
{
    const SimOptimizerMethod *method = optimizer->method;
    SimPlan *plan = optimizer->plan;
    States *states = get_states(optimizer, tensor);
    sim_plan_context(plan)->unit = tensor->unit;
    if (method->has_maps && !optimizer->has_maps)
        alloc_maps(optimizer);
    states->step = SIM_PLAN_NONE;
    if (method->has_device_step)
        states->step =
            sim_plan_alloc(plan, optimizer->compute, name_state(optimizer, tensor, "step", 0),
                           STEP_BYTES, SIM_CATEGORY_OPTIMIZER_STATE, SIM_DTYPE_F32, 0);
    if (states->step != SIM_PLAN_NONE)
        launch_zeros(optimizer, states->step);
    for (uint32_t i = 0; i < method->n_states; i++)
        states->states[i] = alloc_pair(optimizer, tensor, method->states[i].name,
                                       method->states[i].size, SIM_CATEGORY_OPTIMIZER_STATE, 0);
    sim_plan_context(plan)->unit = 0;
}

/* --- passes ------------------------------------------------------------------------------------
 */

/* Which of a tensor's two kinds of buffers a rank of CLASS has. */
static int find_kind(const SimOptimizer *optimizer, const SimOptimizerTensor *tensor,
                     const SimRankClass *class)
{
    uint32_t first_partial, first_empty;
    sim_shard_find_breaks(&tensor->shard, optimizer->shard_size, &first_partial, &first_empty);
    return class->first < first_partial ? 0 : 1;
}

typedef void (*TouchFunc)(SimPlan *plan, SimTouch touch);

static uint64_t touch_buffer(SimOptimizer *optimizer, uint32_t buffer, TouchFunc touch)
{
    if (buffer == SIM_PLAN_NONE)
        return 0;
    touch(optimizer->plan, SIM_TOUCH_WHOLE(buffer));
    return sim_plan_buffer(optimizer->plan, buffer)->bytes;
}

/* OPERANDS of TENSOR, in the order in which the operators take them; returns their bytes. */
static uint64_t touch_operands(SimOptimizer *optimizer, const SimOptimizerTensor *tensor,
                               const Pair *temporary, const SimRankClass *class, uint8_t operands,
                               TouchFunc touch)
{
    uint64_t bytes = sim_optimizer_tensor_bytes(tensor, class), touched = 0;
    const States *states = get_states(optimizer, tensor);
    int kind = find_kind(optimizer, tensor, class);
    if ((operands & SIM_OPERAND_VALUE) != 0 && bytes > 0) {
        touch(optimizer->plan,
              (SimTouch){.buffer = tensor->value, .offset = tensor->value_offset, .bytes = bytes});
        touched += bytes;
    }
    if ((operands & SIM_OPERAND_GRADIENT) != 0 && bytes > 0) {
        touch(optimizer->plan, sim_optimizer_tensor_gradient(tensor, class));
        touched += bytes;
    }
    for (uint32_t i = 0; i < optimizer->method->n_states && bytes > 0; i++)
        if ((operands & SIM_OPERAND_STATE_0 << i) != 0)
            touched += touch_buffer(optimizer, states->states[i].buffers[kind], touch);
    if ((operands & SIM_OPERAND_TEMPORARY) != 0 && bytes > 0)
        touched += touch_buffer(optimizer, temporary->buffers[kind], touch);
    if ((operands & SIM_OPERAND_STEP) != 0 && (bytes > 0 || (operands & SIM_OPERAND_VALUE) == 0))
        touch_buffer(optimizer, states->step, touch);
    return touched;
}

static void touch_tensors(SimOptimizer *optimizer, const GArray *tensors, uint32_t first,
                          uint32_t n, const SimRankClass *class, uint8_t operands, TouchFunc touch,
                          uint64_t *bytes)
{
    const GArray *temporaries = optimizer->temporaries;
    for (uint32_t i = first; i < first + n; i++) {
        const Pair *temporary = &no_pair;
        if (temporaries->len > 0)
            temporary = &g_array_index(temporaries, Pair, MIN(i, temporaries->len - 1));
        *bytes +=
            touch_operands(optimizer, get_tensor(tensors, i), temporary, class, operands, touch);
    }
}

/* PASS over the N tensors from FIRST on, on the ranks of CLASS. */
static void launch(SimOptimizer *optimizer, const SimOptimizerPass *pass, const GArray *tensors,
                   uint32_t first, uint32_t n, const SimRankClass *class)
{
    SimPlan *plan = optimizer->plan;
    uint32_t ranks = sim_plan_context(plan)->rank_set;
    uint64_t bytes = 0;
    SimStringId word = sim_strings_intern(sim_plan_strings(plan), pass->word);
    sim_plan_context(plan)->rank_set = class->rank_set == 0 ? ranks : class->rank_set;
    sim_plan_kernel(plan, optimizer->compute, word, word, SIM_DTYPE_F32);
    touch_tensors(optimizer, tensors, first, n, class, pass->reads, sim_plan_add_read, &bytes);
    touch_tensors(optimizer, tensors, first, n, class, pass->writes, sim_plan_add_write, &bytes);
    sim_plan_last(plan)->hbm_bytes = bytes;
    sim_plan_context(plan)->rank_set = ranks;
}

/* The numbers of steps are the same on all ranks; everything else is of the true rows. */
static void launch_all(SimOptimizer *optimizer, const SimOptimizerPass *pass, const GArray *tensors,
                       uint32_t first, uint32_t n)
{
    const SimRankClass everyone = {0};
    if (pass->writes == SIM_OPERAND_STEP) {
        launch(optimizer, pass, tensors, first, n, &everyone);
        return;
    }
    g_autoptr(GArray) classes =
        sim_optimizer_tensor_classes(optimizer->plan, optimizer->shard_size, tensors);
    for (uint32_t i = 0; i < classes->len; i++)
        launch(optimizer, pass, tensors, first, n, &g_array_index(classes, SimRankClass, i));
}

/* --- a step ------------------------------------------------------------------------------------
 */

/* True if the tensor's states are new. */
static bool give_birth(SimOptimizer *optimizer, const GArray *tensors, uint32_t index)
{
    States *states = get_states(optimizer, get_tensor(tensors, index));
    if (states->is_born)
        return false;
    states->is_born = true;
    alloc_states(optimizer, get_tensor(tensors, index));
    for (uint32_t i = 0; i < optimizer->method->n_passes; i++)
        if (optimizer->method->passes[i].is_first_only)
            launch_all(optimizer, &optimizer->method->passes[i], tensors, index, 1);
    return true;
}

static void hold_temporary(SimOptimizer *optimizer, const SimOptimizerTensor *tensor)
{
    Pair pair = alloc_pair(optimizer, tensor, "temporary", SIM_STATE_LIKE_VALUE,
                           SIM_CATEGORY_TEMPORARY, optimizer->serial++);
    g_array_append_val(optimizer->temporaries, pair);
}

/* All but the last KEPT, oldest first. */
static void drop_temporaries(SimOptimizer *optimizer, uint32_t kept)
{
    GArray *temporaries = optimizer->temporaries;
    uint32_t n = temporaries->len > kept ? temporaries->len - kept : 0;
    for (uint32_t i = 0; i < n; i++)
        free_pair(optimizer, &g_array_index(temporaries, Pair, i));
    g_array_remove_range(temporaries, 0, n);
}

static void step_lists(SimOptimizer *optimizer, const GArray *tensors)
{
    const SimOptimizerMethod *method = optimizer->method;
    g_autofree bool *is_new = g_new0(bool, tensors->len);
    bool is_any_new = false;
    for (uint32_t i = 0; i < tensors->len; i++) {
        is_new[i] = give_birth(optimizer, tensors, i);
        is_any_new = is_any_new || is_new[i];
    }
    for (uint32_t p = 0; p < method->n_passes; p++) {
        const SimOptimizerPass *pass = &method->passes[p];
        if (pass->is_first_only)
            continue;
        bool makes_temporaries = (pass->writes & ~pass->reads & SIM_OPERAND_TEMPORARY) != 0;
        for (uint32_t i = 0; makes_temporaries && i < tensors->len; i++)
            hold_temporary(optimizer, get_tensor(tensors, i));
        if (!pass->is_later_only || !is_any_new)
            launch_all(optimizer, pass, tensors, 0, tensors->len);
        for (uint32_t i = 0; pass->is_later_only && is_any_new && i < tensors->len; i++)
            if (!is_new[i])
                launch_all(optimizer, pass, tensors, i, 1);
    }
    drop_temporaries(optimizer, 0);
}

/* A variable of the loop is bound anew: the old value dies when the new one exists. */
static void step_tensors(SimOptimizer *optimizer, const GArray *tensors)
{
    const SimOptimizerMethod *method = optimizer->method;
    for (uint32_t i = 0; !method->is_born_by_tensor && i < tensors->len; i++)
        give_birth(optimizer, tensors, i);
    for (uint32_t i = 0; i < tensors->len; i++) {
        const SimOptimizerTensor *tensor = get_tensor(tensors, i);
        give_birth(optimizer, tensors, i);
        uint32_t n_temporaries = method->n_temporaries;
        n_temporaries -= n_temporaries > 1 && is_matrix(tensor);
        for (uint32_t t = 0; t < n_temporaries; t++) {
            hold_temporary(optimizer, tensor);
            drop_temporaries(optimizer, n_temporaries);
        }
        for (uint32_t p = 0; p < method->n_passes; p++)
            launch_all(optimizer, &method->passes[p], tensors, i, 1);
    }
    drop_temporaries(optimizer, 0);
}

void sim_optimizer_step(SimOptimizer *optimizer, const GArray *tensors)
{
    if (tensors->len == 0)
        return;
    if (optimizer->method->is_by_tensor)
        step_tensors(optimizer, tensors);
    else
        step_lists(optimizer, tensors);
}
