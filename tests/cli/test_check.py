# SPDX-License-Identifier: Apache-2.0
"""fsdpsim check: verdict and exit code, files for machines, the counter-example, bad input."""
import csv
import json
import random

import program

COLUMNS = (
    "rank,op,stream,name,step,phase,unit,buffer,bytes,category,reads,writes,operator,event,group,"
    "collective,arguments"
).split(",")

# A setting and its values; drawn together they make jobs that a user could run.
FSDP2 = {
    "--gpus": ["4", "8"],
    "--reshard-after-forward": ["default", "true", "false", "auto", "2", "last-block-kept"],
    "--reduce-dtype": ["f32", "bf16"],
    "--param-dtype": ["bf16", "f32", "f16"],
    "--accumulate": ["1", "2", "3"],
    "--gradient-sync": ["every", "last"],
    "--checkpoint": ["none", "full", "selective", "every:2"],
    "--forward-prefetch": ["0", "1", "3"],
    "--backward-prefetch": ["auto", "2"],
    "--optimizer": ["adamw", "adamw-foreach", "sgd", "sgd-momentum"],
    "--wrap": ["block", "block+root", "root"],
    "--clip": ["on", "off"],
    "--zero-grad": ["set-to-none", "keep"],
}
FSDP1 = {
    "--gpus": ["4", "8"],
    "--strategy": ["full_shard", "shard_grad_op", "no_shard"],
    "--accumulate": ["1", "2"],
    "--gradient-sync": ["every", "last"],
    "--backward-prefetch": ["pre", "post", "none"],
    "--limit-all-gathers": ["on", "off"],
    "--reduce-dtype": ["f32", "bf16"],
}
DDP = {
    "--gpus": ["4", "8"],
    "--param-dtype": ["f32"],
    "--bucket": ["1MiB", "25MiB", "100KiB"],
    "--accumulate": ["1", "2"],
    "--gradient-sync": ["every", "last"],
    "--zero-grad": ["set-to-none", "keep"],
}
ALWAYS = ("--gpus", "--param-dtype")
DRAWS = 40


class Check(program.InFolder):
    def check(self, *arguments, code=0):
        done = program.run("check", *arguments, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def plan(self, name, *rows, ranks=2):
        """Writes a plan; a row is a dict of its cells."""
        lines = [
            {"op": "meta", "name": "schema", "arguments": "fsdpsim.plan/1"},
            {"op": "meta", "name": "ranks", "arguments": str(ranks)},
            {"op": "group", "name": "shard", "arguments": f"0-{ranks - 1}"},
            *rows,
        ]
        with open(self.folder / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(lines)
        return name

    def ring(self, waits=True):
        """Two streams: one fills a buffer, the other sends it."""
        rows = [
            {"op": "alloc", "stream": "compute", "buffer": "x", "bytes": "64"},
            {"op": "kernel", "stream": "compute", "name": "fill", "writes": "x"},
            {"op": "record", "stream": "compute", "event": "filled"},
            {"op": "wait", "stream": "send", "event": "filled"},
            {"op": "collective", "stream": "send", "group": "shard", "collective": "all_reduce",
             "bytes": "64", "reads": "x", "writes": "x"},
        ]
        return rows if waits else rows[:3] + rows[4:]

    def test_a_safe_plan_says_what_was_proved(self):
        done = self.check(self.plan("plan.csv", *self.ring()))
        self.assertTrue(done.stdout.startswith("safe: no violation found\n"))
        self.assertIn("5 rows of 2 ranks in 1 classes; 3 accesses to 1 buffers", done.stdout)
        self.assertIn("not judged: [fsdp-37]", done.stdout)

    def test_a_race_is_shown_in_every_form(self):
        self.plan("plan.csv", *self.ring(waits=False))
        done = self.check("plan.csv", "--json", "out.json", "--sarif", "out.sarif", "--schedule",
                          "how.csv", code=1)
        self.assertIn("row 4 (all_reduce on send) reads x while row 2", done.stdout)
        self.assertIn("How it goes wrong on rank 0", done.stdout)
        verdict = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(verdict["schema"], "fsdpsim.check/1")
        self.assertIs(verdict["safe"], False)
        finding = verdict["findings"][0]
        self.assertEqual([place["row"] for place in finding["places"]], [2, 4])
        self.assertEqual((finding["first_stream"], finding["second_stream"]), ("compute", "send"))
        sarif = json.loads((self.folder / "out.sarif").read_text())
        self.assertEqual(sarif["version"], "2.1.0")
        result = sarif["runs"][0]["results"][0]
        rules = sarif["runs"][0]["tool"]["driver"]["rules"]
        self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])
        where = result["locations"][0]["physicalLocation"]
        # Header, two meta rows, a group row, then the rows: the fourth is line 8.
        self.assertEqual(where["region"]["startLine"], 8)
        self.assertEqual(where["artifactLocation"]["uri"], "plan.csv")
        with open(self.folder / "how.csv", newline="", encoding="utf-8") as file:
            spans = list(csv.DictReader(file))
        # The fill is still at it while the all-reduce runs.
        self.assertEqual([span["stream"] for span in spans], ["compute", "send"])
        self.assertLess(int(spans[1]["start_ns"]), int(spans[0]["end_ns"]))

    def test_a_freed_send_buffer_is_a_finding_and_no_bad_input(self):
        rows = self.ring()
        rows.insert(2, {"op": "free", "buffer": "x"})
        done = self.check(self.plan("plan.csv", *rows), code=1)
        self.assertIn("the send buffer of rank 0, x, is freed; it was freed at row 3", done.stdout)

    def test_uses_of_what_does_not_live_are_findings(self):
        alloc, fill = self.ring()[:2]
        free = {"op": "free", "buffer": "x"}
        view = {"op": "view", "buffer": "v", "reads": "x[0:32]"}
        use = {"op": "kernel", "stream": "compute", "name": "use", "reads": "v"}
        lend = {"op": "record_stream", "stream": "send", "buffer": "v"}
        gather = {"op": "collective", "stream": "send", "collective": "all_gather", "bytes": "64",
                  "reads": "x"}
        for rows, says in [
            ([alloc, fill, view, free, use],
             "row 5 (kernel of use on compute): kernel reads the dead buffer x; it was freed at "
             "row 4"),
            ([alloc, fill, free, view], "row 4 (view): view reads the dead buffer x"),
            # The second x is another buffer; its view is sound.
            ([alloc, fill, free, view, alloc, fill, view, use],
             "row 4 (view): view reads the dead buffer x; it was freed at row 3"),
            ([fill, alloc], "row 1 (kernel of fill on compute) uses x before its alloc"),
            ([free, alloc, fill], "row 1 frees x before its alloc"),
            ([alloc, fill, lend, view], "row 3 (record_stream) uses v before its alloc"),
            ([alloc, fill, view, free, {"op": "free", "buffer": "v"}],
             "row 5 frees x, which was freed at row 4"),
            ([{**alloc, "rank": "0"}, {**fill, "rank": "0"}, fill], "uses x before its alloc"),
        ]:
            done = self.check(self.plan("plan.csv", *rows), code=1)
            self.assertIn("not safe: 1 violation\n", done.stdout)
            self.assertIn(says, done.stdout)
        # All else in such a row must be right, and the buffer must be somewhere in the file.
        for rows, says in [
            ([alloc, fill, free, gather], "plan.csv:8: collective: expected a value in column "
                                          "'group'"),
            ([view, alloc], "plan.csv:5: view: expected a buffer of an earlier row"),
            ([alloc, {**fill, "writes": "y"}], "plan.csv:6: column 'writes': unknown buffer 'y'"),
        ]:
            done = self.check(self.plan("plan.csv", *rows), code=3)
            self.assertIn(says, done.stderr)

    def test_plans_of_different_ranks_are_compared(self):
        gather = {"op": "collective", "stream": "send", "group": "shard", "unit": "layers.0",
                  "collective": "all_gather", "bytes": "64"}
        self.plan("rank0.csv", gather)
        self.plan("rank1.csv", gather, gather)
        self.check("rank0.csv", "rank0.csv")
        done = self.check("rank0.csv", "rank1.csv", "--schedule", "how.csv", code=1)
        self.assertIn("collective 2 of communicator shard: rank 0 issues no more", done.stdout)
        self.assertIn("which has no such collective", done.stdout)

    def test_the_output_is_the_same_each_time(self):
        self.plan("plan.csv", *self.ring(waits=False))
        for name in ("a", "b"):
            self.check("plan.csv", "--json", name + ".json", "--sarif", name + ".sarif", code=1)
        for suffix in (".json", ".sarif"):
            one, two = ((self.folder / (name + suffix)).read_bytes() for name in ("a", "b"))
            self.assertEqual(one, two)

    def test_what_the_builders_write_is_safe(self):
        generator = random.Random(8)
        checked = 0
        for i in range(DRAWS):
            api, settings = [("fsdp2", FSDP2), ("fsdp2", FSDP2), ("fsdp1", FSDP1),
                             ("ddp", DDP)][i % 4]
            words = ["--api", api, "--seq", 32, "--steps", 4]
            for name, values in settings.items():
                if name in ALWAYS or generator.random() < 0.5:
                    words += [name, generator.choice(values)]
            done = program.run("check", "tiny", *words, cwd=self.folder)
            if done.returncode == 3:  # settings that exclude each other
                continue
            self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
            checked += 1
        self.assertGreater(checked, DRAWS // 2)

    def test_bounds_follow_the_settings(self):
        for options in (["--forward-prefetch", 3], ["--backward-prefetch", 2]):
            program.run("predict", "tiny", "--gpus", 4, "--seq", 32, "--steps", 2, "--plan",
                        "plan.csv", *options, cwd=self.folder)
            done = self.check("plan.csv")
            self.assertNotIn("fsdp-18", done.stdout)
            # Without the settings the same rows are more than FSDP2 gathers by itself.
            text = (self.folder / "plan.csv").read_text()
            bare = "".join(line for line in text.splitlines(keepends=True)
                           if ",meta,,config," not in line)
            (self.folder / "bare.csv").write_text(bare)
            self.assertIn("[fsdp-18] all-gather bound", self.check("bare.csv").stdout)

    def test_a_model_without_a_wait_is_not_safe(self):
        program.run("predict", "tiny", "--gpus", 2, "--seq", 32, "--steps", 2, "--plan", "good.csv",
                    cwd=self.folder)
        lines = (self.folder / "good.csv").read_text().splitlines(keepends=True)
        bad = [line for line in lines if not line.startswith(",wait,reduce_scatter,")]
        self.assertLess(len(bad), len(lines))
        (self.folder / "bad.csv").write_text("".join(bad))
        self.check("good.csv")
        done = self.check("bad.csv", code=1)
        self.assertIn("[fsdp-6] reduce-scatter input complete", done.stdout)

    def test_bad_input_is_one_line(self):
        self.plan("empty.csv")
        (self.folder / "none.csv").write_text("")
        (self.folder / "text.csv").write_text("this is no plan\n")
        self.plan("three.csv", *self.ring(), ranks=3)
        self.plan("two.csv", *self.ring())
        for arguments, says in [
            (["missing.csv"], "missing.csv"),
            (["empty.csv"], "expected rows, found none"),
            (["none.csv"], "none.csv"),
            (["text.csv"], "text.csv"),
            (["two.csv", "three.csv"], "expected a plan of 2 ranks like the first"),
            (["three.csv", "three.csv"], "rank 2 of 3 has no plan"),
            (["nosuchmodel"], "nosuchmodel"),
        ]:
            done = self.check(*arguments, code=3)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(says, done.stderr)
        for arguments in ([], ["--foo"], ["two.csv", "--gpus", "8"], ["tiny", "--json"]):
            self.check(*arguments, code=2)

    def test_many_streams_and_events_get_an_answer(self):
        streams = 3000
        rows = []
        for i in range(streams):
            rows.append({"op": "kernel", "stream": f"s{i}", "name": "k"})
            rows.append({"op": "record", "stream": f"s{i}", "event": f"e{i}"})
        for i in range(streams):
            rows.append({"op": "wait", "stream": f"s{(i + 1) % streams}", "event": f"e{i}"})
        done = self.check(self.plan("wide.csv", *rows, ranks=1))
        self.assertIn(f"{streams} events, {streams} waits", done.stdout)

    def test_streams_that_wait_in_a_circle_hang(self):
        rows = []
        for i in range(3):
            rows.append({"op": "wait", "stream": f"s{i}", "event": f"e{(i + 1) % 3}"})
            rows.append({"op": "record", "stream": f"s{i}", "event": f"e{i}"})
        done = self.check(self.plan("circle.csv", *rows, ranks=1), code=1)
        self.assertIn("they wait for each other: rank 0, s0 at row 1", done.stdout)


if __name__ == "__main__":
    program.main()
