#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More settings than test_validate.py has: sizes of groups, code, checkpoints, losses."""

import sys

from test_validate import F32, validate

SETTINGS = [
    ["--gpus", "1", *F32],
    ["--gpus", "3", *F32],
    ["--gpus", "2", *F32, "--wrap", "block+root"],
    ["--gpus", "2", "--reduce-dtype", "bf16"],
    ["--gpus", "2", "--autocast", "on", *F32],
    ["--gpus", "2", *F32, "--accumulate", "2", "--gradient-sync", "last"],
    ["--gpus", "4", *F32, "--strategy", "hybrid_shard", "--shard-size", "2"],
    ["--gpus", "2", *F32, "--code", "transformers"],
    ["--gpus", "2", *F32, "--norm", "composite"],
    ["--gpus", "2", *F32, "--checkpoint", "full"],
    ["--gpus", "2", *F32, "--checkpoint", "selective"],
    ["--gpus", "2", *F32, "--loss", "chunked:2"],
    ["--gpus", "2", *F32, "--optimizer", "sgd"],
    ["--gpus", "4", *F32, "--api", "fsdp1"],
    ["--gpus", "4", *F32, "--api", "fsdp1", "--strategy", "shard_grad_op"],
    ["--gpus", "4", *F32, "--api", "ddp"],
]

if __name__ == "__main__":
    sys.exit(validate(SETTINGS))
