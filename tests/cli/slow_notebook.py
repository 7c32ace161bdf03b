# SPDX-License-Identifier: Apache-2.0
"""Notebooks run top to bottom in Debian's Jupyter; they assert their own sums. Those that ship are
the ones the program writes."""
import json
import os
import subprocess

import program

SHIPPED = program.ROOT / "notebooks-export"


def sources(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"]]


class Notebook(program.InFolder):
    def execute(self, path):
        """Runs it with Debian's Python and returns what it printed, cell by cell."""
        subprocess.run(
            ["/usr/bin/jupyter", "nbconvert", "--to", "notebook", "--execute", "--output",
             "done.ipynb", path.name],
            cwd=path.parent, check=True, capture_output=True, timeout=600,
            env={**os.environ, "PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
        )
        return json.loads((path.parent / "done.ipynb").read_text(encoding="utf-8"))

    def test_a_run_executes_and_says_the_summarys_numbers(self):
        self.predict("llama-3.2-1b", "--notebook", "nb")
        done = self.execute(self.folder / "nb/fsdpsim.ipynb")
        summary = json.loads((self.folder / "nb/summary.json").read_text())
        text = json.dumps(done)
        self.assertIn(str(round(summary["memory"]["device_peak_bytes"] / 2**30, 2)), text)
        self.assertIn(str(round(summary["time"]["step"] * 1e3, 3)), text)
        self.assertEqual(text.count("image/png"), 5)

    def test_a_run_out_of_memory_executes_too(self):
        self.predict("llama-3.1-8b", "--hbm", "20GiB", "--notebook", "nb", code=1)
        self.execute(self.folder / "nb/fsdpsim.ipynb")

    def test_the_shipped_run_has_the_programs_cells(self):
        self.predict("llama-3.1-8b", "--gpus", 8, "--notebook", "nb")
        self.assertEqual(sources(self.folder / "nb/fsdpsim.ipynb"),
                         sources(SHIPPED / "llama-3.1-8b-8-gpus/fsdpsim.ipynb"))

    def test_the_seeds_figures_execute(self):
        folder = self.folder / "seed"
        folder.mkdir()
        for path in (SHIPPED / "seed-figures").iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        self.execute(folder / "seed-figures.ipynb")


if __name__ == "__main__":
    program.main()
