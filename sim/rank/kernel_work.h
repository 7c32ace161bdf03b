/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan's kernel row asks of the GPU, in the terms of hardware/kernel_cost.h: the operator's
 * name says of which kind it is, `arguments` ("m=8192 n=4096 k=4096") its dimensions.
 *
 * Products are `linear`, `conv1d`, `mm`, `addmm`, `bmm`, `matmul` and their gradients, attention
 * `attention` and `attention_grad`; everything else is bound by memory, of which norms, log_softmax
 * and adamw reach less of the bandwidth.
 */
#pragma once

#include "hardware/kernel_cost.h"
#include "plan/plan.h"

SimKernelWork sim_kernel_work_compute(const SimPlan *plan, const SimInstruction *instruction);
