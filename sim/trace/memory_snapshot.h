/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's end state and history as the pickle that torch.cuda.memory._dump_snapshot writes
 * (torch/cuda/memory.py, torch/csrc/cuda/memory_snapshot.cpp), for pytorch.org/memory_viz: segments
 * with their blocks, and a list of actions for each device. A device is a recorded rank, by its
 * place among them.
 *
 * In place of Python's stack a block has two frames: `category:row:buffer`, and `phase:step:unit`
 * of the row that allocated it. Streams are numbers of the plan, 0 = compute. Times are
 * microseconds of the host. Like PyTorch's, a size in the history is what was asked for, a block's
 * what it takes.
 */
#pragma once

#include "base/output_file.h"
#include "trace/recorder.h"

#include <stdint.h>

/* DEVICE_BYTES: what the allocator may reserve (UINT64_MAX = no end): an OOM says what was left. */
void sim_memory_snapshot_save(const SimRecorder *recorder, uint64_t device_bytes,
                              const char *allocator_settings, SimOutputFile *file);
