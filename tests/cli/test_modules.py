# SPDX-License-Identifier: Apache-2.0
"""MODEL as a module tree (fsdpsim.modules/1): any net that models/write_modules.py can write."""
import json
import unittest

from program import ROOT, InFolder, run

TREES = ROOT / "tests/unit/model/data/modules"
OPTIONS = ("--gpus", 2, "--seq", 4, "--batch", 1)


class Modules(InFolder):
    def summary(self, net, *arguments):
        return json.loads(self.predict(TREES / f"{net}.json", *OPTIONS, *arguments, "--json", "-").stdout)

    def test_a_tree_is_a_model(self):
        summary = self.summary("pytorch_transformer", "--param-dtype", "f32")
        self.assertEqual(summary["model"]["trained_parameters"], 3 * 7084800 + 62976)
        self.assertEqual(summary["model"]["units"], 4)
        # Half of each parameter, f32; blocks of 2 MiB keep tails.
        categories = summary["memory"]["peak"]["by_category"]
        self.assertAlmostEqual(categories["parameter_shard"], 4 * 21317376 // 2, delta=2**20)

    def test_modules_without_calls_are_told(self):
        summary = self.summary("vision")
        self.assertIn("gives no calls for stages.0 and 1 more", summary["warnings"][0])
        text = self.predict(TREES / "vision.json", *OPTIONS).stdout
        self.assertIn("gives no calls for stages.0 and 1 more", text)
        self.assertNotIn("gives no calls", "".join(self.summary("stacked")["warnings"]))

    def test_a_job_file_names_its_modules(self):
        job = {
            "schema": "fsdpsim.job/1", "api": "fsdp2", "mesh": {"shard": 2},
            "fully_shard": [{"modules": "stages.*"}, {"modules": "head"}, {"modules": ""}],
            "step": [{"forward": 0}, {"backward": 0}, {"optimizer": True}, {"zero_grad": "set_to_none"}],
        }
        file = self.write("job.json", json.dumps(job))
        done = self.predict(TREES / "vision.json", "--job", file, "--seq", 4, "--json", "-")
        self.assertEqual(json.loads(done.stdout)["model"]["units"], 3)

    def test_members_of_a_module_without_calls_are_units(self):
        self.write("units", "stages.*.conv\nstages.*.norm\n")
        for api in ("fsdp2", "fsdp1"):
            done = self.predict(TREES / "vision.json", *OPTIONS, "--api", api, "--wrap", "units", "--json", "-")
            self.assertEqual(json.loads(done.stdout)["model"]["units"], 5)

    def test_plans_of_trees_are_safe(self):
        for net in ("stacked", "vision", "pytorch_transformer"):
            for api in ("fsdp2", "fsdp1", "ddp"):
                done = run("check", TREES / f"{net}.json", *OPTIONS, "--api", api, "--param-dtype", "f32")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_the_tree_says_is_no_option(self):
        done = self.predict(TREES / "stacked.json", *OPTIONS, "--norm", "fused", code=3)
        self.assertIn("--norm: ", done.stderr)
        self.assertIn("is a module tree, which says that itself", done.stderr)

    def test_shapes_that_do_not_fit_are_an_error_of_the_file(self):
        tree = json.loads((TREES / "stacked.json").read_text())
        tree["modules"][4]["calls"][1]["inputs"] = ["x"]
        tree["modules"][4]["calls"][1].pop("delete")
        done = self.predict(self.write("wrong.json", json.dumps(tree)), *OPTIONS, code=3)
        self.assertIn('module "layers.0.gated", calls[3]: mul: expected shapes that broadcast', done.stderr)


if __name__ == "__main__":
    unittest.main()
