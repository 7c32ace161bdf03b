#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds a snapshot of ours to PyTorch's own reader of snapshots.

usage: memory_viz.py FSDPSIM [_memory_viz.py]

Without the second argument torch must be installed; the file alone (torch/cuda/_memory_viz.py of any
wheel) does too, since it imports nothing of torch. Prints PyTorch's summary of the segments.
"""
import importlib.util
import pathlib
import pickle
import subprocess
import sys
import tempfile


def load_reader(arguments):
    if not arguments:
        from torch.cuda import _memory_viz

        return _memory_viz
    spec = importlib.util.spec_from_file_location("_memory_viz", arguments[0])
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    return reader


def main():
    program, *rest = sys.argv[1:]
    reader = load_reader(rest)
    for options in ([], ["--allocator", "expandable_segments:True"]):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "s.pickle"
            subprocess.run([program, "predict", "llama-3.2-1b", *options, "--snapshot", path],
                           check=True, stdout=subprocess.DEVNULL)
            snapshot = pickle.loads(path.read_bytes())
        print(reader.segsum(snapshot).rstrip().splitlines()[-1])
        reader.trace(snapshot)
        reader.trace_plot(snapshot)
        reader.segment_plot(snapshot)


if __name__ == "__main__":
    main()
