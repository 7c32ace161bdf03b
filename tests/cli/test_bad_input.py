# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit code 3, one line that says where and what was expected, nothing written."""
import json
import os
import resource
import signal
import subprocess
import time

import program

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-05,
}

HEADER = "rank,op,stream,name,step,phase,buffer,bytes,category,event,arguments,duration\n"
META = ",meta,,schema,,,,,,,fsdpsim.plan/1,\n,meta,,ranks,,,,,,,2,\n"


def changed(**changes):
    """The Llama config with keys replaced; None leaves a key out."""
    config = {**LLAMA, **changes}
    return json.dumps({key: value for key, value in config.items() if value is not None})


def limit_file_size():
    """A disk on which 4 KiB are left."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


class BadInput(program.InFolder):
    def expect_refusal(self, *arguments, says=""):
        """Exit 3, one line on standard error that says SAYS, and nothing else anywhere."""
        before = sorted(self.folder.iterdir())
        done = self.predict(*arguments, "--json", "out.json", "--plan", "out.csv", code=3)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_the_config_itself_is_fine(self):
        self.predict(self.write("config.json", changed()), "--gpus", 2)

    def test_files_that_are_no_config(self):
        self.expect_refusal("missing.json", says="missing.json")
        self.expect_refusal(self.folder, says="config.json")
        self.expect_refusal(self.write("a.json", "this is not JSON"), says="a.json:1:")
        self.expect_refusal(self.write("b.json", ""), says="b.json")
        self.expect_refusal(self.write("c.json", "[]"), says="c.json")

    def test_a_hundred_megabytes_nested_a_million_deep(self):
        deep = '{"a":' * 10**6
        self.expect_refusal(self.write("deep.json", deep + " " * (10**8 - len(deep))), says="deep")

    def test_configs_that_make_no_model(self):
        for number, (config, says) in enumerate(
            [
                (changed(architectures=["LlamaForCausalLn"]), "LlamaForCausalLM"),
                (changed(hidden_size=None), "hidden_size"),
                (changed(hidden_size=-64), "hidden_size"),
                (changed(hidden_size=10**18), "hidden_size"),
                (changed(hidden_size="64"), "hidden_size"),
                (changed(num_hidden_layers=0), "num_hidden_layers"),
                (changed(num_attention_heads=5, num_key_value_heads=5), "num_attention_heads"),
                (changed(num_key_value_heads=3), "num_key_value_heads"),
            ]
        ):
            with self.subTest(says, number=number):
                self.expect_refusal(self.write(f"model{number}.json", config), says=says)

    def test_values_of_options(self):
        config = self.write("config.json", changed())
        for option, value, says in [
            ("gpus", "0", "--gpus"),
            ("gpus", "1000000000", "--gpus"),
            ("gpus", "eight", "--gpus"),
            ("reshard-after-forward", "defualt", "default"),
            ("param-dtype", "bf17", "bf16"),
            ("cluster", "h10", "h100"),
            ("allocator", "expandable_segment:True", "expandable_segments"),
            ("hbm", "80 parsecs", "--hbm"),
            ("ranks", "0-9999", "--ranks"),
            ("config", "missing.json", "missing.json"),
        ]:
            with self.subTest(option, value=value):
                memory = ("--memory", "m.csv") if option == "ranks" else ()
                self.expect_refusal(config, f"--{option}", value, *memory, says=says)

    def test_an_unknown_model_gets_the_nearest_names(self):
        self.expect_refusal("llama-3.1-9b", says="llama-3.1-8b")

    def test_a_name_of_the_hub_gets_the_model_that_ships(self):
        self.expect_refusal("meta-llama/Llama-3.1-8B", says="ships: llama-3.1-8b")

    def test_what_pytorch_raises_on_when_it_runs(self):
        """A loss without gradient; a position that is not in the table."""
        self.expect_refusal("gpt2", "--frozen", "*", says="--frozen: expected a parameter")
        self.expect_refusal("gpt2", "--seq", 1025, says="--seq: expected at most 1024")

    def test_plans_that_are_none(self):
        for number, (text, says) in enumerate(
            [
                ("", "plan0.csv"),
                ("rank,op,steam\n", "did you mean 'stream'?"),
                (HEADER + META + ",colective,compute,,0,,,,,,,\n", "did you mean 'collective'?"),
                (HEADER + META + ",alloc,compute,,0,,A,,activation,,,\n", "plan3.csv:4"),
                (HEADER + META + ",free,,,0,,A,,,,,\n", "plan4.csv:4"),
                (HEADER + META + ",kernel,,k,0,,,,,,,1ms\n", "plan5.csv:4"),
            ]
        ):
            with self.subTest(says):
                plan = self.write(f"plan{number}.csv", text)
                self.expect_refusal("--from-plan", plan, says=says)

    def test_gpus_that_do_not_fill_the_last_node_are_allowed_and_said(self):
        config = self.write("config.json", changed())
        self.predict(config, "--gpus", 12, "--json", "out.json")
        summary = json.loads((self.folder / "out.json").read_text())
        self.assertIn("the last node is not full", summary["warnings"][0])

    def test_a_wait_for_what_is_never_recorded_is_a_deadlock(self):
        """Compute waits for `b`, which `side` records after `a`, which compute records after its
        wait: the cycle is compute -> side -> compute, and the answer is no."""
        rows = (
            ",wait,compute,,0,forward,,,,b,,\n,record,compute,,0,forward,,,,a,,\n"
            ",wait,side,,0,forward,,,,a,,\n,record,side,,0,forward,,,,b,,\n"
        )
        plan = self.write("plan.csv", HEADER + META + rows)
        self.predict("--from-plan", plan, "--json", "out.json", code=1)
        summary = json.loads((self.folder / "out.json").read_text())
        self.assertEqual([link["stream"] for link in summary["deadlock"]], ["compute", "side"])
        self.assertIsNone(summary["time"])


class Disk(program.InFolder):
    def test_a_full_disk_leaves_every_old_file(self):
        config = self.write("config.json", changed())
        old = [self.write(name, "old") for name in ("out.json", "t.csv", "m.csv", "p.csv")]
        done = self.predict(
            config, "--json", old[0], "--timeline", old[1], "--memory", old[2], "--plan", old[3],
            code=3, preexec_fn=limit_file_size,
        )
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual([path.read_text() for path in old], ["old"] * 4)
        self.assertEqual(len(list(self.folder.iterdir())), 5)

    def test_a_full_device_leaves_the_files_beside_it(self):
        config = self.write("config.json", changed())
        old = self.write("out.json", "old")
        self.predict(config, "--json", old, "--plan", "/dev/full", code=3)
        self.assertEqual(old.read_text(), "old")

    def test_standard_output_that_is_full(self):
        config = self.write("config.json", changed())
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [program.PROGRAM, "predict", config], stdout=full, stderr=subprocess.PIPE,
                check=False, timeout=60,
            )
        self.assertEqual(done.returncode, 3)

    def test_a_killed_run_leaves_the_old_file_or_the_whole_new_one(self):
        config = self.write("config.json", changed(num_hidden_layers=64))
        arguments = ["predict", config, "--steps", "4", "--json", "out.json", "--memory", "m.csv"]
        self.predict(*arguments[1:])
        new = (self.folder / "m.csv").read_text()
        for delay_ms in (1, 5, 10, 20, 40, 80):
            old = self.write("m.csv", "old")
            process = subprocess.Popen(
                [program.PROGRAM, *map(str, arguments)], cwd=self.folder,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            time.sleep(delay_ms / 1000)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertIn(old.read_text(), ("old", new))


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"
    program.main()
