# SPDX-License-Identifier: Apache-2.0
"""What predict writes: the same bytes whichever way it gets there, and sums that add up."""
import csv
import json
import os
import subprocess

import program

OUTPUTS = ("json", "timeline", "memory")


class Outputs(program.InFolder):
    def outputs(self, *arguments, **options):
        """Predicts with all outputs and returns their bytes."""
        files = [(f"--{name}", self.folder / f"out.{name}") for name in OUTPUTS]
        self.predict(*arguments, *(word for file in files for word in file), **options)
        return {name: (self.folder / f"out.{name}").read_bytes() for name in OUTPUTS}

    def assert_same_but_simulation(self, one, other):
        one, other = ({**json.loads(text), "simulation": None} for text in (one, other))
        self.assertEqual(one, other)

    def test_json_on_standard_output_is_alone_there(self):
        done = self.predict("gpt2", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["schema"], "fsdpsim.summary/1")
        self.assertEqual(done.stderr, "")

    def test_folded_and_unfolded_agree(self):
        """GPT-2's 50,257 vocabulary rows do not divide by 8: rank 7 has fewer, and is a class."""
        for model, gpus, simulated in (
            ("llama-3.2-1b", 8, 1), ("llama-3.2-1b", 64, 1), ("gpt2", 8, 2),
        ):
            with self.subTest(model, gpus=gpus):
                folded = self.outputs(model, "--gpus", gpus)
                unfolded = self.outputs(model, "--gpus", gpus, "--fold", "off")
                self.assert_same_but_simulation(folded["json"], unfolded["json"])
                self.assertEqual(folded["timeline"], unfolded["timeline"])
                self.assertEqual(folded["memory"], unfolded["memory"])
                simulation = json.loads(folded["json"])["simulation"]
                self.assertEqual(simulation["simulated_ranks"], simulated)
                simulation = json.loads(unfolded["json"])["simulation"]
                self.assertEqual(simulation["simulated_ranks"], gpus)

    def test_all_ranks_folded_and_unfolded(self):
        arguments = ("gpt2", "--gpus", 8, "--ranks", "all", "--steps", 2)
        folded = self.outputs(*arguments)
        self.assertEqual(folded["memory"], self.outputs(*arguments, "--fold", "off")["memory"])
        self.assertEqual(folded["timeline"], self.outputs(*arguments, "--fold", "off")["timeline"])

    def test_a_saved_plan_plays_identically(self):
        for model in ("llama-3.2-1b", "gpt2"):
            with self.subTest(model):
                built = self.outputs(model, "--gpus", 8, "--plan", "plan.csv")
                self.assertEqual(built, self.outputs("--from-plan", "plan.csv"))

    def test_a_saved_plan_keeps_what_it_runs_on(self):
        """And takes it: ranks that differ and other libraries are no part of the rows."""
        unequal = ("--jitter", 5, "--seed", 3, "--slow-rank", "1:1.2", "--collectives", "gloo")
        built = self.outputs("tiny", "--gpus", 4, *unequal, "--plan", "plan.csv")
        self.assertEqual(built, self.outputs("--from-plan", "plan.csv"))
        self.predict("tiny", "--gpus", 4, "--plan", "equal.csv")
        self.assertEqual(built, self.outputs("--from-plan", "equal.csv", *unequal))

    def test_a_saved_plan_takes_memory_options(self):
        self.predict("llama-3.2-1b", "--plan", "plan.csv")
        done = self.predict("--from-plan", "plan.csv", "--hbm", "8GiB", "--json", "-", code=1)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["config"]["hbm"], "8GiB")
        self.assertFalse(summary["memory"]["fits"])
        self.assertIsNone(summary["time"])
        self.assertLessEqual(summary["memory"]["oom"]["reserved_bytes"], 8 << 30)

    def test_the_printed_config_gives_the_same_result(self):
        first = self.outputs("llama-3.2-1b", "--batch", 2, "--seq", 1024, "--reduce-dtype", "bf16")
        self.write("config.json", json.dumps(json.loads(first["json"])["config"]))
        self.assertEqual(first, self.outputs("llama-3.2-1b", "--config", "config.json"))

    def test_locales_make_no_difference(self):
        """German writes 1,5 for 1.5."""
        subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", self.folder / "de_DE.UTF-8"], check=True
        )
        plain = self.outputs("llama-3.2-1b", env={**os.environ, "LC_ALL": "C"})
        german = {**os.environ, "LC_ALL": "de_DE.UTF-8", "LOCPATH": str(self.folder)}
        self.assertEqual(plain, self.outputs("llama-3.2-1b", env=german))
        self.assertEqual(plain, self.outputs("llama-3.2-1b", env=german))

    def test_sums_add_up(self):
        for model in ("llama-3.2-1b", "gpt2"):
            outputs = self.outputs(model, "--gpus", 8)
            summary = json.loads(outputs["json"])
            time, memory = summary["time"], summary["memory"]
            parts = ("compute", "exposed_communication", "waiting", "host_bound")
            self.assertAlmostEqual(sum(time[part] for part in parts), time["step"], delta=1e-12)
            phases = ("forward", "backward", "optimizer")
            self.assertAlmostEqual(sum(time[part] for part in phases), time["step"], delta=1e-12)
            self.assertEqual(
                sum(memory["peak"]["by_category"].values()), memory["peak_allocated_bytes"]
            )
            self.assertEqual(
                max(step["peak_reserved_bytes"] for step in memory["steps"]),
                memory["peak_reserved_bytes"],
            )

    def test_the_timeline_is_sorted_and_streams_are_queues(self):
        rows = list(csv.DictReader(self.outputs("gpt2")["timeline"].decode().splitlines()))
        keys = [(int(row["rank"]), int(row["start_ns"])) for row in rows]
        self.assertEqual(keys, sorted(keys))
        ends = {}
        for row in rows:
            place = (row["rank"], row["stream"])
            self.assertGreaterEqual(int(row["start_ns"]), ends.get(place, 0))
            self.assertEqual(
                int(row["end_ns"]), int(row["start_ns"]) + int(row["duration_ns"])
            )
            ends[place] = int(row["end_ns"])

    def test_the_memory_history_counts_itself(self):
        """allocated_bytes is the sum of what is between alloc and free_requested, but for the
        rounding of each block: 512 bytes, or up to 1 MiB that is not worth splitting off."""
        rows = list(csv.DictReader(self.outputs("gpt2")["memory"].decode().splitlines()))
        requested, blocks = {}, {}
        for row in rows:
            rank = row["rank"]
            sign = {"alloc": 1, "free_requested": -1}.get(row["action"], 0)
            requested[rank] = requested.get(rank, 0) + sign * int(row["bytes"])
            blocks[rank] = blocks.get(rank, 0) + sign
            self.assertLessEqual(requested[rank], int(row["allocated_bytes"]))
            self.assertLessEqual(
                int(row["allocated_bytes"]), requested[rank] + blocks[rank] * (1 << 20)
            )
            self.assertLessEqual(int(row["allocated_bytes"]), int(row["reserved_bytes"]))

    def test_the_summary_fits_one_screen(self):
        lines = self.predict("llama-3.1-8b", "--gpus", 8).stdout.splitlines()
        self.assertLessEqual(len(lines), 24)
        for line in lines:
            self.assertLessEqual(len(line), 80, line)


class Usage(program.InFolder):
    def test_wrong_usage_is_exit_code_2(self):
        for arguments in (
            (), ("predcit",), ("predict",), ("predict", "gpt2", "llama-2-7b"),
            ("predict", "gpt2", "--gpu", "8"), ("predict", "gpt2", "--gpus"),
            ("predict", "gpt2", "--json", "-", "--plan", "-"), ("list", "models"),
            ("predict", "gpt2", "--from-plan", "p.csv"),
            ("predict", "--from-plan", "p.csv", "--seq", "128"), ("--helpp",),
        ):
            with self.subTest(arguments):
                done = program.run(*arguments, cwd=self.folder)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_help_and_version(self):
        for arguments in (("--help",), ("--version",), ("predict", "--help"), ("list", "--help")):
            done = program.run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertNotEqual(done.stdout, "")
        self.assertIn("Example: ", program.run("predict", "--help").stdout)

    def test_list_names_what_ships(self):
        words = program.run("list").stdout.split()
        for name in ("llama-3.1-8b", "gpt2", "h100", "flat"):
            self.assertIn(name, words)


if __name__ == "__main__":
    program.main()
