/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for autograd on models without operators: modules run one after the other in
 * registration order, each feeds the next, and backward is exactly the reverse. It calls an
 * SimAutogradHooks as sim/autograd does and allocates nothing but gradients.
 */
#pragma once

#include "autograd/autograd.h"

#include <glib.h>
#include <stdbool.h>

typedef enum ChainEventKind { CHAIN_PRE_FORWARD, CHAIN_USE, CHAIN_POST_FORWARD } ChainEventKind;

typedef struct ChainEvent {
    ChainEventKind kind;
    uint32_t token;  /* pre and post forward */
    uint32_t module; /* use: whose parameters */
} ChainEvent;

typedef struct Chain {
    const SimModel *model;
    SimPlan *plan;
    SimAutogradHooks hooks;
    SimDtype dtype;           /* of gradients */
    const GArray *kept_dtype; /* of uint32_t: parameters whose gradients are f32; may be NULL */
    const char *unused;       /* parameters whose paths end so are never used; may be NULL */
    const char *skipped;      /* a module that is not called; may be NULL */
    int32_t serial;
} Chain;

static inline bool chain_has_parameters_below(const SimModel *model, uint32_t module)
{
    for (uint32_t m = module; m < model->modules->len && sim_model_is_below(model, m, module); m++)
        if (sim_model_module(model, m)->n_parameters > 0)
            return true;
    return false;
}

static inline bool chain_is_used(const Chain *chain, uint32_t parameter)
{
    const SimParameter *described = sim_model_parameter(chain->model, parameter);
    return chain->unused == NULL || !g_str_has_suffix(described->path, chain->unused);
}

static inline bool chain_is_trained(const Chain *chain, uint32_t parameter)
{
    return chain_is_used(chain, parameter) &&
           !sim_model_parameter(chain->model, parameter)->is_frozen;
}

/* NEEDS_GRADIENT: whether what flows along does; events are written only once it does. */
static inline void chain_run(const Chain *chain, uint32_t module, GArray *events,
                             bool *needs_gradient)
{
    const SimModel *model = chain->model;
    uint32_t token = chain->hooks.pre_forward(chain->hooks.user_data, module);
    ChainEvent event = {CHAIN_PRE_FORWARD, token, module};
    if (token != SIM_AUTOGRAD_NO_TOKEN && *needs_gradient)
        g_array_append_val(events, event);
    const SimModule *described = sim_model_module(model, module);
    bool is_trained = false;
    for (uint32_t p = 0; p < described->n_parameters; p++)
        is_trained |= chain_is_trained(chain, described->first_parameter + p);
    if (is_trained || *needs_gradient) {
        event = (ChainEvent){CHAIN_USE, 0, module};
        g_array_append_val(events, event);
        *needs_gradient = true;
    }
    for (uint32_t m = module + 1; m < model->modules->len; m++)
        if (sim_model_module(model, m)->parent == module && chain_has_parameters_below(model, m) &&
            g_strcmp0(sim_model_module(model, m)->path, chain->skipped) != 0)
            chain_run(chain, m, events, needs_gradient);
    token = chain->hooks.post_forward(chain->hooks.user_data, module);
    event = (ChainEvent){CHAIN_POST_FORWARD, token, module};
    if (token != SIM_AUTOGRAD_NO_TOKEN && *needs_gradient)
        g_array_append_val(events, event);
}

/* The graph of a forward, owned by the caller. */
static inline GArray *chain_forward(const Chain *chain)
{
    GArray *events = g_array_new(FALSE, FALSE, sizeof(ChainEvent));
    bool needs_gradient = false;
    chain_run(chain, 0, events, &needs_gradient);
    return events;
}

static inline void chain_make_gradient(Chain *chain, uint32_t parameter)
{
    const SimParameter *described = sim_model_parameter(chain->model, parameter);
    SimDtype dtype = chain->dtype;
    for (uint32_t i = 0; chain->kept_dtype != NULL && i < chain->kept_dtype->len; i++)
        if (g_array_index(chain->kept_dtype, uint32_t, i) == parameter)
            dtype = SIM_DTYPE_F32;
    SimName name = {
        .stem = sim_strings_intern(sim_plan_strings(chain->plan), "gradient"),
        .serial = chain->serial++,
    };
    uint32_t buffer =
        sim_plan_alloc(chain->plan, 0, name, described->elements * sim_dtype_bytes(dtype),
                       SIM_CATEGORY_UNSHARDED_GRADIENT, dtype, 0);
    chain->hooks.gradient(chain->hooks.user_data, parameter, buffer);
}

/* The parameter that really holds PARAMETER. */
static inline uint32_t chain_find_holder(const Chain *chain, uint32_t parameter)
{
    uint32_t tied_to = sim_model_parameter(chain->model, parameter)->tied_to;
    return tied_to == SIM_MODEL_NONE ? parameter : tied_to;
}

/* Walks MODULE's parameters from the last; a gradient is there once all uses have been walked.
 * COUNT true: only counts the uses. */
static inline void chain_use(Chain *chain, const SimModule *module, uint32_t *uses, bool count)
{
    for (uint32_t i = module->n_parameters; i-- > 0;) {
        uint32_t parameter = module->first_parameter + i;
        if (!chain_is_trained(chain, parameter))
            continue;
        uint32_t holder = chain_find_holder(chain, parameter);
        if (count)
            uses[holder]++;
        else if (--uses[holder] == 0)
            chain_make_gradient(chain, holder);
    }
}

static inline void chain_backward(Chain *chain, const GArray *events)
{
    g_autofree uint32_t *uses = g_new0(uint32_t, chain->model->parameters->len + 1);
    for (uint32_t i = 0; i < events->len; i++) {
        const ChainEvent *event = &g_array_index(events, ChainEvent, i);
        if (event->kind == CHAIN_USE)
            chain_use(chain, sim_model_module(chain->model, event->module), uses, true);
    }
    for (uint32_t i = events->len; i-- > 0;) {
        const ChainEvent *event = &g_array_index(events, ChainEvent, i);
        switch (event->kind) {
        case CHAIN_POST_FORWARD:
            chain->hooks.pre_backward(chain->hooks.user_data, event->token, false);
            break;
        case CHAIN_USE:
            chain_use(chain, sim_model_module(chain->model, event->module), uses, false);
            break;
        case CHAIN_PRE_FORWARD:
            chain->hooks.post_backward(chain->hooks.user_data, event->token);
            break;
        }
    }
}
