# SPDX-License-Identifier: Apache-2.0
"""Cases that users reported in public (tests/cases.csv says which), as the program tells them."""
import collections
import csv
import json
import unittest

from program import ROOT, InFolder

LLAMA_8B = ("llama-3.1-8b", "--gpus", 8, "--seq", 2048, "--steps", 2, "--hbm", "unlimited", "--clip", "off")
LLAMA_1B = ("llama-3.2-1b", "--gpus", 8, "--seq", 1024, "--steps", 2, "--hbm", "unlimited", "--clip", "off")
TRANSFORMER = ROOT / "tests/unit/model/data/modules/pytorch_transformer.json"
PARAMETERS_8B, PARAMETERS_1B = 8030261248, 1235814400


class Cases(InFolder):
    def summary(self, *arguments, code=0):
        return json.loads(self.predict(*arguments, "--json", "-", code=code).stdout)

    def peak(self, *arguments, kind="allocated"):
        return self.summary(*arguments)["memory"][f"peak_{kind}_bytes"]

    def collectives(self, *arguments):
        """(collective, phase) -> (how many, bytes) of the last step."""
        found = collections.Counter(), collections.Counter()
        for line in self.summary(*arguments)["communication"]:
            found[0][line["collective"], line["phase"]] += line["count"]
            found[1][line["collective"], line["phase"]] += line["bytes"]
        return found

    def plan(self, *arguments):
        self.predict(*arguments, "--plan", "plan.csv")
        with open(self.folder / "plan.csv", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def live(self, *arguments):
        """Bytes by category after each (step, phase) of the plan; the most of each are self.most."""
        live, after, born = collections.Counter(), {}, {}
        self.most = collections.Counter()
        for row in self.plan(*arguments):
            if row["op"] == "alloc":
                born[row["buffer"]] = row["category"], int(row["bytes"])
                live[row["category"]] += int(row["bytes"])
            elif row["op"] == "free":
                category, size = born.pop(row["buffer"])
                live[category] -= size
            self.most[row["category"]] = max(self.most[row["category"]], live[row["category"]])
            after[row["step"], row["phase"]] = +live
        return after

    def job(self, name, step=None, **keys):
        job = {"schema": "fsdpsim.job/1", "api": "fsdp2", "mesh": {"shard": 8},
               "mp_policy": {"param_dtype": "bf16", "reduce_dtype": "f32"},
               "fully_shard": [{"modules": "layers.*"}, {"modules": ""}], "optimizer": "adamw",
               "step": step or [{"forward": 0}, {"backward": 0}, {"optimizer": True}, {"zero_grad": "set_to_none"}]}
        job.update(keys)
        return self.write(f"{name}.json", json.dumps(job))

    def played(self, rows):
        """The memory of a plan written by hand: rows as {column: text}, on one rank."""
        columns = ("rank op stream name step phase microbatch unit buffer bytes shape dtype category reads writes operator"
                   " arguments event group collective flops hbm_bytes duration").split()
        metas = (("schema", "fsdpsim.plan/1"), ("ranks", "1"), ("streams", "compute side"))
        rows = [{"op": "meta", "name": name, "arguments": text} for name, text in metas] + rows
        lines = [",".join(columns)] + [",".join(str(row.get(name, "")) for name in columns) for row in rows]
        plan = self.write("hand.csv", "\n".join(lines) + "\n")
        return self.summary("--from-plan", plan)["memory"]

    # Memory

    def test_c01_out_of_memory_at_the_logits(self):
        job = ("llama-3.1-8b", "--gpus", 4, "--cluster", "a100-40gb", "--store-dtype", "bf16", "--batch", 4,
               "--checkpoint", "every:2", "--hbm", 41102213120)
        memory = self.summary(*job, "--seq", 2048, code=1)["memory"]
        self.assertEqual(memory["oom"]["unit"], "loss")
        self.assertEqual(memory["oom"]["step"], 0)
        self.assertEqual(memory["oom"]["requested_bytes"], 8192 * 128256 * 4)
        # Half the tokens: the forward ends.
        done = self.predict(*job, "--seq", 1024, "--steps", 1, "--json", "-")
        self.assertTrue(json.loads(done.stdout)["memory"]["fits"])

    def test_c15_a_chunked_loss_saves_two_copies_of_the_logits(self):
        job = (*LLAMA_8B[:3], "--seq", 8192, "--steps", 2, "--hbm", "unlimited", "--checkpoint", "selective")
        saved = self.peak(*job) - self.peak(*job, "--loss", "chunked:8")
        self.assertGreater(saved, 6 * 2**30)
        self.assertLess(saved, 8 * 2**30)

    def test_c20_a_whole_gradient_lives_only_within_backward(self):
        # One unit of P parameters on two ranks, f32: half of it is left.
        arguments = (TRANSFORMER, "--gpus", 2, "--seq", 4, "--wrap", "root", "--param-dtype", "f32", "--clip", "off",
                     "--steps", 1)
        whole = 4 * 21317376
        after = self.live(*arguments)["0", "backward"]
        self.assertEqual(self.most["unsharded_gradient"], whole)
        self.assertEqual(self.most["reduce_scatter_input"], whole)
        self.assertEqual(after["sharded_gradient"] + after["reduce_scatter_output"], whole // 2)
        self.assertEqual(after["unsharded_gradient"] + after["reduce_scatter_input"], 0)

    def test_c22_record_stream_keeps_what_is_freed(self):
        for api, differs in (("fsdp1", True), ("fsdp2", False)):
            memory = self.summary(*LLAMA_1B, "--api", api, "--wrap", "block+root")["memory"]
            self.assertEqual(memory["peak_active_bytes"] > memory["peak_allocated_bytes"], differs, api)

    def test_c21_a_pool_does_not_lend_to_another_stream(self):
        # A spike of a unit's reduce-scatter input, then something as large for the default stream.
        size = 4 * 218112000
        reserved = {}
        for stream in ("compute", "side"):
            rows = []
            for name, pool in (("I", stream), ("X", "compute")):
                rows += [{"op": "alloc", "stream": pool, "buffer": name, "bytes": size},
                         {"op": "kernel", "stream": pool, "name": "fill", "writes": name, "operator": "fill"},
                         {"op": "free", "buffer": name}]
            reserved[stream] = self.played(rows)["peak_reserved_bytes"]
        self.assertEqual(reserved["side"], 2 * reserved["compute"])

    def test_c23_blocks_under_record_stream_grow_with_the_depth_of_prefetching(self):
        # Eight gathers; the host issues DEPTH of them before it waits for what the first was used in.
        size, peaks = 436224000, []
        for depth in (1, 2, 3, 4):
            rows = []
            for i in range(8):
                if i >= depth:
                    rows.append({"op": "host_wait", "event": f"e{i - depth}"})
                rows += [{"op": "alloc", "stream": "side", "buffer": f"A{i}", "bytes": size},
                         {"op": "kernel", "stream": "side", "name": "gather", "writes": f"A{i}", "duration": "1ms"},
                         {"op": "record", "stream": "side", "event": f"g{i}"},
                         {"op": "wait", "stream": "compute", "event": f"g{i}"},
                         {"op": "record_stream", "stream": "compute", "buffer": f"A{i}"},
                         {"op": "kernel", "stream": "compute", "name": "use", "reads": f"A{i}", "duration": "50ms"},
                         {"op": "record", "stream": "compute", "event": f"e{i}"},
                         {"op": "free", "buffer": f"A{i}"}]
            memory = self.played(rows)
            self.assertLess(memory["peak_allocated_bytes"], size + 2**22)
            peaks.append(memory["peak_active_bytes"])
        for depth, peak in enumerate(peaks, 1):
            self.assertAlmostEqual(peak, depth * size, delta=depth * 2**21)

    def test_c27_backward_needs_four_buffers_of_a_unit(self):
        # Gathered for the next unit, parameters and gradients of this one, reduced of the one before.
        peak = self.summary(TRANSFORMER, "--gpus", 2, "--seq", 4, "--param-dtype", "f32", "--clip",
                            "off")["memory"]["peak"]["by_category"]
        for category in ("all_gather_output", "unsharded_parameter", "unsharded_gradient", "reduce_scatter_input"):
            self.assertAlmostEqual(peak[category], 4 * 7084800, delta=2**21)

    def test_c29_little_less_memory_is_retries_before_it_is_too_little(self):
        job = (*LLAMA_8B[:3], "--seq", 8192, "--checkpoint", "selective")
        reserved = self.peak(*job, "--hbm", "unlimited", kind="reserved")
        memory = self.summary(*job, "--hbm", reserved - 2**30)["memory"]
        self.assertTrue(memory["fits"])
        self.assertGreater(memory["alloc_retries"], 0)

    def test_c30_c31_more_than_the_allocators_memory_is_taken(self):
        # Three numbers; a smaller group to reshard to is one communicator more.
        memory = self.summary(*LLAMA_1B)["memory"]
        self.assertLess(memory["peak_allocated_bytes"], memory["peak_reserved_bytes"])
        self.assertLess(memory["peak_reserved_bytes"], memory["device_peak_bytes"])
        smaller = self.summary(*LLAMA_1B, "--reshard-after-forward", 4)["memory"]
        outside = [m["device_peak_bytes"] - m["peak_reserved_bytes"] for m in (memory, smaller)]
        self.assertGreater(outside[1], outside[0])

    def test_c32_reserved_memory_does_not_fall_as_shards_do(self):
        job = (*LLAMA_8B[3:], "--checkpoint", "full")
        reserved = [self.peak("llama-3.1-8b", "--gpus", ranks, *job, kind="reserved") for ranks in (8, 16, 32, 64)]
        self.assertEqual(reserved, sorted(reserved, reverse=True))
        # States of 16 bytes a parameter fall by an eighth at last, reserved memory by less than a third.
        self.assertGreater(reserved[3], 2 * PARAMETERS_8B * 2 / 32 + reserved[0] / 3)

    def test_c34_a_small_model_with_large_activations_gains_nothing(self):
        job = ("gpt2", "--seq", 1024, "--batch", 48, "--steps", 2, "--optimizer", "sgd", "--hbm", "unlimited")
        one, two = (self.peak(*job, "--gpus", ranks) for ranks in (1, 2))
        self.assertLess(abs(one - two) / one, 0.02)

    def test_c38_c39_what_is_frozen_has_no_gradient_and_no_states(self):
        # 1 + 1 + 2 words a trained parameter, 1 a frozen one; offloaded they are the host's.
        frozen = ("--frozen", "layers.*")
        after = self.live(*LLAMA_1B, *frozen)["1", "optimizer"]
        shard = after["parameter_shard"]
        states = after["optimizer_state"] // 8 * 8
        self.assertAlmostEqual(shard, 4 * 1498482688 / 8, delta=4096)
        self.assertAlmostEqual(states, 2 * 4 * (2 * 128256 * 2048 + 2048) / 8, delta=4096)
        counts, _ = self.collectives(*LLAMA_1B, *frozen)
        self.assertEqual(counts["reduce_scatter", "backward"], 2)  # embedding, norm with head
        rows = self.plan(*LLAMA_1B, *frozen, "--offload", "cpu")
        copies = [row for row in rows if row["op"] == "copy" and row["step"] == "1" and row["phase"] == "backward"]
        self.assertFalse([row for row in copies if row["unit"].startswith("layers.") and row["arguments"] == "d2h"])

    def test_c56_the_root_stays_unless_it_is_told(self):
        for reshard, kept in ((None, True), (True, False)):
            units = [{"modules": "layers.*"}, {"modules": "", "reshard_after_forward": reshard}]
            job = self.job(f"root{kept}", step=[{"evaluate": ""}], fully_shard=units)
            after = self.live("llama-3.2-1b", "--job", job, "--seq", 1024, "--steps", 1)["0", "evaluation"]
            self.assertEqual(after["unsharded_parameter"] > 0, kept)

    def test_c57_memory_and_communication_of_three_policies(self):
        results = []
        for reshard in ("false", "default", "true"):
            arguments = (*LLAMA_8B, "--reshard-after-forward", reshard, "--checkpoint", "full")
            _, size = self.collectives(*arguments)
            results.append((self.peak(*arguments), size["all_gather", "forward"] + size["all_gather", "backward"]))
        self.assertGreater(results[0][0], results[1][0])
        self.assertGreaterEqual(results[1][0], results[2][0])
        self.assertLess(results[0][1], results[1][1])
        self.assertLess(results[1][1], results[2][1])

    def test_c74_a_hybrid_shard_costs_the_memory_of_a_node(self):
        job = ("llama-3.2-1b", "--gpus", 32, *LLAMA_1B[3:])
        full, hybrid = (self.live(*job, "--strategy", strategy)["", "init"]["parameter_shard"]
                        for strategy in ("full_shard", "hybrid_shard"))
        self.assertEqual(hybrid, 4 * full)

    def test_c75_replicas_reduce_what_is_scattered(self):
        _, size = self.collectives("llama-3.2-1b", "--gpus", 32, *LLAMA_1B[3:], "--strategy", "hybrid_shard")
        self.assertEqual(size["all_reduce", "backward"], size["reduce_scatter", "backward"] // 8)

    def test_c78_states_explain_what_more_ranks_save(self):
        # torchtitan prints 82.4 and 67.0 GiB; 16 bytes a parameter say 14.0 of these 15.4.
        job = ("llama-3.1-8b", "--seq", 8192, "--checkpoint", "selective", "--hbm", "unlimited")
        few, many = (self.peak(*job, "--gpus", ranks, kind="reserved") for ranks in (8, 128))
        self.assertAlmostEqual((few - many) / 2**30, 15.4, delta=0.15 * 15.4)

    # Counts

    def test_c06_c58_collectives_of_a_step(self):
        # 16 blocks, the root, which holds the rest: n + 1 units.
        for reshard, backward in ((None, 16), (True, 17), (2, 17), (False, 0)):
            units = [{"modules": "layers.*", "reshard_after_forward": reshard},
                     {"modules": "", "reshard_after_forward": reshard}]
            job = self.job(f"reshard{reshard}", fully_shard=units)
            counts, _ = self.collectives("llama-3.2-1b", "--job", job, "--seq", 1024)
            self.assertEqual(counts["all_gather", "forward"], 17)
            self.assertEqual(counts["all_gather", "backward"], backward)
            self.assertEqual(counts["reduce_scatter", "backward"], 17)
        step = [{"forward": 0}, {"reshard": "layers.*"}, {"reshard": ""}, {"backward": 0}, {"optimizer": True}]
        job = self.job("resharded", step=step, fully_shard=units)
        counts, _ = self.collectives("llama-3.2-1b", "--job", job, "--seq", 1024)
        self.assertEqual(counts["all_gather", "backward"], 17)

    def test_c16_the_head_is_not_gathered_for_each_chunk_of_the_loss(self):
        # It is a unit that torchtitan keeps from the first chunk to the last.
        few, many = (self.collectives(*LLAMA_1B, "--loss", loss)[0] for loss in ("chunked:8", "chunked:32"))
        self.assertEqual(few, many)

    def test_c19_reducing_once_trades_memory_for_communication(self):
        job = (*LLAMA_1B, "--accumulate", 4)
        every, last = ((self.collectives(*job, "--gradient-sync", sync)[0]["reduce_scatter", "backward"],
                        self.peak(*job, "--gradient-sync", sync)) for sync in ("every", "last"))
        self.assertEqual(every[0], 4 * last[0])
        # Whole gradients are kept instead of shards: at least 2 bytes less a shard of 4 / 8.
        self.assertGreater(last[1] - every[1], PARAMETERS_1B)

    def test_c59_recomputation_gathers_once_in_fsdp2_whatever_is_outside(self):
        # Its hook before backward comes first; what it gathered is there when the block runs again.
        for around in ("inside", "fsdp"):
            units = [{"modules": "layers.*", "reshard_after_forward": True}, {"modules": ""}]
            job = self.job(around, checkpoint=[{"modules": "layers.*", "around": around}], fully_shard=units)
            counts, _ = self.collectives("llama-3.2-1b", "--job", job, "--seq", 1024)
            self.assertEqual(counts["all_gather", "forward"], 17)
            self.assertEqual(counts["all_gather", "backward"] + counts["all_gather", "recompute"], 16)

    def test_c62_nothing_is_gathered_again_where_parameters_are_kept(self):
        counts, _ = self.collectives(*LLAMA_1B, "--reshard-after-forward", "false", "--checkpoint", "full")
        self.assertEqual(counts["all_gather", "backward"], 0)

    def test_c69_smaller_units_send_the_same_in_more_pieces(self):
        self.write("parts", "layers.*.attention\nlayers.*.feed_forward\n")
        blocks, parts = (self.collectives(*LLAMA_1B, "--wrap", wrap, "--reshard-after-forward", "true")
                         for wrap in ("block+root", "parts"))
        key = "all_gather", "forward"
        self.assertEqual(blocks[0][key], 17)
        self.assertEqual(parts[0][key], 33)
        self.assertEqual(blocks[1][key], parts[1][key])

    def test_c80_offload_moves_shards_twice_and_gradients_once(self):
        moved = collections.Counter()
        for row in self.plan(*LLAMA_1B[:5], "--steps", 1, "--clip", "off", "--offload", "cpu"):
            if row["op"] == "copy":
                moved[row["phase"], row["arguments"]] += int(row["bytes"])
        shards, head = 4 * 1498482688 // 8, 4 * (128256 * 2048 + 2048) // 8
        self.assertEqual(moved["forward", "h2d"], shards)
        self.assertEqual(moved["backward", "h2d"], shards - head)  # norm and head are still there
        self.assertEqual(moved["backward", "d2h"], shards)


if __name__ == "__main__":
    unittest.main()
