#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds tests/cases.csv, which says of every public case of the collection where it is tested or why it is not, to the tests.

usage: check_cases.py [ROOT]; one line a mistake, exit 1 if any
"""

import csv
import pathlib
import re
import sys

COLUMNS = ["case", "grade", "about", "file", "test", "note"]
FILE = re.compile(r"tests/[\w/]+\.(?:c|py)")


def find_tests(path):
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"START_TEST\((\w+)\)" if path.suffix == ".c" else r"def (test_\w+)\(", text))


def check(row, root):
    if None in row.values() or None in row or list(row) != COLUMNS:
        return "expected six columns"
    if not re.fullmatch(r"C\d\d", row["case"]) or row["grade"] not in ("A", "B", "C", "A/B"):
        return "expected a case and its grade"
    if not row["about"]:
        return "expected what it is about"
    missing = [name for name in FILE.findall(row["note"]) if not (root / name).is_file()]
    if missing:
        return f"{missing[0]} does not exist"
    if not row["file"] and not row["test"]:
        return None if row["note"] else "expected a test, or why there is none"
    path = root / row["file"]
    if not path.is_file():
        return f"{row['file']} does not exist"
    return None if row["test"] in find_tests(path) else f"{row['file']} has no test {row['test']}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    with open(root / "tests/cases.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    mistakes = [(row["case"], check(row, root)) for row in rows]
    mistakes = [f"tests/cases.csv: {case}: {mistake}" for case, mistake in mistakes if mistake]
    cases = [row["case"] for row in rows]
    if cases != sorted(set(cases)) or not cases:
        mistakes.append("tests/cases.csv: expected each case once, in order")
    print("\n".join(mistakes), end="\n" if mistakes else "")
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
