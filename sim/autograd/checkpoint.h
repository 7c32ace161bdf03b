/* SPDX-License-Identifier: Apache-2.0
 *
 * One use of torch.utils.checkpoint (use_reentrant=False; torch/utils/checkpoint.py of 2.15): what
 * its frame keeps from a module's forward until its backward.
 *
 * In the forward every tensor that a node saves becomes a holder: a number, nothing is kept but the
 * arguments. When the first node of the module runs in backward, the module's program is replayed
 * with the same arguments; what its operators save fills the holders in the same order. Each holder
 * is emptied as its node takes it; the arguments die with the last holder. A replay that may stop
 * early ends at the last holder: before the operator if it is an input, after it if an output.
 *
 * Selective checkpointing (create_selective_checkpoint_contexts): the outputs of chosen operators
 * are kept too, and the replay takes them, in order, instead of running the operator. The policy is
 * torchtitan's (distributed/activation_checkpoint.py): attention, and of matrix products (mm,
 * addmm) the 1st, 3rd, 5th...
 */
#pragma once

#include "autograd/autograd.h"
#include "autograd/tensor.h"
#include "model/operator.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimCheckpoint {
    SimAutogradCheckpoint settings;
    uint32_t module;
    SimStringId unit;
    uint32_t n_arguments;
    SimTensor *arguments[SIM_OPERATOR_MAX_INPUTS]; /* one reference each */
    uint32_t n_holders, n_unreleased;
    bool is_replaying, is_replayed;
    uint32_t n_packed;     /* holders that the replay has filled */
    uint32_t n_products;   /* matrix products that the policy has counted */
    uint32_t next_cached;  /* in the replay */
    GPtrArray *recomputed; /* of SimTensor, by holder; NULL once taken */
    GPtrArray *cached;     /* of SimTensor: outputs of chosen operators; NULL once taken */
} SimCheckpoint;

SimCheckpoint *sim_checkpoint_new(const SimAutogradCheckpoint *settings, uint32_t module,
                                  SimStringId unit, uint32_t n_arguments,
                                  SimTensor *const *arguments);
/* All of its tensors must be released. */
void sim_checkpoint_free(SimCheckpoint *checkpoint);

/* N more holders; returns the first one's number. */
uint32_t sim_checkpoint_hold(SimCheckpoint *checkpoint, uint32_t n);

/* Whether the policy keeps the outputs of the operator that runs next: to be asked once for each
 * operator, in the forward and in the replay. */
bool sim_checkpoint_chooses(SimCheckpoint *checkpoint, SimOperator operator_);
void sim_checkpoint_cache(SimCheckpoint *checkpoint, SimTensorPool *pool, uint32_t n_results,
                          SimTensor *const *results);

void sim_checkpoint_start_replay(SimCheckpoint *checkpoint);
void sim_checkpoint_finish_replay(SimCheckpoint *checkpoint);

/* The outputs of the next chosen operator; returns how many of the N. */
void sim_checkpoint_take_cached(SimCheckpoint *checkpoint, uint32_t n, SimTensor **results);

/* TENSOR fills the next holder. False: it was the last one, and the replay ends here. */
bool sim_checkpoint_pack(SimCheckpoint *checkpoint, SimTensor *tensor);

/* Gives the holder's tensor away. */
SimTensor *sim_checkpoint_unpack(SimCheckpoint *checkpoint, uint32_t holder);

/* N holders of a node are gone; with the last one of all, the arguments and what is still cached.
 */
void sim_checkpoint_release(SimCheckpoint *checkpoint, SimTensorPool *pool, uint32_t n);
