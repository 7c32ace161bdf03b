/* SPDX-License-Identifier: Apache-2.0
 *
 * How one parameter is cut over the ranks of a shard group (torch/distributed/fsdp/_fully_shard/
 * _fsdp_param.py, Shard(0)): one dimension, mostly 0, by torch.chunk, so rank q owns rows [q c,
 * min((q + 1) c, n)) with c = ceil(n / W). Every rank stores c rows, zero padded, so that all
 * messages are equal; later ranks may own fewer true rows, or none. Optimizer states exist for true
 * rows only.
 *
 * All counts are elements, not bytes.
 */
#pragma once

#include "model/model.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimShard {
    uint64_t rows;            /* n: of the dimension that is cut */
    uint64_t row_elements;    /* k */
    uint64_t shard_rows;      /* c: that every rank stores */
    uint64_t elements;        /* n k */
    uint64_t shard_elements;  /* c k */
    uint64_t padded_elements; /* W c k */
    bool is_whole;            /* not cut at all: every rank has all rows */
} SimShard;

/* SHAPE, cut in DIM, which it has. Shard(DIM > 0) exists only where the ranks divide the dimension:
 * the caller has checked that. */
SimShard sim_shard_compute(const SimShape *shape, uint32_t dim, uint32_t ranks);

/* A parameter that FSDP leaves alone. */
SimShard sim_shard_whole(const SimShape *shape);

/* Rows that RANK (its place in the shard group) really owns: 0..shard_rows. */
uint64_t sim_shard_true_rows(const SimShard *shard, uint32_t rank);

/* Places in the shard group from which on ranks own other numbers of rows than the ones before: the
 * first without all of its rows, and the first without any; both RANKS where there is none. */
void sim_shard_find_breaks(const SimShard *shard, uint32_t ranks, uint32_t *first_partial,
                           uint32_t *first_empty);
