# SPDX-License-Identifier: Apache-2.0
"""Every command that the README shows works, and prints what the README shows.

In a fenced block a line "$ bash sim/run ARGUMENTS" is followed by its whole output; a line
"bash sim/run ARGUMENTS   # what for" stands for itself: it must end with 0 (or 1, an answer too).
`python3 tests/cli/test_readme.py --write` puts the present output into the README.
"""
import re
import shlex
import sys
import tempfile

import program

README = program.ROOT / "README.md"
COMMAND = "bash sim/run "


def run(arguments, folder):
    """What fsdpsim prints when it is called as in the top folder, but writes to FOLDER."""
    arguments = [program.ROOT / a if a.startswith(("models/", "traces/")) else a for a in arguments]
    done = program.run(*arguments, cwd=folder)
    assert done.returncode in (0, 1), f"{arguments}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def check(text, folder):
    """The README with the output of its commands renewed; how many commands it has."""
    commands = 0

    def renew(block):
        nonlocal commands
        lines = block.group(2).split("\n")
        if lines[0].startswith("$ " + COMMAND):
            commands += 1
            output = run(shlex.split(lines[0][len("$ " + COMMAND):]), folder)
            return f"```{block.group(1)}\n{lines[0]}\n{output}```"
        for line in lines:
            if line.startswith(COMMAND):
                commands += 1
                run(shlex.split(line[len(COMMAND):], comments=True), folder)
        return block.group(0)

    return re.sub(r"```(\w*)\n(.*?)```", renew, text, flags=re.S), commands


def main():
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        renewed, commands = check(text, folder)
    if "--write" in sys.argv:
        README.write_text(renewed, encoding="utf-8")
        return 0
    assert commands >= 3, f"found {commands} commands"
    if renewed != text:
        shown, real = text.split("\n"), renewed.split("\n")
        for i, (a, b) in enumerate(zip(shown, real)):
            if a != b:
                print(f"README.md:{i + 1}: shows\n  {a}\nbut the program prints\n  {b}")
                break
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
