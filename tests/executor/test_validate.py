#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real runs of many settings agree with the simulator and with one rank."""

import subprocess
import sys

from real_run import ENVIRONMENT, FSDPSIM

F32 = ["--param-dtype", "f32"]
SETTINGS = [
    ["--gpus", "2", *F32],
    ["--gpus", "4", *F32],
    ["--gpus", "2", *F32, "--reshard-after-forward", "false"],
    ["--gpus", "4", *F32, "--reshard-after-forward", "2"],
    ["--gpus", "2", *F32, "--wrap", "root"],
    ["--gpus", "2"],
    ["--gpus", "2", *F32, "--accumulate", "2"],
    ["--gpus", "2", *F32, "--api", "fsdp1"],
    ["--gpus", "2", *F32, "--api", "ddp"],
]


def validate(settings):
    """Exit code: 1 if one of SETTINGS disagrees."""
    failed = False
    for setting in settings:
        done = subprocess.run([FSDPSIM, "validate", "tiny", "--seq", "16", "--steps", "2",
                               *setting], env=ENVIRONMENT, capture_output=True, text=True)
        if done.returncode != 0:
            failed = True
            print(" ".join(setting), "exit", done.returncode, done.stderr)
            print("\n".join(line for line in done.stdout.splitlines() if "DISAGREES" in line))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(validate(SETTINGS))
