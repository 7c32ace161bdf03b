# SPDX-License-Identifier: Apache-2.0
"""The report in headless Chromium (Debian's package): no message on the console, nothing cut at 1440
and 390 pixels, pointer and keyboard tell what is in a picture."""
import html
import json
import re
import subprocess

import program

# The page in a frame of its own width: headless Chromium makes no window narrower than 500 pixels.
FRAME = """<!DOCTYPE html><body><iframe id="frame" style="width:{width}px;height:2000px;border:0"
srcdoc="{page}"></iframe><pre id="answer"></pre><script>
const frame = document.getElementById("frame");
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement, said = [];
  const svg = page.querySelector(".picture svg"), readout = page.querySelector(".readout");
  for (const key of ["End", "ArrowLeft", "Home"]) {{
    svg.dispatchEvent(new KeyboardEvent("keydown", {{key, bubbles: true}}));
    said.push(readout.textContent);
  }}
  svg.querySelector(".hit").dispatchEvent(new PointerEvent("pointermove", {{bubbles: true}}));
  said.push(readout.textContent);
  const cut = [...page.querySelectorAll("h1, h2, p, .card, summary")]
    .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.textContent);
  document.getElementById("answer").textContent =
    JSON.stringify({{width: root.clientWidth, content: root.scrollWidth, said, cut}});
}};
</script>"""


class Chromium(program.InFolder):
    def browse(self, page, *options):
        return subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={self.folder / 'profile'}", "--enable-logging=stderr",
             "--virtual-time-budget=5000", *options, (self.folder / page).as_uri()],
            check=True, capture_output=True, text=True, timeout=300,
        )

    def test_the_console_stays_empty(self):
        self.predict("llama-3.1-8b", "--gpus", 8, "--report", "r.html")
        done = self.browse("r.html", "--window-size=1440,3000",
                           f"--screenshot={self.folder / 'r.png'}")
        self.assertNotIn("CONSOLE", done.stderr)
        self.assertGreater((self.folder / "r.png").stat().st_size, 100_000)

    def test_nothing_is_cut_and_keys_and_pointer_work(self):
        self.predict("llama-3.1-8b", "--gpus", 8, "--report", "r.html")
        page = html.escape((self.folder / "r.html").read_text(encoding="utf-8"))
        for width in (1440, 390):
            with self.subTest(width):
                (self.folder / "frame.html").write_text(FRAME.format(width=width, page=page),
                                                        encoding="utf-8")
                done = self.browse("frame.html", "--dump-dom", "--window-size=1500,2200")
                self.assertNotIn("CONSOLE", done.stderr)
                found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.S).group(1)
                answer = json.loads(html.unescape(found))
                self.assertEqual(answer["width"], width)
                self.assertLessEqual(answer["content"], width)
                self.assertEqual(answer["cut"], [])
                self.assertEqual(len(set(answer["said"])), 3, answer["said"])
                for words in answer["said"]:
                    self.assertRegex(words, r"GiB|MiB")


if __name__ == "__main__":
    program.main()
