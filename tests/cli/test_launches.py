#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plan's kernels against what PyTorch launches, kernel by kernel.

tests/oracle/launches/block_kernels.csv.gz holds every kernel, product and collective of the middle
block of a recorded step. A plan must have, in each phase and on each stream, as many; the same
products in the same order, with the layout that the cost model takes; and the traffic of each
memory-bound kernel within 2 %. Copies of pointer tables from the host are not in plans yet.
"""
import collections
import csv
import gzip
import re
import shlex

import program

FOLDER = program.ROOT / "tests/oracle/launches"
NETS = program.ROOT / "models/nets"
PRODUCT = re.compile(r"cublas\S* (\d+)x(\d+)x(\d+) ([TN]{2}) x(\d+)")
COUNTED = {"kernel", "collective"}
MIDDLE = {"llama-3.1-8b-4l": 2, "gpt2-xl-4l": 2, "llama-3.2-1b": 8, "llama-3.1-8b": 16}

# Recorded jobs that cannot be compared block by block.
APART = {
    "llama8b-titan-math-attention",  # its products are batched, one launch for each of two steps
    "llama8b-titan-ddp",  # one unit: rows do not say which block they belong to
    "llama8b-titan-prefetch-2",  # the block's rows hold copies for units gathered early
    "gpt2xl-hf-dropout",  # masks: the recording counts a mask's bytes otherwise
}


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def jobs():
    with open(FOLDER / "jobs.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def layout_of(operator):
    """As cuBLAS sees it: column-major."""
    if operator.endswith("_grad_weight"):
        return "NT"
    is_transposed = operator.startswith(("conv1d", "addmm"))
    is_gradient = operator.endswith("_grad_input")
    return "TN" if is_gradient == is_transposed else "NN"


def product_of(row):
    """(m, n, k, layout) of a plan's row, or None."""
    if not row["operator"].startswith(("linear", "conv1d")) or "m=" not in row["arguments"]:
        return None
    sizes = dict(re.findall(r"\b([mnk])=(\d+)", row["arguments"]))
    return (int(sizes["m"]), int(sizes["n"]), int(sizes["k"]), layout_of(row["operator"]))


def recorded_product(row):
    found = PRODUCT.match(row["name"])
    return None if found is None else (*map(int, found.group(1, 2, 3)), found.group(4))


def traffic(row):
    return int(row["read_bytes"] or 0) + int(row["write_bytes"] or 0)


def without_memsets(ours, real):
    """OURS less the fills that the recording does not have as kernels: contiguous tensors are filled
    with a memset."""
    sizes = collections.Counter(map(traffic, real))
    sizes.subtract(int(row["hbm_bytes"] or 0) for row in ours)
    kept = []
    for row in ours:
        size = int(row["hbm_bytes"] or 0)
        if row["operator"] == "fill" and sizes[size] < 0:
            sizes[size] += 1
        else:
            kept.append(row)
    return kept


class Launches(program.InFolder):
    recorded = read(FOLDER / "block_kernels.csv.gz")

    def plan_of(self, job):
        config = FOLDER / f"{job['model']}.json"
        model = config if config.exists() else NETS / f"{job['model']}.json"
        options = shlex.split(job["options"])
        if "--gpus" not in options:
            options += ["--gpus", "8"]
        fits = 1 if job["job"] == "llama8b-32l-titan-selective-8192x2" else 0
        self.predict(model, *options, "--steps", 3, "--hbm", "unlimited", "--plan", "plan.csv",
                     code=fits)
        with open(self.folder / "plan.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [row for row in rows if row["step"] == "2" and row["op"] in COUNTED]

    def compare(self, job, phase, real, ours):
        where = f"{job['job']} {phase}"
        ours = without_memsets(ours, real)
        self.assertEqual(collections.Counter(row["stream"] for row in ours),
                         collections.Counter(row["stream"] for row in real), where)
        products = [found for found in map(recorded_product, real) if found is not None]
        self.assertEqual([found for found in map(product_of, ours) if found is not None], products,
                         where)
        sizes = [traffic(row) for row in real if traffic(row) > 0]
        wanted = sorted(sizes)
        found = sorted(int(row["hbm_bytes"]) for row in ours
                       if row["hbm_bytes"] and product_of(row) is None
                       and row["operator"] not in ("attention", "attention_grad"))
        self.assertEqual(len(found), len(wanted), where)
        for one, other in zip(found, wanted):
            self.assertLessEqual(abs(one - other), 0.02 * other, where)


    def test_a_middle_block_launches_what_pytorch_launches(self):
        compared = 0
        for job in jobs():
            if job["job"] in APART:
                continue
            plan = self.plan_of(job)
            real = [row for row in self.recorded if row["job"] == job["job"]
                    and row["name"] != "cudaMemcpyAsync host to device"]
            for phase in sorted({row["phase"] for row in real}):
                block = re.compile(rf"(layers|h)\.{MIDDLE[job['model']]}$")
                self.compare(job, phase, [row for row in real if row["phase"] == phase],
                             [row for row in plan if row["phase"] == phase
                              and block.search(row["unit"])])
                compared += 1
        self.assertEqual(compared, 37)


if __name__ == "__main__":
    program.main()
