# SPDX-License-Identifier: Apache-2.0
"""The text summary: a screen of 80 columns and 24 lines that first says the job; and its notes."""
import json

import program


class Screen(program.InFolder):
    def summarize(self, *arguments, code=0):
        text = self.predict(*arguments, code=code).stdout
        lines = text.splitlines()
        self.assertLessEqual(len(lines), 24, text)
        self.assertLessEqual(max(len(line) for line in lines), 80, text)
        return lines

    def test_every_summary_is_a_screen(self):
        for arguments in (
            ["llama-3.1-8b"],
            ["gpt2", "--gpus", "64", "--strategy", "hybrid_shard", "--accumulate", "3"],
            ["gpt2", "--gpus", "8", "--cluster", "mi300x", "--checkpoint", "full"],
            ["gpt2", "--api", "fsdp1", "--offload", "cpu", "--gradient-sync", "last"],
            ["gpt2", "--jitter", "2"],
            ["gpt2", "--api", "ddp", "--slow-rank", "1:1.5"],
        ):
            with self.subTest(" ".join(arguments)):
                self.summarize(*arguments)
        self.summarize("llama-3.1-8b", "--hbm", "6GiB", code=1)

    def test_the_first_lines_say_the_job(self):
        lines = self.summarize("gpt2", "--gpus", 8, "--seq", 256, "--batch", 2, "--accumulate", 3,
                               "--checkpoint", "every:2")
        self.assertEqual(lines[0], "gpt2: 124.44 million parameters in 13 units, transformers code")
        self.assertEqual(
            lines[1], "2 x 256 tokens a GPU, 3 microbatches a step, checkpoint every:2, bf16, adamw")
        self.assertEqual(lines[2], "8 x NVIDIA H100 SXM 80 GB HBM3")

    def test_what_pytorch_trains_wrongly_is_noted(self):
        """FSDP1 with offload accumulates only in no_sync; gathered parameters miss the optimizer."""
        for arguments, notes in (
            (["--api", "fsdp1", "--offload", "cpu", "--accumulate", "2"], ["--gradient-sync last"]),
            (["--api", "fsdp1", "--offload", "cpu", "--accumulate", "2", "--gradient-sync", "last"], []),
            (["--api", "fsdp1", "--offload", "cpu"], []),
            (["--reshard-after-backward", "false"], ["--reshard-after-backward false"]),
            ([], []),
        ):
            with self.subTest(" ".join(arguments)):
                done = self.predict("gpt2", "--steps", 1, "--json", "-", *arguments)
                warnings = json.loads(done.stdout)["warnings"]
                self.assertEqual(len(warnings), len(notes))
                for warning, note in zip(warnings, notes):
                    self.assertIn(note, warning)

    def test_ddp_computes_in_the_stored_type_unless_told_otherwise(self):
        done = self.predict("gpt2", "--api", "ddp", "--steps", 1, "--json", "-")
        self.assertEqual(json.loads(done.stdout)["config"]["param_dtype"], "f32")
        self.predict("gpt2", "--api", "ddp", "--param-dtype", "bf16", code=3)


program.main()
