# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: the program ($FSDPSIM) and folders to run it in."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["FSDPSIM"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments, **options):
    """Runs fsdpsim to its end; output as text."""
    options.setdefault("timeout", 120)
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


class InFolder(unittest.TestCase):
    """A test that runs in an empty folder of its own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def predict(self, *arguments, code=0, **options):
        """Predicts and returns the finished process, whose exit code must be CODE."""
        done = run("predict", *arguments, cwd=self.folder, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done


def main():
    unittest.main(module=sys.modules["__main__"])
