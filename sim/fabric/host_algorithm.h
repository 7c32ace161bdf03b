/* SPDX-License-Identifier: Apache-2.0
 *
 * The algorithms that OpenMPI and Gloo take for a collective, and what each costs by Hockney's
 * model (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
 * MPICH", 2005):
 *
 *     T = base + messages one after the other * hop + bytes sent by a rank / rate
 *
 * base, hop and rate are those of the Simple ring of the cluster's constants (hardware/comm.h);
 * between nodes the hop of the network and the rate of the NICs.
 *
 * Decisions: OpenMPI's fixed ones for commutative reductions (open-mpi/ompi,
 * ompi/mca/coll/tuned/coll_tuned_decision_fixed.c of August 2026). Gloo under PyTorch always runs
 * rings, and a reduce-scatter there is an all-reduce of which each rank keeps its part
 * (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp).
 *
 * Limitations: broadcasts are binomial trees, of OpenMPI's nine ways; adding up costs nothing; the
 * far steps of the logarithmic algorithms share NICs no worse than a ring does.
 */
#pragma once

#include "fabric/collective.h"

/* The pair and its cost; the cluster's library is not NCCL, the group has at least two ranks.
 * O(1). */
SimCollectiveCost sim_host_algorithm_compute(const SimCluster *cluster,
                                             const SimCollectiveRequest *request);

/* Which of OpenMPI's a group of RANKS takes; BYTES is the full buffer. */
SimCommAlgorithm sim_host_algorithm_find_openmpi(SimCommOperation operation, uint32_t ranks,
                                                 uint64_t bytes);
