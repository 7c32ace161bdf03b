/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_experts.h"

#include "model/forward.h"
#include "model/module_tree.h"

static bool is_qwen(const SimModelConfig *config)
{
    return config->architecture == SIM_ARCHITECTURE_QWEN3_MOE;
}

/* router_top_value /= router_top_value.sum(dim=-1, keepdim=True): autograd keeps a copy of what it
 * was. */
static SimSlot write_normalized(SimProgram *p, SimSlot values)
{
    SimAttributes kept = {.dim = 1, .length = 1};
    SimSlot inputs[] = {values, 0, sim_program_call(p, SIM_OPERATOR_SUM_DIM, &kept, 1, &values)};
    inputs[1] = sim_forward_unary(p, SIM_OPERATOR_COPY, values);
    return sim_program_rebind(p, values,
                              sim_program_call(p, SIM_OPERATOR_DIV_IN_PLACE, NULL, 3, inputs));
}

/* forward(hidden_states) -> router_logits, router_scores, router_indices. */
static SimProgram *write_gate(const SimModelConfig *config)
{
    SimProgram *p = sim_program_new(1);
    int64_t rows[] = {SIM_DIM_REST, (int64_t)config->hidden};
    SimSlot hidden = sim_program_bind(p, sim_forward_view(p, 0, 2, rows));
    SimSlot logits = sim_program_bind(
        p, sim_forward_binary(p, SIM_OPERATOR_LINEAR, hidden, SIM_SLOT_PARAMETER(0)));
    SimSlot wide = sim_forward_cast(p, logits, SIM_DTYPE_F32);
    SimSlot shares = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SOFTMAX, wide));
    SimAttributes best = {.length = config->experts_per_token};
    SimSlot chosen[2] = {0, 0};
    sim_program_call_many(p, SIM_OPERATOR_TOPK, &best, 1, &shares, 2, chosen);
    SimSlot values = sim_program_bind(p, chosen[0]);
    sim_program_bind(p, chosen[1]);
    if (config->is_topk_normalized)
        values = write_normalized(p, values);
    if (is_qwen(config))
        values = sim_program_rebind(p, values, sim_forward_cast(p, values, SIM_DTYPE_NONE));
    SimSlot results[] = {logits, values, chosen[1]};
    sim_program_finish(p, 3, results);
    return p;
}

/* gate, up = proj_out.chunk(2, dim=-1); silu(gate) * up */
static SimSlot write_gated(SimProgram *p, SimSlot both, uint64_t width)
{
    SimAttributes halves = {.dim = 1, .length = width};
    SimSlot parts[2] = {0, 0};
    sim_program_open_function(p);
    sim_program_call_many(p, SIM_OPERATOR_SPLIT, &halves, 1, &both, 2, parts);
    sim_program_bind(p, parts[0]);
    sim_program_bind(p, parts[1]);
    SimSlot active = sim_forward_unary(p, SIM_OPERATOR_SILU, parts[0]);
    SimSlot product = sim_forward_binary(p, SIM_OPERATOR_MUL, active, parts[1]);
    sim_program_close_function(p, 1, &product);
    return product;
}

/* The offsets at which each expert's rows end. */
static SimSlot write_offsets(SimProgram *p, const SimModelConfig *config, SimSlot sorted)
{
    SimSlot small = sim_program_bind(p, sim_forward_cast(p, sorted, SIM_DTYPE_I32));
    SimAttributes bins = {.length = config->experts}, whole = {.dtype = SIM_DTYPE_I32};
    SimSlot counts = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_HISTC, &bins, 1, &small));
    return sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_CUMSUM, &whole, 1, &counts));
}

static SimSlot write_grouped(SimProgram *p, SimSlot rows, uint32_t parameter, SimSlot offsets)
{
    SimSlot inputs[] = {rows, SIM_SLOT_PARAMETER(parameter), offsets};
    return sim_program_call(p, SIM_OPERATOR_GROUPED_MM, NULL, 3, inputs);
}

/* Rows back in the order of tokens, and their sum over a token's experts. */
static SimSlot write_restored(SimProgram *p, const SimModelConfig *config, SimSlot weighted,
                              SimSlot permutation)
{
    SimAttributes rows = {
        .dims = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)config->experts_per_token}, .n_dims = 3};
    SimSlot inverse = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_EMPTY, permutation));
    SimSlot inputs[] = {inverse, permutation,
                        sim_program_call(p, SIM_OPERATOR_ARANGE, &rows, 0, NULL)};
    SimSlot none = SIM_SLOT_NONE;
    sim_program_call_many(p, SIM_OPERATOR_INDEX_PUT, NULL, 3, inputs, 1, &none);
    weighted = sim_program_rebind(p, weighted,
                                  sim_forward_binary(p, SIM_OPERATOR_INDEX, weighted, inverse));
    int64_t apart[] = {SIM_DIM_REST, (int64_t)config->experts_per_token, (int64_t)config->hidden};
    SimAttributes over = {.dim = 1};
    SimSlot view = sim_forward_view(p, weighted, 3, apart);
    SimSlot sum = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_SUM_DIM, &over, 1, &view));
    return sim_forward_cast(p, sum, SIM_DTYPE_NONE);
}

/* grouped_mm_experts_forward(hidden_states, top_k_index, top_k_weights): rows sorted by expert, so
 * that one grouped product serves all. Parameters: gate_up_proj, down_proj. */
static SimProgram *write_grouped_experts(const SimModelConfig *config)
{
    SimProgram *p = sim_program_new(3);
    int64_t flat[] = {SIM_DIM_REST}, column[] = {SIM_DIM_REST, 1};
    SimSlot weights = sim_program_bind(p, sim_forward_view(p, 2, 1, flat));
    SimSlot ids = sim_program_bind(p, sim_forward_view(p, 1, 1, flat)), sorted[2] = {0, 0};
    sim_program_call_many(p, SIM_OPERATOR_SORT, NULL, 1, &ids, 2, sorted);
    sim_program_bind(p, sorted[0]);
    SimSlot permutation = sim_program_bind(p, sorted[1]);
    SimSlot tokens = sim_forward_scalar(p, SIM_OPERATOR_FLOOR_DIVIDE, permutation,
                                        (double)config->experts_per_token);
    SimSlot rows = sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_INDEX, 0, tokens));
    SimSlot shares =
        sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_INDEX, weights, permutation));
    SimSlot offsets = write_offsets(p, config, sorted[0]);
    SimSlot out = sim_program_bind(p, write_grouped(p, rows, 0, offsets));
    out = sim_program_rebind(p, out, write_gated(p, out, config->expert_intermediate));
    out = sim_program_rebind(p, out, write_grouped(p, out, 1, offsets));
    SimSlot share = sim_forward_view(p, shares, 2, column);
    SimSlot weighted = sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_MUL, out, share));
    SimSlot result = write_restored(p, config, weighted, permutation);
    sim_program_finish(p, 1, &result);
    return p;
}

/* A mask of the experts of each token, [experts + 1, k, T], and the list of those that have any:
 * all, as if the router were balanced. Both are bound. */
static SimSlot write_hits(SimProgram *p, const SimModelConfig *config, SimSlot *mask)
{
    int64_t experts = (int64_t)config->experts, k = (int64_t)config->experts_per_token;
    SimAttributes one_hot = {.dims = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, k, experts + 1},
                             .n_dims = 4,
                             .dtype = SIM_DTYPE_I64};
    SimAttributes bins = {.length = config->experts + 1},
                  list = {.dims = {experts, 1}, .n_dims = 2};
    *mask = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_FILL, &one_hot, 0, NULL));
    SimSlot counts = sim_program_call(p, SIM_OPERATOR_HISTC, &bins, 1, mask);
    SimSlot is_hit = sim_forward_unary(p, SIM_OPERATOR_COMPARE, counts);
    return sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_NONZERO, &list, 1, &is_hit));
}

/* Variables of the loop, in the order in which its first turn binds them. */
typedef enum Variable { POSITION, TOKEN, STATE, GATE, UP, HIDDEN, N_VARIABLES } Variable;

static SimSlot set_variable(SimProgram *p, SimSlot *variables, Variable which, SimSlot value)
{
    SimSlot old = variables[which];
    variables[which] = value;
    return old == SIM_SLOT_NONE ? sim_program_bind(p, value) : sim_program_rebind(p, old, value);
}

/* top_k_pos, token_idx = torch.where(expert_mask[expert_idx]), after a look at the expert's number.
 */
static void write_where(SimProgram *p, const SimModelConfig *config, uint64_t expert, SimSlot mask,
                        SimSlot hits, SimSlot *variables)
{
    int64_t flat[] = {SIM_DIM_REST};
    SimAttributes one = {.start = expert};
    SimAttributes share = {.start = config->experts, .length = config->experts_per_token};
    SimSlot number = sim_program_call(p, SIM_OPERATOR_SELECT, &one, 1, &hits);
    SimSlot none = SIM_SLOT_NONE;
    sim_program_call_many(p, SIM_OPERATOR_COMPARE, NULL, 1, &number, 1, &none);
    SimSlot places =
        sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_NONZERO, &share, 1, &mask));
    SimSlot columns[2];
    for (uint32_t i = 0; i < 2; i++)
        columns[i] = sim_forward_view(p, sim_forward_slice(p, places, 1, i, 1), 1, flat);
    sim_program_delete(p, places);
    set_variable(p, variables, POSITION, columns[0]);
    set_variable(p, variables, TOKEN, columns[1]);
}

static SimSlot write_expert_linear(SimProgram *p, SimSlot rows, uint32_t parameter, uint64_t expert)
{
    SimAttributes one = {.start = expert};
    SimSlot stack = SIM_SLOT_PARAMETER(parameter);
    SimSlot weight = sim_program_call(p, SIM_OPERATOR_SELECT, &one, 1, &stack);
    return sim_forward_binary(p, SIM_OPERATOR_LINEAR, rows, weight);
}

/* One turn: what EXPERT makes of its tokens is added into FINAL, which is returned. */
static SimSlot write_turn(SimProgram *p, const SimModelConfig *config, uint64_t expert,
                          SimSlot final, SimSlot *variables)
{
    int64_t apart[] = {SIM_DIM_REST, (int64_t)config->experts_per_token, 1};
    SimAttributes halves = {.dim = 1, .length = config->expert_intermediate};
    SimSlot state = sim_forward_binary(p, SIM_OPERATOR_INDEX, 0, variables[TOKEN]);
    state = set_variable(p, variables, STATE, state);
    SimSlot both = write_expert_linear(p, state, 0, expert), parts[2] = {0, 0};
    sim_program_call_many(p, SIM_OPERATOR_SPLIT, &halves, 1, &both, 2, parts);
    set_variable(p, variables, GATE, parts[0]);
    set_variable(p, variables, UP, parts[1]);
    SimSlot active = sim_forward_unary(p, SIM_OPERATOR_SILU, variables[GATE]);
    SimSlot hidden = sim_forward_binary(p, SIM_OPERATOR_MUL, active, variables[UP]);
    hidden = set_variable(p, variables, HIDDEN, hidden);
    hidden = set_variable(p, variables, HIDDEN, write_expert_linear(p, hidden, 1, expert));
    SimSlot share[] = {sim_forward_view(p, 2, 3, apart), variables[TOKEN], variables[POSITION]};
    SimSlot weight = sim_program_call(p, SIM_OPERATOR_INDEX_PAIR, NULL, 3, share);
    SimSlot weighted = sim_forward_binary(p, SIM_OPERATOR_MUL, hidden, weight);
    hidden = set_variable(p, variables, HIDDEN, weighted);
    SimSlot inputs[] = {final, variables[TOKEN], sim_forward_cast(p, hidden, SIM_DTYPE_NONE)};
    SimSlot sum = sim_program_call(p, SIM_OPERATOR_INDEX_ADD, NULL, 3, inputs);
    return sim_program_rebind(p, final, sum);
}

/* MixtralExperts.forward(hidden_states, top_k_index, top_k_weights) itself, one expert after the
 * other. */
static SimProgram *write_looped_experts(const SimModelConfig *config)
{
    SimProgram *p = sim_program_new(3);
    SimSlot zero = 0, mask, variables[N_VARIABLES];
    SimSlot final = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_FILL, NULL, 1, &zero));
    SimSlot hits = write_hits(p, config, &mask);
    for (uint32_t i = 0; i < N_VARIABLES; i++)
        variables[i] = SIM_SLOT_NONE;
    for (uint64_t expert = 0; expert < config->experts; expert++) {
        write_where(p, config, expert, mask, hits, variables);
        final = write_turn(p, config, expert, final, variables);
    }
    sim_program_finish(p, 1, &final);
    return p;
}

/* The router is called on tokens in a row. Qwen binds the view and the result to names of their
 * own.
 */
static SimProgram *write_block(const SimModelConfig *config)
{
    uint32_t gate = is_qwen(config) ? 2 : 1, experts = is_qwen(config) ? 1 : 2;
    SimProgram *p = sim_program_new(1);
    int64_t rows[] = {SIM_DIM_REST, (int64_t)config->hidden};
    int64_t whole[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)config->hidden};
    SimSlot hidden = sim_program_bind(p, sim_forward_view(p, 0, 2, rows)), routed[3];
    sim_program_call_module_many(p, gate, 1, &hidden, 3, routed);
    for (uint32_t i = 0; i < 3; i++)
        sim_program_bind(p, routed[i]);
    SimSlot inputs[] = {hidden, routed[2], routed[1]};
    SimSlot out = sim_program_call_module(p, experts, 3, inputs);
    SimSlot result = sim_forward_view(p, sim_program_bind(p, out), 3, whole);
    sim_program_finish(p, 1, &result);
    return p;
}

SimHfExperts sim_hf_experts_new(SimModel *model, const SimModelConfig *config,
                                const SimModelOptions *options)
{
    return (SimHfExperts){
        .block = sim_module_tree_own(model, write_block(config)),
        .gate = sim_module_tree_own(model, write_gate(config)),
        .experts = sim_module_tree_own(model, options->experts == SIM_EXPERTS_LOOP
                                                  ? write_looped_experts(config)
                                                  : write_grouped_experts(config)),
    };
}

static void add_gate(SimModel *model, uint32_t mlp, const SimModelConfig *config,
                     const SimHfExperts *experts)
{
    sim_module_tree_add_weight(model, mlp, "gate", config->experts, config->hidden, experts->gate);
}

void sim_hf_experts_add(SimModel *model, uint32_t block, const SimModelConfig *config,
                        const SimHfExperts *experts)
{
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, experts->block);
    if (!is_qwen(config))
        add_gate(model, mlp, config, experts);
    uint32_t stacks = sim_module_tree_add(model, mlp, "experts");
    sim_module_tree_add_stack(model, stacks, "gate_up_proj", config->experts,
                              2 * config->expert_intermediate, config->hidden);
    sim_module_tree_add_stack(model, stacks, "down_proj", config->experts, config->hidden,
                              config->expert_intermediate);
    sim_module_tree_set_forward(model, stacks, experts->experts);
    if (is_qwen(config))
        add_gate(model, mlp, config, experts);
}
