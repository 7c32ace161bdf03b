# SPDX-License-Identifier: Apache-2.0
"""The Chrome trace of a run: Chrome's schema, the same work as the timeline CSV, flows that start
and end inside slices, and the arguments by which tools find collectives."""
import collections
import csv
import gzip
import json

import program


class Trace(program.InFolder):
    def trace(self, *arguments, code=0):
        self.predict(*arguments, "--trace", "t.json", "--timeline", "t.csv", "--memory", "m.csv",
                     "--json", "s.json", code=code)
        trace = json.loads((self.folder / "t.json").read_text(encoding="utf-8"))
        with open(self.folder / "t.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return trace["traceEvents"], rows

    def test_slices_are_the_timeline(self):
        """As many, and as long to the nanosecond."""
        for arguments in (("llama-3.2-1b",), ("gpt2", "--ranks", "0,7", "--steps", 2),
                          ("llama-3.2-1b", "--offload", "cpu", "--steps", 2)):
            with self.subTest(arguments):
                events, rows = self.trace(*arguments)
                names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
                         if e["ph"] == "M" and e["name"] == "thread_name"}
                shown = collections.Counter()
                for event in events:
                    is_wait = event["name"] == "cudaEventSynchronize"
                    if event["ph"] == "X" and (is_wait or event["cat"] in ("kernel", "gpu_memcpy")):
                        stream = names[event["pid"], event["tid"]].split(" ")[-1]
                        shown[event["pid"], stream, round(event["ts"] * 1000),
                              round(event["dur"] * 1000)] += 1
                expected = collections.Counter(
                    (int(row["rank"]), row["stream"], int(row["start_ns"]), int(row["duration_ns"]))
                    for row in rows
                )
                self.assertEqual(shown, expected)

    def test_every_event_is_one_that_chrome_knows(self):
        needed = {
            "X": {"name", "cat", "ts", "dur", "pid", "tid"}, "M": {"name", "args", "pid"},
            "C": {"name", "ts", "args", "pid"}, "s": {"id", "cat", "ts", "pid", "tid"},
            "f": {"id", "cat", "ts", "pid", "tid", "bp"},
        }
        for event in self.trace("gpt2", "--steps", 2)[0]:
            self.assertLessEqual(needed[event["ph"]], event.keys())
            self.assertGreaterEqual(event.get("dur", 0), 0)

    def test_slices_of_a_thread_do_not_overlap(self):
        """But for phases, which lie in their steps."""
        threads = collections.defaultdict(list)
        for event in self.trace("gpt2", "--steps", 2)[0]:
            if event["ph"] == "X" and event["cat"] != "user_annotation":
                begin = round(event["ts"] * 1000)
                threads[event["pid"], event["tid"]].append((begin, begin + round(event["dur"] * 1000)))
        for slices in threads.values():
            slices.sort()
            for before, after in zip(slices, slices[1:]):
                self.assertLessEqual(before[1], after[0])

    def test_flows_begin_and_end_in_slices(self):
        events, _ = self.trace("gpt2", "--steps", 2)
        threads = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(starts.keys(), ends.keys())
        self.assertEqual({e["cat"] for e in starts.values()}, {"ac2g", "event"})
        for flow in (*list(starts.values())[::17], *list(ends.values())[::17]):
            self.assertTrue(any(begin <= flow["ts"] <= end + 1e-6 for begin, end
                                in threads[flow["pid"], flow["tid"]]), flow)
        for number, start in starts.items():
            self.assertLessEqual(start["ts"], ends[number]["ts"] + 0.002)

    def test_collectives_say_what_nccl_moves(self):
        """An all-gather's output, a reduce-scatter's input is the whole: n times the other."""
        events, rows = self.trace("llama-3.2-1b")
        sizes = {"Float": 4, "BFloat16": 2, "Byte": 1}
        total = 0
        for event in events:
            arguments = event.get("args", {})
            if "Collective name" in arguments:
                self.assertTrue(event["name"].startswith("ncclDevKernel_"))
                one, other = arguments["In msg nelems"], arguments["Out msg nelems"]
                if arguments["Collective name"] == "_allgather_base":
                    self.assertEqual(other, one * arguments["Group size"])
                elif arguments["Collective name"] == "_reduce_scatter_base":
                    self.assertEqual(one, other * arguments["Group size"])
                total += max(one, other) * sizes[arguments["dtype"]]
        collectives = ("all_gather", "reduce_scatter", "all_reduce")
        self.assertEqual(total, sum(int(r["bytes"]) for r in rows if r["category"] in collectives))

    def test_the_memory_counter_reaches_the_peak(self):
        events, _ = self.trace("llama-3.2-1b")
        memory = json.loads((self.folder / "s.json").read_text())["memory"]
        for key in ("allocated", "active", "reserved"):
            peak = max(e["args"][key] for e in events if e["ph"] == "C")
            self.assertEqual(peak, memory[f"peak_{key}_bytes"])

    def test_an_out_of_memory_still_gives_a_trace(self):
        events, rows = self.trace("llama-3.1-8b", "--hbm", "20GiB", code=1)
        self.assertEqual(sum(e["ph"] == "X" and e["cat"] == "kernel" for e in events), len(rows))

    def test_gzip_and_standard_output_are_the_same(self):
        arguments = ("gpt2", "--steps", 1, "--trace")
        self.predict(*arguments, "t.json.gz")
        with gzip.open(self.folder / "t.json.gz", "rt", encoding="utf-8") as file:
            self.assertEqual(file.read(), self.predict(*arguments, "-").stdout)


if __name__ == "__main__":
    program.main()
