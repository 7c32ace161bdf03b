# SPDX-License-Identifier: Apache-2.0
"""traces/examples: the command that traces/README.md says made them still makes files of the same
form. Numbers may move with the simulator; columns, keys and kinds may not."""
import csv
import json
import pickle
import shlex

import program

EXAMPLES = program.ROOT / "traces/examples"


def keys_of(value, path=""):
    """The paths of all keys; of a list, those of its first item."""
    found = set()
    if isinstance(value, dict):
        for key, item in value.items():
            found |= {f"{path}.{key}"} | keys_of(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        found |= keys_of(value[0], path + "[]")
    return found


class Examples(program.InFolder):
    def setUp(self):
        super().setUp()
        text = (program.ROOT / "traces/README.md").read_text(encoding="utf-8")
        command = next(line for line in text.splitlines() if line.startswith("fsdpsim predict tiny"))
        done = program.run(*shlex.split(command)[1:], cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_same_files(self):
        self.assertEqual(
            {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")},
            {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*")},
        )

    def test_csv_columns(self):
        for name in ("timeline", "memory", "plan"):
            heads = []
            for folder in (EXAMPLES, self.folder):
                with open(folder / f"tiny.{name}.csv", encoding="utf-8") as file:
                    heads.append(next(csv.reader(file)))
            self.assertEqual(*heads)

    def test_json_keys(self):
        for name in ("tiny.summary.json", "tiny.chakra/comm_group.json"):
            old, new = (json.loads((f / name).read_text()) for f in (EXAMPLES, self.folder))
            ignored = {key for key in keys_of(old) ^ keys_of(new) if ".config." in key}
            self.assertEqual(keys_of(old) - ignored, keys_of(new) - ignored)

    def test_trace_events(self):
        kinds = []
        for folder in (EXAMPLES, self.folder):
            events = json.loads((folder / "tiny.trace.json").read_text())["traceEvents"]
            kinds.append({(e["ph"], e.get("cat"), *sorted(e)) for e in events})
        self.assertEqual(*kinds)

    def test_snapshot_keys(self):
        old, new = (pickle.loads((f / "tiny.snapshot.pickle").read_bytes())
                    for f in (EXAMPLES, self.folder))
        self.assertEqual(keys_of(old), keys_of(new))


if __name__ == "__main__":
    program.main()
