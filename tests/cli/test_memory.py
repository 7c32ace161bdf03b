# SPDX-License-Identifier: Apache-2.0
"""What predict says of memory: out of memory and PyTorch's hint, steady steps, settings of the code."""
import json
import unittest

from program import InFolder

TITAN = ("llama-3.1-8b", "--gpus", 8, "--seq", 8192, "--checkpoint", "selective")


class Memory(InFolder):
    def memory(self, *arguments, code=0):
        """The summary's memory."""
        return json.loads(self.predict(*arguments, "--json", "-", code=code).stdout)["memory"]

    def test_the_hint_is_tried(self):
        # PyTorch's own allocator runs out in step 4 of 42 GiB, and not at all with expandable segments.
        kept = (*TITAN, "--reshard-after-forward", "last-block-kept")
        memory = self.memory(*kept, "--hbm", "42GiB", code=1)
        self.assertFalse(memory["fits"])
        self.assertEqual(memory["oom"]["step"], 3)
        self.assertEqual(memory["oom"]["requested_bytes"], 4202692608)
        self.assertEqual(memory["oom"]["with_expandable_segments"], "fits")
        memory = self.memory(*kept, "--hbm", "42GiB", "--allocator", "expandable_segments:True")
        self.assertIsNone(memory["oom"])

    def test_the_hint_may_not_help(self):
        memory = self.memory(*TITAN, "--hbm", "30GiB", code=1)
        self.assertEqual(memory["oom"]["with_expandable_segments"], "fails")
        memory = self.memory(*TITAN, "--hbm", "30GiB", "--allocator", "expandable_segments:True", code=1)
        self.assertNotIn("with_expandable_segments", memory["oom"])

    def test_the_request_is_the_one_in_the_message(self):
        # Logits of 501 MiB: PyTorch says that it tried to allocate 502.
        memory = self.memory("llama-3.1-8b", "--gpus", 8, "--seq", 2048, "--hbm", "24GiB", "--allocator",
                             "expandable_segments:True", "--reshard-after-forward", "last-block-kept", code=1)
        self.assertEqual(memory["oom"]["requested_bytes"], 502 * 2**20)

    def test_auto_stops_when_peaks_repeat(self):
        steps = self.memory(*TITAN, "--hbm", "unlimited", "--steps", "auto")["steps"]
        self.assertLess(len(steps), 10)
        self.assertEqual(steps[-1], steps[-2])
        self.assertNotEqual(steps[0], steps[1])

    def test_a_loss_in_chunks_takes_less(self):
        whole = self.memory(*TITAN, "--hbm", "unlimited")["peak_allocated_bytes"]
        chunks = self.memory(*TITAN, "--hbm", "unlimited", "--loss", "chunked:8")["peak_allocated_bytes"]
        # Logits: 12 bytes an element at the peak, a chunk of 8 holds an eighth.
        self.assertLess(chunks, whole - 6 * 8192 * 128256)

    def test_frozen_modules_have_no_gradient_and_no_state(self):
        model = ("llama-3.2-1b", "--gpus", 4, "--seq", 1024, "--hbm", "unlimited")
        trained = self.memory(*model)["phases"][-1]["allocated_bytes"]
        frozen = self.memory(*model, "--frozen", "tok_embeddings", "--frozen", "output")["phases"][-1]["allocated_bytes"]
        # Two matrices of 128256 x 2048 / 4 elements, two f32 moments each.
        self.assertAlmostEqual(trained - frozen, 2 * 2 * 4 * 128256 * 2048 // 4, delta=2 * 2**20)

    def test_what_cannot_be_said_is_refused(self):
        for arguments, expected in (
            (("--loss", "fused"), "expected cross-entropy, kept-logits or chunked:N"),
            (("--loss", "chunked:7"), "a divisor of the 8192 tokens"),
            (("--frozen", "layer.0"), "--frozen: unknown module 'layer.0'"),
            (("--optimizer", "adafactor"), "PyTorch refuses it on fsdp2's DTensors"),
        ):
            done = self.predict(*TITAN, *arguments, code=3)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
