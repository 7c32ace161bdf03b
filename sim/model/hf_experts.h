/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixture of experts of Mixtral and Qwen3-MoE as transformers writes it (models/mixtral,
 * models/qwen3_moe; integrations/moe.py): a router, and all experts' matrices in two stacks.
 * Private to hf_*.c.
 */
#pragma once

#include "model/hf_model.h"
#include "model/program.h"

typedef struct SimHfExperts {
    SimProgram *block, *gate, *experts;
} SimHfExperts;

/* The forwards, which MODEL owns. */
SimHfExperts sim_hf_experts_new(SimModel *model, const SimModelConfig *config,
                                const SimModelOptions *options);

/* The module "mlp" under BLOCK, with two children. */
void sim_hf_experts_add(SimModel *model, uint32_t block, const SimModelConfig *config,
                        const SimHfExperts *experts);
