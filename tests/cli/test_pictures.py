# SPDX-License-Identifier: Apache-2.0
"""Report, figures and notebook: well-formed, safe with hostile names, with the plan's own bytes."""
import csv
import html.parser
import json
import re
import xml.etree.ElementTree

import program

FIGURES = ("timeline", "memory", "workflow", "ddp-fsdp", "ranks")
SVG = "{http://www.w3.org/2000/svg}"


class Text(html.parser.HTMLParser):
    """What a page says without its scripts and styles; and its tags."""

    def __init__(self):
        super().__init__()
        self.words, self.tags, self.hidden = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def read_page(text):
    page = Text()
    page.feed(text)
    return page, re.sub(r"\s+", " ", "".join(page.words))


class Pictures(program.InFolder):
    def draw(self, figure, *arguments, code=0):
        done = self.predict(*arguments, "--svg", "-", "--figure", figure, code=code)
        return xml.etree.ElementTree.fromstring(done.stdout), done.stdout

    def test_figures_are_well_formed_and_described(self):
        for figure in FIGURES:
            with self.subTest(figure):
                root, _ = self.draw(figure, "llama-3.2-1b")
                self.assertEqual(root.tag, SVG + "svg")
                self.assertTrue(root.find(SVG + "title").text)
                self.assertTrue(root.find(SVG + "desc").text)
                ids = root.get("aria-labelledby").split(" ")
                self.assertEqual(
                    [root.find(SVG + "title").get("id"), root.find(SVG + "desc").get("id")], ids
                )

    def test_two_runs_draw_the_same(self):
        for figure in FIGURES:
            self.assertEqual(self.draw(figure, "gpt2")[1], self.draw(figure, "gpt2")[1])

    def test_workflow_says_the_plans_bytes(self):
        """Llama 3.2 1B's first block: 60,821,504 parameters, gathered in bf16 (121,643,008 bytes),
        reduced in f32 (243,286,016), an eighth of it in f32 kept."""
        self.predict("llama-3.2-1b", "--plan", "plan.csv")
        with open(self.folder / "plan.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        gathers = {int(r["bytes"]) for r in rows
                   if r["collective"] == "all_gather" and r["unit"] == "layers.0"}
        reduces = {int(r["bytes"]) for r in rows
                   if r["collective"] == "reduce_scatter" and r["unit"] == "layers.0"}
        self.assertEqual((gathers, reduces), ({121643008}, {243286016}))
        _, text = self.draw("workflow", "llama-3.2-1b")
        for words in ("all-gather weights: 121643008 bytes", "free full weights: 121643008 bytes",
                      "reduce-scatter gradients: 243286016 bytes",
                      "shard always there: 30410752 bytes"):
            self.assertIn(words, text)

    def test_workflow_keeps_what_is_not_freed(self):
        _, text = self.draw("workflow", "llama-3.2-1b", "--strategy", "shard_grad_op")
        self.assertIn(">keep<", text)
        self.assertIn(">still there<", text)
        self.assertNotIn("free full weights: 0", text)

    def test_ddp_beside_fsdp_is_the_same_from_either_side(self):
        """DDP all-reduces the f32 gradients that FSDP reduce-scatters."""
        _, text = self.draw("ddp-fsdp", "llama-3.2-1b")
        self.assertIn("all-reduce: 243286016 bytes", text)
        self.assertIn("reduce-scatter: 243286016 bytes", text)
        self.assertEqual(text.count("all-gather: 121643008 bytes"), 4)

    def test_ranks_shows_each_runs_peak(self):
        _, text = self.draw("ranks", "gpt2", "--gpus", 4)
        for ranks in (2, 4, 8, 16, 32, 64):
            done = self.predict("gpt2", "--gpus", ranks, "--json", "-")
            peak = json.loads(done.stdout)["memory"]["peak_reserved_bytes"]
            self.assertIn(f" {ranks} ranks {peak} bytes", text)

    def test_memory_says_the_peak(self):
        done = self.predict("llama-3.2-1b", "--json", "-")
        peak = json.loads(done.stdout)["memory"]["peak_allocated_bytes"]
        self.assertIn(f"({peak} bytes)", self.draw("memory", "llama-3.2-1b")[1])

    def test_runs_that_fail_are_drawn_too(self):
        for figure in ("timeline", "memory", "workflow"):
            self.draw(figure, "llama-3.1-8b", "--hbm", "20GiB", code=1)

    def test_usage(self):
        self.predict("gpt2", "--figure", "memory", code=2)
        self.predict("gpt2", "--svg", "-", "--figure", "memroy", code=2)
        self.predict("gpt2", "--steps", 1, "--plan", "p.csv")
        self.predict("--from-plan", "p.csv", "--svg", "-", "--figure", "ranks", code=2)
        self.predict("--from-plan", "p.csv", "--svg", "a.svg", "--report", "r.html")


class Report(program.InFolder):
    def test_the_verdict_comes_first_and_needs_no_script(self):
        done = self.predict("llama-3.1-8b", "--gpus", 8, "--report", "-")
        self.assertLess(len(done.stdout.encode()), 2_000_000)
        page, text = read_page(done.stdout)
        self.assertLess(text.index("Fits: "), 400)
        for words in ("peak allocated", "exposed communication", "layers.31", "reduce-scatter",
                      "models/gpus/h100.json", "reshard_after_forward"):
            self.assertIn(words, text)
        for tag, attributes in page.tags:
            self.assertNotIn("src", attributes)
            if "href" in attributes:
                self.assertEqual(attributes["href"], "data:,", tag)

    def test_numbers_are_the_summarys(self):
        self.predict("llama-3.2-1b", "--report", "r.html", "--json", "s.json")
        summary = json.loads((self.folder / "s.json").read_text())
        _, text = read_page((self.folder / "r.html").read_text(encoding="utf-8"))
        self.assertIn(f"{summary['memory']['peak_allocated_bytes'] / 2**30:.2f} GiB", text)
        self.assertIn(f"{summary['time']['step'] * 1e3:.3f} ms", text)
        self.assertIn(f"{summary['throughput']['model_flops_utilization'] * 100:.1f} %", text)

    def test_hostile_names_stay_text(self):
        """As a model's file name and as a unit's name in a plan."""
        name = "<script>alert(1)</script>\"'&\u202e"
        config = (program.ROOT / "models/nets/gpt2.json").read_text()
        (self.folder / "<b>\"'&\u202e.json").write_text(config)
        self.predict("./<b>\"'&\u202e.json", "--report", "r.html", "--svg", "a.svg", "--steps", 1,
                     "--plan", "p.csv", "--trace", "t.json", "--notebook", "nb")
        page, text = read_page((self.folder / "r.html").read_text(encoding="utf-8"))
        self.assertIn("<b>\"'&\u202e on 8 GPUs", text)
        plain = [tag for tag, _ in page.tags if tag in ("b", "script")]
        plan = (self.folder / "p.csv").read_text(encoding="utf-8")
        quoted = '"' + name.replace('"', '""') + '"'
        (self.folder / "p.csv").write_text(plan.replace(",transformer.h.3,", f",{quoted},"), encoding="utf-8")
        self.predict("--from-plan", "p.csv", "--report", "r.html", "--svg", "a.svg", "--figure",
                     "workflow", "--trace", "t.json")
        page, text = read_page((self.folder / "r.html").read_text(encoding="utf-8"))
        self.assertIn(name, text)
        self.assertEqual([tag for tag, _ in page.tags if tag in ("b", "script")], plain)
        xml.etree.ElementTree.parse(self.folder / "a.svg")
        trace = json.loads((self.folder / "t.json").read_text(encoding="utf-8"))
        self.assertIn(name, {e.get("args", {}).get("unit") for e in trace["traceEvents"]})

    def test_runs_that_fail_have_a_report(self):
        done = self.predict("llama-3.1-8b", "--hbm", "20GiB", "--report", "-", code=1)
        self.assertIn("Does not fit", read_page(done.stdout)[1])

    def test_two_runs_write_the_same(self):
        first = self.predict("gpt2", "--report", "-").stdout
        self.assertEqual(first, self.predict("gpt2", "--report", "-").stdout)


class Notebook(program.InFolder):
    def test_the_folder_is_complete_and_agrees(self):
        self.predict("llama-3.2-1b", "--notebook", "nb", "--json", "s.json")
        folder = self.folder / "nb"
        self.assertEqual(
            {path.name for path in folder.iterdir()},
            {"fsdpsim.ipynb", "summary.json", "timeline.csv.gz", "memory.csv.gz", "ranks.csv"},
        )
        self.assertEqual((folder / "summary.json").read_bytes(),
                         (self.folder / "s.json").read_bytes())
        notebook = json.loads((folder / "fsdpsim.ipynb").read_text(encoding="utf-8"))
        self.assertEqual((notebook["nbformat"], notebook["nbformat_minor"]), (4, 5))
        self.assertIn("llama-3.2-1b on 8 GPUs", "".join(notebook["cells"][0]["source"]))
        summary = json.loads((folder / "summary.json").read_text())["memory"]
        with open(folder / "ranks.csv", encoding="utf-8") as file:
            rows = {int(row["ranks"]): row for row in csv.DictReader(file)}
        self.assertEqual(sorted(rows), [2, 4, 8, 16, 32, 64, 128])
        self.assertEqual(int(rows[8]["allocated_bytes"]), summary["peak_allocated_bytes"])
        self.assertEqual(int(rows[8]["reserved_bytes"]), summary["peak_reserved_bytes"])


if __name__ == "__main__":
    program.main()
