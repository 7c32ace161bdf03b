# SPDX-License-Identifier: Apache-2.0
"""Runs of the reference executor on plans that a test has changed."""

import csv
import json
import os
import subprocess

FSDPSIM = os.environ["FSDPSIM"]
EXECUTOR = os.environ["FSDPSIM_EXEC"]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OPENBLAS_NUM_THREADS="1")
JOB = ["--seq", "16", "--steps", "1", "--param-dtype", "f32", "--clip", "off"]


class Plan:
    """A plan's rows, as dictionaries; BODY holds the instructions, so that row N of a message is
    body[N - 1]."""

    def __init__(self, path):
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.columns = list(rows[0])
        self.head = [row for row in rows if row["op"] in ("meta", "group")]
        self.body = [row for row in rows if row["op"] not in ("meta", "group")]

    def save(self, path, body):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.head + body)

    def find(self, first=0, **wanted):
        """The number of the first row from FIRST on whose cells begin as WANTED says."""
        for index in range(first, len(self.body)):
            if all(self.body[index][column].startswith(start)
                   for column, start in wanted.items()):
                return index
        raise AssertionError(f"no row with {wanted}")


def predict(folder, name, *arguments):
    path = os.path.join(folder, name)
    subprocess.run([FSDPSIM, "predict", "tiny", *JOB, "--plan", path, *arguments], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def execute(path, ranks, *arguments, timeout=60):
    """Exit code, the JSON or None, standard error."""
    report = path + ".json"
    if os.path.exists(report):
        os.remove(report)
    done = subprocess.run(["mpirun", "-np", str(ranks), "--oversubscribe", EXECUTOR, path,
                           "--json", report, "--limit", "30s", *arguments],
                          env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
    if not os.path.exists(report):
        return done.returncode, None, done.stderr
    with open(report, encoding="utf-8") as file:
        return done.returncode, json.load(file), done.stderr
