/* SPDX-License-Identifier: Apache-2.0
 *
 * Which gradients DistributedDataParallel reduces together (torch/csrc/distributed/c10d/
 * reducer.cpp: compute_bucket_assignment_by_size). Parameters are taken in order; a bucket is
 * closed as soon as it holds at least its limit, so it may be larger.
 */
#pragma once

#include "model/model.h"

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SimDdpBucket {
    GArray *parameters; /* of uint32_t: in the model */
    uint64_t bytes;
} SimDdpBucket;

/* PARAMETERS (of uint32_t) of MODEL, ELEMENT_BYTES an element, into buckets of LIMITS bytes each,
 * the last one for all that follow. Returns an array of SimDdpBucket, which owns its members. */
GArray *sim_ddp_buckets_assign(const SimModel *model, const GArray *parameters,
                               uint32_t element_bytes, const uint64_t *limits, size_t n_limits);
