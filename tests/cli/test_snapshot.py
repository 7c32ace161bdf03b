# SPDX-License-Identifier: Apache-2.0
"""The memory snapshot: loads with every class forbidden, its end state and history are those of the
memory CSV."""
import csv
import io
import json
import pickle

import program


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"{module}.{name}")


class Snapshot(program.InFolder):
    def snapshot(self, *arguments, code=0):
        self.predict(*arguments, "--snapshot", "s.pickle", "--memory", "m.csv", "--json", "s.json",
                     code=code)
        snapshot = Plain(io.BytesIO((self.folder / "s.pickle").read_bytes())).load()
        with open(self.folder / "m.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return snapshot, rows, json.loads((self.folder / "s.json").read_text())

    def test_the_end_state_is_that_of_the_csv(self):
        for arguments in (("llama-3.2-1b",), ("gpt2", "--ranks", "0"),
                          ("llama-3.2-1b", "--allocator", "expandable_segments:True"),
                          ("gpt2", "--ranks", "0", "--api", "fsdp1")):
            with self.subTest(arguments):
                snapshot, rows, _ = self.snapshot(*arguments)
                segments = snapshot["segments"]
                for segment in segments:
                    sizes = {"active_allocated": 0, "active_pending_free": 0, "inactive": 0}
                    address = segment["address"]
                    for block in segment["blocks"]:
                        self.assertEqual(block["address"], address)
                        address += block["size"]
                        sizes[block["state"]] += block["size"]
                        self.assertLessEqual(block["requested_size"], block["size"])
                    self.assertEqual(address, segment["address"] + segment["total_size"])
                    self.assertEqual(sizes["active_allocated"], segment["allocated_size"])
                    self.assertEqual(sum(sizes.values()) - sizes["inactive"], segment["active_size"])
                for key, column in (("total_size", "reserved"), ("allocated_size", "allocated"),
                                    ("active_size", "active")):
                    self.assertEqual(
                        sum(s[key] for s in segments), int(rows[-1][f"{column}_bytes"])
                    )
                ends = sorted((s["address"], s["address"] + s["total_size"]) for s in segments)
                for before, after in zip(ends, ends[1:]):
                    self.assertLessEqual(before[1], after[0])

    def test_the_history_is_that_of_the_csv_and_reaches_its_peaks(self):
        for arguments in (("llama-3.2-1b",),
                          ("llama-3.2-1b", "--allocator", "expandable_segments:True")):
            with self.subTest(arguments):
                snapshot, rows, summary = self.snapshot(*arguments)
                history = snapshot["device_traces"][0]
                self.assertEqual(
                    [(e["action"], e["size"]) for e in history],
                    [(r["action"], int(r["bytes"])) for r in rows],
                )
                signs = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1,
                         "segment_unmap": -1}
                reserved = peak = 0
                for event in history:
                    reserved += signs.get(event["action"], 0) * event["size"]
                    peak = max(peak, reserved)
                self.assertEqual(peak, summary["memory"]["peak_reserved_bytes"])

    def test_frames_say_whose_it_is(self):
        snapshot, rows, _ = self.snapshot("llama-3.2-1b")
        for event, row in zip(snapshot["device_traces"][0], rows):
            if row["buffer"]:
                self.assertEqual(event["frames"][0]["name"], row["buffer"])
                self.assertEqual(event["frames"][0]["filename"], row["category"])
            if row["action"] == "alloc" and row["unit"]:
                self.assertEqual(event["frames"][1]["name"], row["unit"])
                self.assertEqual(event["frames"][1]["filename"], row["phase"])

    def test_an_out_of_memory_says_what_was_left(self):
        snapshot, _, summary = self.snapshot("llama-3.1-8b", "--hbm", "20GiB", code=1)
        oom = snapshot["device_traces"][0][-1]
        self.assertEqual(oom["action"], "oom")
        self.assertEqual(oom["size"], summary["memory"]["oom"]["requested_bytes"])
        self.assertEqual(oom["device_free"], summary["memory"]["oom"]["device_free_bytes"])

    def test_two_runs_give_the_same_bytes(self):
        self.snapshot("gpt2")
        first = (self.folder / "s.pickle").read_bytes()
        self.snapshot("gpt2")
        self.assertEqual(first, (self.folder / "s.pickle").read_bytes())


if __name__ == "__main__":
    program.main()
