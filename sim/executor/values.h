/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that a training run is judged by, whole: losses, gradients as the optimizer takes
 * them, parameters at the end. Each rank notes the parts it has; `gather` puts them together by the
 * place of each element in its parameter, so that runs with other numbers of ranks compare.
 *
 * A file of them is a text line for each tensor, "KIND NAME ELEMENTS", followed by its elements as
 * f32 of this machine.
 */
#pragma once

#include <glib.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimValues SimValues;

SimValues *sim_values_new(void);
void sim_values_free(SimValues *values);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimValues, sim_values_free)

/* Elements FIRST.. of a tensor, on this rank; copied. Thread-safe. KIND: "gradient:0",
 * "parameter". Later parts of the same elements replace earlier ones. */
void sim_values_push(SimValues *values, const char *kind, const char *name, uint64_t first,
                     uint64_t n, const float *elements);
/* Thread-safe. Several microbatches of a step are averaged, and so are the ranks. */
void sim_values_push_loss(SimValues *values, int32_t step, float loss);

/* On rank 0, all ranks' values together; on others NULL. Collective over WORLD. */
SimValues *sim_values_gather(const SimValues *values, MPI_Comm world);

/* Errors IO, PARSE. */
bool sim_values_save(const SimValues *values, const char *file, GError **error);
SimValues *sim_values_load(const char *file, GError **error);

typedef struct SimValuesDifference {
    double loss;           /* largest relative difference of a step's */
    double first_gradient; /* of step 0: norm of the difference of all over the norm */
    double gradient;       /* of the last step */
    double parameter;      /* the same at the end */
    double gradient_of_worst, parameter_of_worst; /* the same of one tensor */
    char *worst_gradient, *worst_parameter;       /* names, owned; NULL if none was compared */
    uint32_t losses, gradients, parameters;       /* how many were compared */
} SimValuesDifference;

/* VALUES against EXPECTED; elements that only one of them has (padding) do not count. Error
 * MISMATCH: a tensor or step is missing. */
bool sim_values_compare(const SimValues *values, const SimValues *expected,
                        SimValuesDifference *difference, GError **error);
void sim_values_difference_clear(SimValuesDifference *difference);

/* Steps with a loss, and the loss of one. */
uint32_t sim_values_steps(const SimValues *values);
double sim_values_loss(const SimValues *values, uint32_t step);
