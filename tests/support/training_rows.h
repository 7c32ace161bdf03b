/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of training_kernels.csv (tests/oracle/kernels/README.md) as the kernels that PyTorch
 * launches for them, or the reason why a row has no counterpart. Included once, like kernel_rows.h.
 */
#pragma once

#include "support/kernel_rows.h"

/* A published number and what the simulator would run for it. */
typedef struct TrainingRow {
    KernelRow row;
    const char *gpu;       /* of models/gpus; NULL: none of them */
    const char *attention; /* kernel of models/kernels; NULL: the row is of something else */
    const char *apart;     /* why it has no counterpart; NULL: it has */
    bool is_backward, is_both, is_causal;
} TrainingRow;

static inline void training_row_clear(void *data)
{
    kernel_row_clear(&((TrainingRow *)data)->row);
}

/* What a row's text says. */
typedef struct TrainingText {
    const char *gpu, *kernel, *shape, *direction, *unit, *dtype;
    double value;
} TrainingText;

/* The number after " KEY=" in the shape, 0 if there is none. */
static inline uint64_t training_text_find(const TrainingText *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = text->shape; at && *at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return g_ascii_strtoull(at + length + 1, NULL, 10);
    }
    return 0;
}

static inline void training_row_add(KernelRow *row, SimKernelWork work)
{
    g_assert(row->n_works < KERNEL_ROW_MOST_WORKS);
    row->works[row->n_works++] = work;
}

static inline void training_row_add_traffic(KernelRow *row, SimKernelKind kind, uint64_t bytes)
{
    training_row_add(row, (SimKernelWork){.kind = kind, .hbm_bytes = bytes});
}

static inline void training_row_add_product(KernelRow *row, uint64_t m, uint64_t n, uint64_t k)
{
    training_row_add(row, (SimKernelWork){.kind = SIM_KERNEL_MATRIX_PRODUCT,
                                          .precision = SIM_PRECISION_BF16,
                                          .m = m,
                                          .n = n,
                                          .k = k,
                                          .flops = 2 * m * n * k});
}

typedef struct TrainingAttention {
    uint64_t batch, seq, heads, kv_heads, head_dim;
} TrainingAttention;

/* Two ways of writing shapes: "b*s=16384 s=512 hidden=2048 d=64" and "b=2 sq=512 hq=64 hkv=8". */
static inline TrainingAttention training_text_attention(const TrainingText *text)
{
    TrainingAttention shape = {0};
    if (strstr(text->shape, "hidden=")) {
        shape.seq = training_text_find(text, "s");
        shape.head_dim = training_text_find(text, "d");
        shape.heads = training_text_find(text, "hidden") / MAX(shape.head_dim, 1);
        uint64_t tokens = training_text_find(text, "b*s");
        shape.batch = tokens ? tokens / MAX(shape.seq, 1) : training_text_find(text, "b");
        shape.kv_heads = shape.heads;
        return shape;
    }
    shape = (TrainingAttention){training_text_find(text, "b"), training_text_find(text, "sq"),
                                training_text_find(text, "hq"), training_text_find(text, "hkv"),
                                training_text_find(text, "dqk")};
    if (shape.head_dim != training_text_find(text, "dv") ||
        shape.seq != training_text_find(text, "skv"))
        shape.head_dim = 0;
    return shape;
}

/* The backward: row sums of dO.O and a zeroed f32 dQ, the main kernel, dQ's conversion, and with
 * grouped keys the sums of the expanded dK and dV (as aten's flash backward launches them). */
static inline void training_row_add_attention_backward(KernelRow *row, SimKernelWork work,
                                                       const TrainingAttention *shape)
{
    uint64_t queries =
        kernel_rows_tensor_bytes(shape->batch, shape->seq, shape->heads, shape->head_dim);
    uint64_t keys =
        kernel_rows_tensor_bytes(shape->batch, shape->seq, shape->kv_heads, shape->head_dim);
    work.kind = SIM_KERNEL_ATTENTION_BACKWARD;
    work.flops = work.flops / 2 * 5;
    work.hbm_bytes =
        4 * queries + 2 * keys + 2 * (shape->kv_heads == shape->heads ? keys : queries);
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 4 * queries);
    training_row_add(row, work);
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 3 * queries);
    for (int i = 0; i < 2 && shape->kv_heads != shape->heads; i++)
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, queries + keys);
}

static inline void training_row_read_attention(TrainingRow *out, const TrainingText *text)
{
    TrainingAttention shape = training_text_attention(text);
    out->is_backward = g_str_equal(text->direction, "bwd");
    out->is_both = g_str_equal(text->direction, "fwd+bwd");
    out->is_causal = strstr(text->shape, "mask=causal") != NULL;
    if (strstr(text->dtype, "fp8"))
        out->apart = "arithmetic in fp8";
    else if (strstr(text->kernel, "deterministic"))
        out->apart = "deterministic backward, which PyTorch runs only on demand";
    else if (strstr(text->shape, "window"))
        out->apart = "sliding window";
    else if (shape.head_dim == 0 || shape.batch == 0 || shape.heads == 0)
        out->apart = "values and keys of two sizes, or a shape that is not stated";
    else if (!strstr(text->shape, "mask="))
        out->apart = "mask not stated";
    if (out->apart)
        return;
    SimKernelWork work = {.kind = SIM_KERNEL_ATTENTION_FORWARD,
                          .precision = SIM_PRECISION_BF16,
                          .heads = shape.heads,
                          .kv_heads = shape.kv_heads,
                          .seq = shape.seq,
                          .head_dim = shape.head_dim,
                          .causal = out->is_causal,
                          .attention = out->attention};
    work.flops = 4 * shape.batch * shape.heads * shape.seq * shape.seq * shape.head_dim;
    work.hbm_bytes =
        2 * kernel_rows_tensor_bytes(shape.batch, shape.seq, shape.heads, shape.head_dim) +
        2 * kernel_rows_tensor_bytes(shape.batch, shape.seq, shape.kv_heads, shape.head_dim);
    if (!out->is_backward)
        training_row_add(&out->row, work);
    if (out->is_backward || out->is_both)
        training_row_add_attention_backward(&out->row, work, &shape);
    /* Rates count 4 FLOPs an element forward, 10 backward, half of them under a causal mask. */
    double counted = (double)work.flops * (out->is_causal ? 0.5 : 1);
    counted *= out->is_both ? 3.5 : out->is_backward ? 2.5 : 1;
    out->row.seconds = counted / (text->value * 1e12);
}

/* One kernel forward; backward one for the input's gradient and one for the weight's. */
static inline void training_row_read_norm(TrainingRow *out, const TrainingText *text,
                                          uint64_t elements, uint64_t element_bytes)
{
    uint64_t tensor = elements * element_bytes;
    bool is_forward = g_str_equal(text->direction, "fwd");
    out->is_backward = g_str_equal(text->direction, "bwd");
    out->is_both = !is_forward && !out->is_backward;
    if (!out->is_backward)
        training_row_add_traffic(&out->row, SIM_KERNEL_NORM, 2 * tensor);
    if (!is_forward) {
        training_row_add_traffic(&out->row, SIM_KERNEL_NORM_GRAD, 3 * tensor);
        training_row_add_traffic(&out->row, SIM_KERNEL_NORM_GRAD, 2 * tensor);
    }
    /* Rates count two tensors forward and three backward. */
    out->row.seconds = g_str_equal(text->unit, "ms")
                           ? text->value * 1e-3
                           : (double)((is_forward ? 2 : 3) * tensor) / (text->value * 1e9);
}

/* log_softmax and nll_loss of f32 logits; backward fills the loss's gradient first. */
static inline void training_row_read_cross_entropy(TrainingRow *out, const TrainingText *text)
{
    uint64_t vocabulary = training_text_find(text, "V");
    uint64_t logits =
        4 * training_text_find(text, "B") * training_text_find(text, "T") * vocabulary;
    out->is_both = g_str_equal(text->direction, "fwd+bwd");
    out->row.seconds = text->value * 1e-3;
    if (vocabulary * 4 <= 48 * SIM_KIB)
        out->apart = "a row fits into shared memory, so it is read once";
    else if (vocabulary < 32768)
        out->apart = "a row fits into the L1 cache, so it is read from HBM once";
    training_row_add_traffic(&out->row, SIM_KERNEL_SOFTMAX, 2 * logits);
    if (out->is_both) {
        training_row_add_traffic(&out->row, SIM_KERNEL_MEMORY_BOUND, logits);
        training_row_add_traffic(&out->row, SIM_KERNEL_SOFTMAX, 3 * logits);
    }
}

/* Three products, the activation and a multiplication; backward two products each, two gradients of
 * the multiplication, the activation's, and the sum of the input's two. */
static inline void training_row_read_mlp(TrainingRow *out, const TrainingText *text)
{
    uint64_t batch = MAX(training_text_find(text, "B"), training_text_find(text, "bsz"));
    uint64_t tokens = training_text_find(text, "T") * batch;
    uint64_t hidden = training_text_find(text, "hidden_size");
    uint64_t inner = training_text_find(text, "intermediate_size");
    KernelRow *row = &out->row;
    row->seconds = text->value * 1e-3;
    if (!g_str_equal(text->direction, "bwd")) {
        training_row_add_product(row, inner, tokens, hidden);
        training_row_add_product(row, inner, tokens, hidden);
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 4 * tokens * inner);
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 6 * tokens * inner);
        training_row_add_product(row, hidden, tokens, inner);
    }
    if (g_str_equal(text->direction, "fwd"))
        return;
    for (int i = 0; i < 3; i++) {
        training_row_add_product(row, hidden, tokens, inner);
        training_row_add_product(row, hidden, inner, tokens);
        row->works[row->n_works - 1].layout = SIM_GEMM_NT;
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 6 * tokens * inner);
    }
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 6 * tokens * hidden);
}

/* transformers' RMSNorm forward: to f32, square, mean, product with the root, to bf16, product with
 * the weight; in f32 without the two casts. With a residual, its addition first. */
static inline void training_row_read_composite_norm(TrainingRow *out, const TrainingText *text)
{
    uint64_t elements = training_text_find(text, "H") * training_text_find(text, "M");
    bool is_f32 = g_str_equal(text->dtype, "fp32");
    KernelRow *row = &out->row;
    row->seconds = text->value * 1e-3;
    if (strstr(text->kernel, "fused_add"))
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, (is_f32 ? 12 : 6) * elements);
    if (!is_f32)
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 6 * elements);
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 8 * elements);
    training_row_add_traffic(row, SIM_KERNEL_NORM, 4 * elements);
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 8 * elements);
    if (!is_f32)
        training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, 6 * elements);
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, (is_f32 ? 8 : 4) * elements);
    if (!g_str_equal(text->direction, "fwd"))
        out->apart = "backward of a norm of many operators, which kernels is not published";
}

/* The head and cross_entropy of its bf16 logits. */
static inline void training_row_read_head(TrainingRow *out, const TrainingText *text)
{
    uint64_t tokens = training_text_find(text, "BT"), hidden = training_text_find(text, "H");
    uint64_t vocabulary = training_text_find(text, "V"), logits = 2 * tokens * vocabulary;
    KernelRow *row = &out->row;
    row->seconds = text->value * 1e-3;
    training_row_add_product(row, vocabulary, tokens, hidden);
    training_row_add_traffic(row, SIM_KERNEL_SOFTMAX, 2 * logits);
    if (g_str_equal(text->direction, "fwd"))
        return;
    training_row_add_traffic(row, SIM_KERNEL_MEMORY_BOUND, logits);
    training_row_add_traffic(row, SIM_KERNEL_SOFTMAX, 3 * logits);
    training_row_add_product(row, hidden, vocabulary, tokens);
    row->works[row->n_works - 1].layout = SIM_GEMM_NT;
    training_row_add_product(row, hidden, tokens, vocabulary);
}

/* Why a row that is none of the above has no counterpart. */
static inline const char *training_text_reason(const TrainingText *text)
{
    static const char *const reasons[][2] = {
        {"liger", "a kernel of another library"},
        {"quack", "a kernel of another library"},
        {"cudnn", "a kernel of another library"},
        {"cuDNN", "a kernel of another library"},
        {"riton", "a kernel of another library"},
        {"DeepSpeed", "a kernel of another library"},
        {"FlashAttention-4", "a kernel of another library"},
        {"megatron", "Megatron's own operators; which kernels is not published"},
        {"compile", "compiled code"},
        {"unfused", "attention of many kernels, which PyTorch does not take by itself"},
        {"soft_cross_entropy", "soft_cross_entropy: not an operator of the catalogue"},
        {"rope", "transposed queries and keys: strided, which traffic alone does not time"},
        {"embedding", "index_select of 2024, at a third of the bandwidth or less"},
        {"moe", "experts one after the other: bound by the host"},
        {"before register fix", "a version of the kernel that was repaired"},
        {"optimizer", "shape or GPU not stated"},
        {"add+rms_norm", "a GPU of which there is no file"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(reasons); i++) {
        if (strstr(text->kernel, reasons[i][0]))
            return reasons[i][1];
    }
    return "no operator of the catalogue";
}

static inline const char *training_text_gpu(const TrainingText *text)
{
    static const char *const names[][2] = {{"A100-SXM4-80GB", "a100"}, {"H100-SXM5-80GB", "h100"},
                                           {"H100 80GB HBM3", "h100"}, {"H100", "h100"},
                                           {"H200", "h200"},           {"GB200", "gb200"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (g_str_equal(text->gpu, names[i][0]))
            return names[i][1];
    }
    return g_str_has_prefix(text->gpu, "B200") ? "b200" : NULL;
}

static inline const char *training_text_attention_kernel(const TrainingText *text)
{
    static const char *const names[][2] = {{"attention FlashAttention-2", "flash2"},
                                           {"attention FlashAttention-2 2.7.4.post1", "flash2"},
                                           {"attention FlashAttention-3", "flash3"},
                                           {"attention cuDNN 9", "cudnn"},
                                           {"attention cudnn", "cudnn"},
                                           {"attention cudnn deterministic", "cudnn"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (g_str_equal(text->kernel, names[i][0]))
            return names[i][1];
    }
    return NULL;
}

/* Everything but attention: what PyTorch itself runs, eagerly. */
static inline void training_row_read_other(TrainingRow *out, const TrainingText *text)
{
    const char *kernel = text->kernel;
    uint64_t tokens = training_text_find(text, "tokens");
    if (strstr(kernel, "_norm (pytorch)") || g_str_equal(kernel, "rms_norm PyTorch eager")) {
        uint64_t width = training_text_find(text, "hidden");
        if (width < 1024)
            out->apart = "rows of a few hundred bytes: bound by thread blocks, one a row";
        training_row_read_norm(out, text, tokens * width, 2);
    } else if (g_str_equal(kernel, "layer_norm huggingface")) {
        training_row_read_norm(out, text,
                               training_text_find(text, "N") * training_text_find(text, "M"), 4);
    } else if (g_str_equal(kernel, "megatron_rms_norm torch")) {
        if (!g_str_equal(text->direction, "fwd"))
            out->apart = "two to three times LayerNorm's backward on the same GPU, nobody says why";
        training_row_read_norm(out, text,
                               training_text_find(text, "H") * training_text_find(text, "S"), 2);
    } else if (g_str_equal(kernel, "cross_entropy huggingface")) {
        training_row_read_cross_entropy(out, text);
    } else if (g_str_equal(kernel, "swiglu huggingface") ||
               g_str_equal(kernel, "geglu huggingface")) {
        training_row_read_mlp(out, text);
    } else if (g_str_has_suffix(kernel, "rms_norm huggingface")) {
        training_row_read_composite_norm(out, text);
    } else if (g_str_equal(kernel, "fused_linear_cross_entropy huggingface")) {
        training_row_read_head(out, text);
    } else if (g_str_equal(kernel, "optimizer AdamW fused")) {
        /* Parameter, gradient and two states in bf16 read, all but the gradient written. */
        training_row_add_traffic(&out->row, SIM_KERNEL_OPTIMIZER, UINT64_C(6740000000) * 14);
        out->row.seconds = text->value * 1e-3;
    } else {
        out->apart = training_text_reason(text);
    }
}

/* TrainingRow; free with g_array_unref. */
static inline GArray *training_rows_load(void)
{
    g_autoptr(SimCsv) csv = kernel_rows_load_csv("training_kernels");
    GArray *rows = g_array_new(FALSE, TRUE, sizeof(TrainingRow));
    g_array_set_clear_func(rows, training_row_clear);
    for (size_t i = 0; i < sim_csv_rows(csv); i++) {
        TrainingText text = {
            .gpu = sim_csv_cell(csv, i, sim_csv_column(csv, "gpu")),
            .kernel = sim_csv_cell(csv, i, sim_csv_column(csv, "kernel")),
            .shape = sim_csv_cell(csv, i, sim_csv_column(csv, "shape")),
            .direction = sim_csv_cell(csv, i, sim_csv_column(csv, "direction")),
            .unit = sim_csv_cell(csv, i, sim_csv_column(csv, "unit")),
            .dtype = sim_csv_cell(csv, i, sim_csv_column(csv, "dtype")),
            .value = kernel_rows_number(csv, i, "value"),
        };
        TrainingRow out = {.gpu = training_text_gpu(&text),
                           .attention = training_text_attention_kernel(&text)};
        if (out.attention)
            training_row_read_attention(&out, &text);
        else
            training_row_read_other(&out, &text);
        if (!out.gpu && !out.apart)
            out.apart = "no file of this GPU";
        out.row.text =
            g_strdup_printf("%s %s %s %s", text.gpu, text.kernel, text.direction, text.shape);
        out.row.is_held_out = kernel_row_is_held_out(text.shape);
        g_array_append_val(rows, out);
    }
    return rows;
}
