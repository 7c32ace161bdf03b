# SPDX-License-Identifier: Apache-2.0
"""Whole steps as PyTorch's own allocator counted them (steps/README.md): the same bytes."""
import csv
import json
import pathlib

import program

RECORDING = pathlib.Path(__file__).parent / "steps" / "steps.csv"
COLUMNS = ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_active_bytes",
           "peak_reserved_bytes")


def read_settings():
    """The rows of each setting."""
    settings = {}
    with RECORDING.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            settings.setdefault((row["model"], row["setting"]), []).append(row)
    return settings


class RecordedSteps(program.InFolder):
    def predict_setting(self, first):
        arguments = ["--code", "torchtitan", "--gpus", first["gpus"], "--seq", first["seq"]]
        arguments += ["--batch", first["batch"], "--norm", first["norm"], "--wrap", first["wrap"]]
        arguments += ["--param-dtype", first["param_dtype"], "--allocator", first["allocator"]]
        arguments += ["--reduce-dtype", first["reduce_dtype"], "--optimizer", first["optimizer"]]
        arguments += ["--clip", "on" if first["clip"] == "1" else "off", "--hbm", "unlimited"]
        reshard = {"default": "last-block-kept", "always": "true", "never": "false"}
        arguments += ["--reshard-after-forward", reshard[first["reshard"]]]
        done = program.run(
            "predict", first["model"], *arguments, "--json", "out.json", cwd=self.folder
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)  # whether it fits is not the question
        return json.loads((self.folder / "out.json").read_text(encoding="utf-8"))["memory"]

    def test_every_phase_of_every_step(self):
        for (model, setting), rows in read_settings().items():
            memory = self.predict_setting(rows[0])
            phases = {(p["step"], p["phase"]): p for p in memory["phases"]}
            for row in rows:
                if row["phase"] == "init":
                    continue  # its peaks were not recorded
                phase = phases[int(row["step"]) - 1, row["phase"]]
                with self.subTest(model, setting=setting, step=row["step"], phase=row["phase"]):
                    recorded = {column: int(row[column]) for column in COLUMNS}
                    self.assertEqual({column: phase[column] for column in COLUMNS}, recorded)
                    self.assertEqual(phase["alloc_retries"], int(row["retries"]))


if __name__ == "__main__":
    program.main()
