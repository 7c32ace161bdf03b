# SPDX-License-Identifier: Apache-2.0
"""Every kind of input file, mutated: whatever it holds, the program ends by itself with an exit code
of its own, refuses in one line, and leaves no file where it refused."""
import json
import os
import random
import subprocess

import mutate
import program

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False,
}

JOB = {
    "schema": "fsdpsim.job/1", "api": "fsdp2", "mesh": {"shard": 2},
    "mp_policy": {"param_dtype": "bf16", "reduce_dtype": "f32", "cast_forward_inputs": True},
    "fully_shard": [
        {"modules": "layers.*", "reshard_after_forward": 2},
        {"modules": ["norm", "output"], "reshard_after_forward": False},
        {"modules": ""},
    ],
    "set": [
        {"modules": "", "reduce_scatter_max_input_buffers": 3, "gradient_divide_factor": 8.0},
        {"modules": "layers.0", "modules_to_forward_prefetch": ["layers.1"]},
    ],
    "frozen": ["layers.1.*"],
    "checkpoint": [{"modules": "layers.*", "around": "fsdp", "reentrant": False, "policy": "full"}],
    "optimizer": "adamw",
    "step": [
        {"zero_grad": "set_to_none"},
        {"set": {"modules": "", "requires_gradient_sync": False, "is_last_backward": False}},
        {"forward": 0}, {"backward": 0},
        {"set": {"modules": "", "requires_gradient_sync": True, "is_last_backward": True}},
        {"forward": 1}, {"backward": 1}, {"optimizer": True},
    ],
}

SANITIZERS = {
    "ASAN_OPTIONS": "exitcode=99",
    "UBSAN_OPTIONS": "halt_on_error=1:exitcode=98",
}


class Fuzz(program.InFolder):
    """VARIANTS of each kind; the same ones in every run."""

    variants = 0

    def setUp(self):
        super().setUp()
        self.model = self.write("model.json", json.dumps(LLAMA))
        self.predict(self.model, "--gpus", 2, "--steps", 1, "--plan", "plan.csv",
                     "--json", "summary.json")

    def run_variant(self, path, arguments):
        """Runs on the variant in PATH; says what is wrong, or None."""
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        try:
            done = program.run(*arguments, "--json", out, cwd=self.folder, timeout=60,
                               errors="replace", env={**os.environ, **SANITIZERS})
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode in (0, 1):
            json.loads(out.read_text())
            return None
        if done.returncode not in (2, 3):
            return f"exit {done.returncode}: {done.stderr[-2000:]}"
        if done.stderr.count("\n") != 1 or done.stdout != "":
            return f"refused in more or less than a line: {done.stderr!r} {done.stdout!r}"
        return "wrote a file, and refused" if out.exists() else None

    def check(self, kind, data, arguments):
        """ARGUMENTS of a path."""
        path = self.folder / ("variant" + (".csv" if kind == "plan" else ".json"))
        path.write_bytes(data)
        self.predict(*arguments(path)[1:])
        for number in range(self.variants):
            generator = random.Random(f"{kind} {number}")
            path.write_bytes(mutate.mutate(generator, path.name, data))
            with self.subTest(kind, number=number):
                self.assertIsNone(self.run_variant(path, arguments(path)))

    def test_configs(self):
        data = self.model.read_bytes()
        self.check("config", data, lambda path: ["predict", path, "--gpus", 2, "--steps", 1])

    def test_clusters(self):
        data = (program.ROOT / "models/clusters/h100.json").read_bytes()
        self.check("cluster", data, lambda path: [
            "predict", self.model, "--gpus", 16, "--steps", 1, "--cluster", path])

    def test_jobs(self):
        data = json.dumps(JOB).encode()
        self.check("job", data, lambda path: [
            "predict", self.model, "--gpus", 2, "--steps", 1, "--job", path])

    def test_settings(self):
        summary = json.loads((self.folder / "summary.json").read_text())
        data = json.dumps(summary["config"]).encode()
        self.check("settings", data, lambda path: [
            "predict", self.model, "--config", path, "--steps", 1])

    def test_plans(self):
        data = (self.folder / "plan.csv").read_bytes()
        self.check("plan", data, lambda path: ["predict", "--from-plan", path])
