/* SPDX-License-Identifier: Apache-2.0
 *
 * Autograd's formulas: the backward of each forward operator, written as calls of operators. What
 * an operator saves for backward follows from them: exactly the inputs and outputs that its formula
 * reads for the gradients that are wanted (tools/autograd/derivatives.yaml and what is generated
 * from it).
 *
 * A formula is a list of steps in the order in which the generated code runs them. Sources and
 * results are references below; temporaries die in reverse order when the expression that uses them
 * has been computed: after the step that makes a result.
 */
#pragma once

#include "model/operator.h"

#include <stdint.h>

typedef enum SimReferenceKind {
    SIM_REFERENCE_GRADIENT = 0x00, /* of the forward's output i */
    SIM_REFERENCE_INPUT = 0x10,    /* of the forward */
    SIM_REFERENCE_OUTPUT = 0x20,   /* of the forward */
    SIM_REFERENCE_TEMPORARY = 0x30,
    SIM_REFERENCE_RESULT = 0x40, /* the gradient of the forward's input i */
} SimReferenceKind;

#define SIM_REFERENCE_KIND(reference) ((reference)&0xf0)
#define SIM_REFERENCE_INDEX(reference) ((reference)&0x0f)

typedef struct SimGradientStep {
    uint8_t operator_;
    uint8_t n_sources, n_results;
    uint8_t like;      /* the forward's input whose layout the step is given */
    uint8_t wanted_by; /* bit i: run if the gradient of input i is wanted */
    uint8_t sources[9];
    uint8_t results[3];
} SimGradientStep;

typedef struct SimFormula {
    const SimGradientStep *steps;
    uint8_t n_steps;
    uint8_t n_saved;
    uint8_t saved[9]; /* INPUT and OUTPUT references in the order in which a node releases
                       * them, then a mark */
} SimFormula;

/* The formula of OPERATOR; n_steps = 0 for one that has no gradient. */
const SimFormula *sim_catalogue_formula(SimOperator operator_);

/* Bit i: FORMULA reads saved[i] when the inputs in WANTED need a gradient. */
uint32_t sim_catalogue_saved(const SimFormula *formula, uint32_t wanted);
