/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel's row says, in `arguments`, to whoever wants to compute it and not only to time it:
 * the operator's scalars, and how each operand lies in the buffer that the row names.
 *
 *     eps=1e-05 in=1x64x256:f32;256:f32 out=1x64x256:f32;1x64x1:f32
 *
 * One item an operand, in the order of `reads` and of `writes`, separated by ";": dimensions
 * (nothing for a scalar), then "/" and strides in elements unless it is contiguous, then "@" and
 * the elements before its first one, counted from the beginning of what the row names, unless that
 * is 0, then ":" and the element type. A kernel that fills memory says `value`.
 *
 * Texts are printed once a distinct kernel and not once a row: a direct-mapped cache.
 */
#pragma once

#include "base/strings.h"
#include "model/operator.h"

#include <stdbool.h>
#include <stdint.h>

/* Operator, scalars; 12 words a operand. */
#define SIM_KERNEL_TEXT_WORDS 256

typedef struct SimKernelTextKey {
    uint32_t n_words;
    uint64_t words[SIM_KERNEL_TEXT_WORDS];
} SimKernelTextKey;

typedef struct SimKernelTexts SimKernelTexts;

SimKernelTexts *sim_kernel_text_new(void);
void sim_kernel_text_free(SimKernelTexts *texts);

/* KERNEL, one of the kernels of CALL. */
void sim_kernel_text_start(SimKernelTextKey *key, const SimOperatorKernel *kernel,
                           const SimOperatorCall *call);

/* The next operand, all reads before all writes; OFFSET in elements. */
void sim_kernel_text_push(SimKernelTextKey *key, bool is_write, const SimLayout *layout,
                          uint64_t offset);

/* The text, interned in STRINGS. */
SimStringId sim_kernel_text_intern(SimKernelTexts *texts, SimStrings *strings,
                                   const SimKernelTextKey *key);
