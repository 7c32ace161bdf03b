/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording of PyTorch's FSDP (tests/oracle/pytorch/README.md) as a plan, so that the checker can
 * be asked about what PyTorch really did and not only about what our builders write.
 *
 * Order, streams, events, births, deaths, bytes and communicators are the recording's, row by row.
 * What its words leave unsaid is filled in by one reading of each operation: a cast reads the
 * shard, a copy-in writes this rank's part of the all-gather output, a chunk-cat reads the unit's
 * gradients. The model's own kernels are one a unit that reads its parameters (and writes its
 * gradients, where they appear). Shards and optimizer states are filled at birth.
 */
#pragma once

#include "plan/plan.h"

#include <glib.h>

/* FILE may be gzipped; the number of ranks stands in its name ("-w4", "-2x2"). Errors as for a CSV.
 */
SimPlan *recording_plan_load(const char *file, GError **error);
