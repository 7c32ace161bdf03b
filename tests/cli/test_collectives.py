# SPDX-License-Identifier: Apache-2.0
"""collectives: a table that adds up, its CSV, and what it refuses."""
import csv
import io
import json

import program

COLUMNS = (
    "collective,library,ranks,nodes,bytes,algorithm,protocol,channels,in_place,time_us,"
    "algbw_gbps,busbw_gbps"
).split(",")


class Collectives(program.InFolder):
    def collectives(self, *arguments, code=0):
        done = program.run("collectives", *arguments, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def rows(self, *arguments):
        done = self.collectives(*arguments, "--csv", "-")
        reader = csv.DictReader(io.StringIO(done.stdout))
        self.assertEqual(reader.fieldnames, COLUMNS)
        return list(reader)

    def refuse(self, *arguments, says, code=3):
        done = self.collectives(*arguments, "--csv", "out.csv", code=code)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(list(self.folder.glob("out.csv")), [])

    def test_sizes_go_from_1_kib_to_8_gib_in_and_out_of_place(self):
        rows = self.rows()
        self.assertEqual(len(rows), 3 * 24 * 2)
        self.assertEqual({row["ranks"] for row in rows}, {"8"})
        sizes = sorted({int(row["bytes"]) for row in rows})
        self.assertEqual(sizes, [1024 << i for i in range(24)])

    def test_bandwidths_follow_from_time(self):
        """To half a unit of the last digit of each."""
        for row in self.rows("--gpus", 16):
            factor = (2 if row["collective"] == "all_reduce" else 1) * 15 / 16
            bandwidth = int(row["bytes"]) / float(row["time_us"]) / 1000
            near = 0.006 + bandwidth * 0.006 / float(row["time_us"])
            self.assertAlmostEqual(float(row["algbw_gbps"]), bandwidth, delta=near)
            self.assertAlmostEqual(float(row["busbw_gbps"]), bandwidth * factor, delta=2 * near)

    def test_the_table_says_what_the_csv_says(self):
        arguments = ("--collective", "all_gather", "--bytes", "1MiB,1GiB")
        table = self.collectives(*arguments).stdout.splitlines()
        rows = self.rows(*arguments)
        self.assertEqual(len(table), 3 + 2)
        for line, (out, in_place) in zip(table[3:], zip(rows[::2], rows[1::2])):
            names = (*COLUMNS[4:8], *COLUMNS[9:])
            self.assertEqual(
                line.split(), [out[name] for name in names] + [in_place[n] for n in COLUMNS[9:]]
            )

    def test_on_flat_every_number_is_the_closed_form(self):
        """7 (2 us + 1 MB / 50 GB/s) = 154 us on one ring of 8."""
        row = self.rows("--cluster", "flat", "--collective", "all_gather", "--bytes", "8MB")[0]
        self.assertEqual(
            (row["algorithm"], row["protocol"], row["time_us"], row["algbw_gbps"]),
            ("Ring", "Simple", "154.00", "51.95"),
        )

    def test_libraries_differ(self):
        for library, algorithm, time in (
            ("openmpi", "recursive doubling", "146.00"), ("gloo", "Ring", "154.00"),
        ):
            row = self.rows(
                "--cluster", "flat", "--collectives", library, "--collective", "all_gather",
                "--bytes", "8MB",
            )[0]
            self.assertEqual((row["algorithm"], row["time_us"]), (algorithm, time))
            self.assertEqual(row["library"], library)

    def test_predict_takes_the_library(self):
        """On flat an all-gather of 8 ranks by OpenMPI saves 4 of 7 messages of 2 us."""
        arguments = ("llama-3.2-1b", "--cluster", "flat", "--json", "-")
        nccl = json.loads(self.predict(*arguments).stdout)
        self.assertEqual(nccl["config"]["collectives"], "nccl")
        gloo = json.loads(self.predict(*arguments, "--collectives", "gloo").stdout)
        self.assertGreater(gloo["time"]["communication"], nccl["time"]["communication"])

    def test_an_oversubscribed_leaf_is_seen(self):
        """2 nodes a leaf, 4 to 1: 2 * 8 * 48 / 4 = 192 GB/s for all that leaves it."""
        cluster = json.loads((program.ROOT / "models/clusters/h100.json").read_text())
        cluster["leaf"] = {
            "nodes": {"value": 2, "source": "test"},
            "oversubscription": {"value": 4, "source": "test"},
            "rails": False,
        }
        self.write("leaf.json", json.dumps(cluster))
        arguments = ("--gpus", 32, "--collective", "all_gather", "--bytes", "8GiB")
        slow = float(self.rows("--cluster", "leaf.json", *arguments)[1]["busbw_gbps"])
        fast = float(self.rows("--cluster", "h100", *arguments)[1]["busbw_gbps"])
        self.assertAlmostEqual(slow, 192, delta=2)
        self.assertAlmostEqual(fast, 384, delta=4)

    def test_bad_values(self):
        for arguments, says in (
            (("--gpus", "1"), "--gpus"),
            (("--gpus", "many"), "--gpus"),
            (("--cluster", "h10"), "did you mean 'h100'?"),
            (("--collective", "all_gater"), "all_gather"),
            (("--collectives", "mpich"), "--collectives"),
            (("--bytes", "1MiB,0"), "--bytes"),
            (("--bytes", "huge"), "--bytes"),
            (("--min-bytes", "2GiB", "--max-bytes", "1GiB"), "--min-bytes"),
            (("--factor", "1"), "--factor"),
        ):
            with self.subTest(arguments):
                self.refuse(*arguments, says=says)

    def test_bad_cluster_files_are_named_with_their_path(self):
        good = json.loads((program.ROOT / "models/clusters/h100.json").read_text())
        for key, value, says in (
            ("nic", "0Gb/s", "$.nic.value"),
            ("nic", "-400Gb/s", "$.nic.value"),
            ("nic", "400", "$.nic.value"),
            ("nics_per_node", 0, "$.nics_per_node.value"),
        ):
            with self.subTest(key, value=value):
                bad = {**good, key: {"value": value, "source": "test"}}
                self.refuse("--cluster", self.write("bad.json", json.dumps(bad)), says=says)
        for key, value, says in (
            ("gpu", "h1000", "did you mean 'h100'?"),
            ("leaf", {"rails": True}, "$.leaf.nodes"),
        ):
            with self.subTest(key):
                bad = {**good, key: value}
                self.refuse("--cluster", self.write("bad.json", json.dumps(bad)), says=says)

    def test_wrong_usage(self):
        self.refuse("everything", says="everything", code=2)
        self.refuse("--sizes", "1MiB", says="--sizes", code=2)


if __name__ == "__main__":
    program.main()
