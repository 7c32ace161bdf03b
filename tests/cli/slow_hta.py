# SPDX-License-Identifier: Apache-2.0
"""Holistic Trace Analysis (PyPI, in a virtual environment made here) reads our traces: its exposed
communication is that of the same trace by HTA's rule, within 1 %."""
import csv
import json
import os
import subprocess
import sys
import venv

import program

ANALYSIS = """
import json, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
overlap = analysis.get_comm_comp_overlap(visualize=False)
parts = analysis.get_temporal_breakdown(visualize=False)
print("ANSWER", json.dumps([float(overlap["comp_comm_overlap_pctg"].iloc[0]),
                            float(parts["non_compute_time(us)"].iloc[0])]))
"""


def union(intervals):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def measure(intervals):
    return sum(end - begin for begin, end in intervals)


def make_environment(folder):
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "HolisticTraceAnalysis==0.5.0"],
                   check=True)
    return python


class Hta(program.InFolder):
    def test_exposed_communication_agrees(self):
        python = make_environment(self.folder / "venv")
        self.predict("llama-3.1-8b", "--gpus", 8, "--trace", "t.json", "--timeline", "t.csv",
                     "--ranks", 0)
        done = subprocess.run([python, "-c", ANALYSIS, self.folder / "t.json"], check=True,
                              capture_output=True, text=True, cwd=self.folder,
                              # Else it cuts times to whole microseconds: kernels then have gaps.
                              env={**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"})
        line = next(line for line in done.stdout.splitlines() if line.startswith("ANSWER "))
        overlap, exposed_us = json.loads(line[7:])
        with open(self.folder / "t.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        spans = {"work": [], "communication": []}
        for row in rows:
            kind = "work" if row["category"] == "kernel" else "communication"
            if row["category"] not in ("copy", "host_wait"):
                spans[kind].append((int(row["start_ns"]), int(row["end_ns"])))
        work, communication = union(spans["work"]), union(spans["communication"])
        exposed = measure(union([*map(tuple, work), *map(tuple, communication)])) - measure(work)
        self.assertAlmostEqual(exposed_us * 1000 / exposed, 1, delta=0.01)
        hidden = 1 - exposed / measure(communication)
        self.assertAlmostEqual(overlap / 100, hidden, delta=0.01)


if __name__ == "__main__":
    sys.exit(program.main())
