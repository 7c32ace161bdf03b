# SPDX-License-Identifier: Apache-2.0
"""Whole FSDP2 jobs that PyTorch's own allocator recorded (tests/oracle/jobs), through the command line:
those whose model options oracle/test_fsdp2_jobs.c does not know. Every phase's allocated and reserved
bytes, at the end and at the highest, are equal to the byte."""
import csv
import gzip
import json

import program

# math attention; Phi-3, Gemma 3, Mixtral; composite norm under checkpoints; chunked losses
JOBS = ("v16", "v21", "v22", "v23", "v26", "v27", "v28", "v29")
COLUMNS = ("allocated_bytes", "peak_allocated_bytes", "reserved_bytes", "peak_reserved_bytes")


class RecordedJobs(program.InFolder):
    def test_every_phase_is_what_pytorch_said(self):
        jobs = {name: [] for name in JOBS}
        with gzip.open(program.ROOT / "tests/oracle/jobs/fsdp2.csv.gz", "rt") as file:
            for row in csv.DictReader(file):
                if row["job"] in jobs:
                    jobs[row["job"]].append(row)
        for name, rows in jobs.items():
            with self.subTest(job=name, arguments=rows[0]["arguments"]):
                done = program.run(
                    "predict", rows[0]["model"], *rows[0]["arguments"].split(), "--json", "-"
                )
                # Unlimited memory: some would not fit on the default GPU.
                self.assertIn(done.returncode, (0, 1), done.stderr)
                phases = json.loads(done.stdout)["memory"]["phases"]
                self.assertEqual([p["phase"] for p in phases], [r["phase"] for r in rows])
                # The recorded peaks of init are those of building the model, before step 1.
                for phase, row in zip(phases[1:], rows[1:]):
                    for column in COLUMNS:
                        place = f"step {row['step']} {row['phase']}: {column}"
                        self.assertEqual(phase[column], int(row[column]), place)


if __name__ == "__main__":
    program.main()
