# SPDX-License-Identifier: Apache-2.0
"""The question this project began with: if the full weights are freed after forward, how can they be
gathered again in backward? Because every rank keeps its shard. In the memory history of Llama-3.1-8B
on 8 GPUs, for each of its 32 blocks."""
import csv

import program

BLOCKS = [f"layers.{i}" for i in range(32)]


def unit_of(buffer):
    """The unit of a buffer of FSDP: "U:layers.3#7:attention.wq.weight" -> "layers.3"."""
    return buffer.partition(":")[2].partition("#")[0]


class Seed(program.InFolder):
    def setUp(self):
        super().setUp()
        self.predict("llama-3.1-8b", "--gpus", 8, "--memory", "m.csv")
        with (self.folder / "m.csv").open(encoding="utf-8") as file:
            self.rows = [row for row in csv.DictReader(file) if row["step"] in ("", "0")]

    def positions(self, action, category, unit, phase):
        """Where in the history this happens to buffers of a block."""
        return [
            position
            for position, row in enumerate(self.rows)
            if (row["action"], row["category"], row["phase"]) == (action, category, phase)
            and unit_of(row["buffer"]) == unit
        ]

    def alive_at(self, position):
        """Names and categories of what has been allocated and not freed before POSITION."""
        alive = {}
        for row in self.rows[:position]:
            if row["action"] == "alloc":
                alive[row["buffer"]] = row["category"]
            elif row["action"] == "free_requested":
                del alive[row["buffer"]]
        return alive

    def test_after_forward_only_the_shard_remains(self):
        start = next(i for i, row in enumerate(self.rows) if row["phase"] == "backward")
        alive = self.alive_at(start)
        parameters = ("parameter_shard", "all_gather_output", "unsharded_parameter",
                      "low_precision_shard")
        for block in BLOCKS:
            found = {c for name, c in alive.items() if unit_of(name) == block and c in parameters}
            self.assertEqual(found, {"parameter_shard"})
            held = [n for n, c in alive.items() if unit_of(n) == block and c == "parameter_shard"]
            self.assertEqual(len(held), 9)

    def test_no_unsharded_parameter_outlives_its_blocks_forward(self):
        for block, after in zip(BLOCKS, BLOCKS[1:]):
            born = self.positions("alloc", "unsharded_parameter", block, "forward")
            freed = self.positions("free_requested", "unsharded_parameter", block, "forward")
            next_born = self.positions("alloc", "unsharded_parameter", after, "forward")
            self.assertEqual((len(born), len(freed)), (9, 9))
            self.assertLess(max(born), min(freed))
            self.assertLess(max(freed), min(next_born))

    def test_an_all_gather_output_dies_in_the_next_units_wait(self):
        units = BLOCKS + ["norm+output"]
        for block, after in zip(BLOCKS, units[1:]):
            (freed,) = self.positions("free_requested", "all_gather_output", block, "forward")
            self.assertEqual(self.rows[freed]["unit"], after)

    def test_every_block_is_gathered_again_in_backward(self):
        for block in BLOCKS:
            for phase in ("forward", "backward"):
                gathered = self.positions("alloc", "all_gather_output", block, phase)
                self.assertEqual(len(gathered), 1)
                self.assertEqual(int(self.rows[gathered[0]]["bytes"]), 2 * 218_112_000)
                unsharded = self.positions("alloc", "unsharded_parameter", block, phase)
                self.assertEqual(len(unsharded), 9)
                self.assertEqual(
                    sum(int(self.rows[i]["bytes"]) for i in unsharded), 2 * 218_112_000
                )

    def test_the_shard_lives_from_beginning_to_end(self):
        for block in BLOCKS:
            born = [p for p in range(len(self.rows)) if self.rows[p]["action"] == "alloc"
                    and self.rows[p]["category"] == "parameter_shard"
                    and unit_of(self.rows[p]["buffer"]) == block]
            self.assertEqual(len(born), 9)
            self.assertEqual(sum(int(self.rows[i]["bytes"]) for i in born), 4 * 218_112_000 // 8)
            for phase in ("forward", "backward", "optimizer", "zero_grad"):
                self.assertEqual(
                    self.positions("free_requested", "parameter_shard", block, phase), []
                )


if __name__ == "__main__":
    program.main()
