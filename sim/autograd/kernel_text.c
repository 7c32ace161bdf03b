/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/kernel_text.h"

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#define CACHE 512

/* Words of a key: the header, then the operands. */
enum { KERNEL, CALL, SCALAR, PLACE, START, FIGURES, OPERANDS = FIGURES + 5 };
enum { KIND, OFFSET, DIMS, OPERAND_WORDS = DIMS + 2 * SIM_SHAPE_MAX_DIMS };

typedef struct Entry {
    SimStringId text; /* 0 = empty */
    SimKernelTextKey key;
} Entry;

struct SimKernelTexts {
    Entry entries[CACHE];
    GString *text;
};

SimKernelTexts *sim_kernel_text_new(void)
{
    SimKernelTexts *texts = g_new0(SimKernelTexts, 1);
    texts->text = g_string_new(NULL);
    return texts;
}

void sim_kernel_text_free(SimKernelTexts *texts)
{
    if (texts == NULL)
        return;
    g_string_free(texts->text, TRUE);
    g_free(texts);
}

void sim_kernel_text_start(SimKernelTextKey *key, const SimOperatorKernel *kernel,
                           const SimOperatorCall *call)
{
    const SimAttributes *attributes = call->attributes;
    key->n_words = OPERANDS;
    memset(key->words, 0, OPERANDS * sizeof *key->words);
    key->words[KERNEL] = kernel->name;
    key->words[CALL] = call->operator_;
    if (attributes != NULL) {
        memcpy(&key->words[SCALAR], &attributes->scalar, sizeof attributes->scalar);
        key->words[PLACE] = attributes->dim;
        key->words[START] = attributes->start;
    }
    key->words[FIGURES] = kernel->figures_kind;
    if (kernel->figures_kind != SIM_FIGURES_NONE)
        memcpy(&key->words[FIGURES + 1], kernel->figures, sizeof kernel->figures);
}

void sim_kernel_text_push(SimKernelTextKey *key, bool is_write, const SimLayout *layout,
                          uint64_t offset)
{
    g_assert(key->n_words + OPERAND_WORDS <= SIM_KERNEL_TEXT_WORDS);
    uint64_t *words = key->words + key->n_words;
    key->n_words += OPERAND_WORDS;
    memset(words, 0, OPERAND_WORDS * sizeof *words);
    words[KIND] = (uint64_t)is_write << 16 | (uint64_t)layout->dtype << 8 | layout->shape.n_dims;
    words[OFFSET] = offset;
    for (uint32_t i = 0; i < layout->shape.n_dims; i++) {
        words[DIMS + i] = layout->shape.dims[i];
        words[DIMS + SIM_SHAPE_MAX_DIMS + i] = layout->strides[i];
    }
}

static void print_list(GString *text, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        g_string_append_printf(text, i == 0 ? "%" PRIu64 : "x%" PRIu64, numbers[i]);
}

static bool is_contiguous(const uint64_t *dims, const uint64_t *strides, uint32_t n)
{
    uint64_t expected = 1;
    for (uint32_t i = n; i-- > 0;) {
        if (dims[i] != 1 && strides[i] != expected)
            return false;
        expected *= dims[i];
    }
    return true;
}

static void print_operand(GString *text, const uint64_t *words)
{
    uint32_t n = words[KIND] & 0xff;
    const uint64_t *dims = words + DIMS, *strides = dims + SIM_SHAPE_MAX_DIMS;
    print_list(text, dims, n);
    if (!is_contiguous(dims, strides, n)) {
        g_string_append_c(text, '/');
        print_list(text, strides, n);
    }
    if (words[OFFSET] != 0)
        g_string_append_printf(text, "@%" PRIu64, words[OFFSET]);
    g_string_append_printf(text, ":%s", sim_dtype_name((SimDtype)(words[KIND] >> 8 & 0xff)));
}

static void print_operands(GString *text, const SimKernelTextKey *key, bool is_write)
{
    bool is_first = true;
    for (uint32_t at = OPERANDS; at < key->n_words; at += OPERAND_WORDS) {
        if ((key->words[at + KIND] >> 16 != 0) != is_write)
            continue;
        g_string_append(text, !is_first ? ";" : is_write ? "out=" : "in=");
        print_operand(text, key->words + at);
        is_first = false;
    }
    if (!is_first)
        g_string_append_c(text, ' ');
}

static void print_figures(GString *text, const uint64_t *words)
{
    static const char *const matrix[] = {"m", "n", "k"};
    static const char *const attention[] = {"heads", "seq", "head_dim", "causal"};
    bool is_matrix = words[0] == SIM_FIGURES_MATRIX;
    for (uint32_t i = 0; words[0] != SIM_FIGURES_NONE && i < (is_matrix ? 3 : 4); i++)
        g_string_append_printf(text, "%s=%" PRIu64 " ", is_matrix ? matrix[i] : attention[i],
                               words[1 + i]);
}

static void print_number(GString *text, const char *name, double number)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(digits, sizeof digits, "%.12g", number);
    g_string_append_printf(text, "%s=%s ", name, digits);
}

/* torch.nn.functional.cross_entropy ignores -100, with which labels are padded. */
static double filled_with(SimOperator call)
{
    return call == SIM_OPERATOR_FILL ? 1 : call == SIM_OPERATOR_PAD ? -100 : 0;
}

static void print_scalars(GString *text, const uint64_t *words)
{
    double scalar;
    memcpy(&scalar, &words[SCALAR], sizeof scalar);
    switch ((SimOperator)words[KERNEL]) {
    case SIM_OPERATOR_RMS_NORM:
    case SIM_OPERATOR_LAYER_NORM:
        print_number(text, "eps", scalar);
        break;
    case SIM_OPERATOR_ADD_SCALAR:
    case SIM_OPERATOR_MUL_SCALAR:
    case SIM_OPERATOR_POW:
        print_number(text, "scalar", scalar);
        break;
    case SIM_OPERATOR_DROPOUT:
    case SIM_OPERATOR_DROPOUT_GRAD:
        print_number(text, "p", scalar);
        break;
    case SIM_OPERATOR_CAT:
        print_number(text, "dim", (double)words[PLACE]);
        break;
    case SIM_OPERATOR_SLICE_GRAD:
        print_number(text, "dim", (double)words[PLACE]);
        print_number(text, "start", (double)words[START]);
        break;
    case SIM_OPERATOR_FILL:
        print_number(text, "value", filled_with((SimOperator)words[CALL]));
        break;
    default:
        break;
    }
}

SimStringId sim_kernel_text_intern(SimKernelTexts *texts, SimStrings *strings,
                                   const SimKernelTextKey *key)
{
    uint64_t hash = key->n_words;
    for (uint32_t i = 0; i < key->n_words; i++)
        hash = (hash ^ key->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    Entry *entry = &texts->entries[(hash >> 40) % CACHE];
    size_t bytes = key->n_words * sizeof *key->words;
    if (entry->text != 0 && entry->key.n_words == key->n_words &&
        memcmp(entry->key.words, key->words, bytes) == 0)
        return entry->text;
    g_string_truncate(texts->text, 0);
    print_figures(texts->text, key->words + FIGURES);
    print_scalars(texts->text, key->words);
    print_operands(texts->text, key, false);
    print_operands(texts->text, key, true);
    if (texts->text->len > 0)
        g_string_truncate(texts->text, texts->text->len - 1);
    entry->key.n_words = key->n_words;
    memcpy(entry->key.words, key->words, bytes);
    entry->text = sim_strings_intern(strings, texts->text->str);
    return entry->text;
}
