/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/kernel_work.h"

#include <string.h>

static bool begins_with_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && (text[length] == '\0' || text[length] == '_');
}

/* Kernels that reach less of the bandwidth than copies do. */
static SimKernelKind kind_of_traffic(const char *operator_name)
{
    static const struct {
        const char *name;
        SimKernelKind kind;
    } kinds[] = {
        {"rms_norm_grad", SIM_KERNEL_NORM_GRAD}, {"layer_norm_grad", SIM_KERNEL_NORM_GRAD},
        {"rms_norm", SIM_KERNEL_NORM},           {"layer_norm", SIM_KERNEL_NORM},
        {"log_softmax", SIM_KERNEL_SOFTMAX},     {"adamw", SIM_KERNEL_OPTIMIZER},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (begins_with_word(operator_name, kinds[i].name)) {
            return kinds[i].kind;
        }
    }
    return SIM_KERNEL_MEMORY_BOUND;
}

static SimKernelKind kind_of(const char *operator_name)
{
    static const char *const products[] = {"linear", "conv1d", "mm", "addmm", "bmm", "matmul"};
    for (size_t i = 0; i < G_N_ELEMENTS(products); i++) {
        if (begins_with_word(operator_name, products[i])) {
            return SIM_KERNEL_MATRIX_PRODUCT;
        }
    }
    if (strcmp(operator_name, "attention") == 0) {
        return SIM_KERNEL_ATTENTION_FORWARD;
    }
    if (strcmp(operator_name, "attention_grad") == 0) {
        return SIM_KERNEL_ATTENTION_BACKWARD;
    }
    return kind_of_traffic(operator_name);
}

/* The transposition of a product's operands, as cuBLAS sees it. transformers' Conv1D keeps its
 * weight as [in, out], a Linear as [out, in]. */
static SimGemmLayout layout_of(const char *operator_name)
{
    if (g_str_has_suffix(operator_name, "_grad_weight")) {
        return SIM_GEMM_NT;
    }
    bool is_gradient = g_str_has_suffix(operator_name, "_grad_input");
    bool is_transposed = begins_with_word(operator_name, "conv1d");
    return is_gradient != is_transposed ? SIM_GEMM_NN : SIM_GEMM_TN;
}

/* The number after "KEY=" in a list of them, 0 if there is none. */
static uint64_t find_argument(const char *arguments, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = arguments; at != NULL && *at != '\0'; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            return g_ascii_strtoull(at + length + 1, NULL, 10);
        }
    }
    return 0;
}

SimKernelWork sim_kernel_work_compute(const SimPlan *plan, const SimInstruction *instruction)
{
    const char *operator_name = sim_plan_string(plan, instruction->operator_name);
    SimKernelWork work = {
        .kind = kind_of(operator_name),
        .precision = sim_gpu_precision((SimDtype)instruction->dtype),
        .flops = instruction->flops,
        .hbm_bytes = instruction->hbm_bytes,
        .sustained = true,
    };
    if (work.kind == SIM_KERNEL_MEMORY_BOUND || instruction->arguments == 0) {
        return work;
    }
    const char *arguments = sim_plan_string(plan, instruction->arguments);
    work.batch = find_argument(arguments, "batch");
    if (work.kind == SIM_KERNEL_MATRIX_PRODUCT) {
        work.m = find_argument(arguments, "m");
        work.n = find_argument(arguments, "n");
        work.k = find_argument(arguments, "k");
        work.layout = layout_of(operator_name);
        return work;
    }
    work.heads = find_argument(arguments, "heads");
    work.kv_heads = find_argument(arguments, "kv_heads");
    work.seq = find_argument(arguments, "seq");
    work.head_dim = find_argument(arguments, "head_dim");
    work.causal = find_argument(arguments, "causal") != 0;
    return work;
}
