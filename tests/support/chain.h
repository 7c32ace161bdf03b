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
    SimDtype dtype; /* of gradients */
    int32_t serial;
} Chain;

static inline bool chain_has_parameters_below(const SimModel *model, uint32_t module)
{
    for (uint32_t m = module; m < model->modules->len && sim_model_is_below(model, m, module); m++)
        if (sim_model_module(model, m)->n_parameters > 0)
            return true;
    return false;
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
    if (described->n_parameters > 0) {
        event = (ChainEvent){CHAIN_USE, 0, module};
        g_array_append_val(events, event);
        *needs_gradient = true;
    }
    for (uint32_t m = module + 1; m < model->modules->len; m++)
        if (sim_model_module(model, m)->parent == module && chain_has_parameters_below(model, m))
            chain_run(chain, m, events, needs_gradient);
    token = chain->hooks.post_forward(chain->hooks.user_data, module);
    event = (ChainEvent){CHAIN_POST_FORWARD, token, module};
    if (token != SIM_AUTOGRAD_NO_TOKEN)
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
    SimName name = {
        .stem = sim_strings_intern(sim_plan_strings(chain->plan), "gradient"),
        .serial = chain->serial++,
    };
    uint32_t buffer =
        sim_plan_alloc(chain->plan, 0, name, described->elements * sim_dtype_bytes(chain->dtype),
                       SIM_CATEGORY_UNSHARDED_GRADIENT, chain->dtype, 0);
    chain->hooks.gradient(chain->hooks.user_data, parameter, buffer);
}

static inline void chain_backward(Chain *chain, const GArray *events)
{
    for (uint32_t i = events->len; i-- > 0;) {
        const ChainEvent *event = &g_array_index(events, ChainEvent, i);
        const SimModule *module = sim_model_module(chain->model, event->module);
        switch (event->kind) {
        case CHAIN_POST_FORWARD:
            chain->hooks.pre_backward(chain->hooks.user_data, event->token, false);
            break;
        case CHAIN_USE:
            for (uint32_t p = module->n_parameters; p-- > 0;)
                chain_make_gradient(chain, module->first_parameter + p);
            break;
        case CHAIN_PRE_FORWARD:
            chain->hooks.post_backward(chain->hooks.user_data, event->token);
            break;
        }
    }
}
