#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the rules of the sources that no compiler holds; one line a violation, exit 1 if any.

usage: check_sources.py [ROOT]
"""

import os
import re
import sys

# A folder may include itself and folders of a smaller number.
FLOORS = {
    "base": 0,
    "engine": 1, "plan": 1, "hbm": 1, "hardware": 1, "model": 1,
    "job": 2, "autograd": 2, "fabric": 2, "trace": 2,
    "fsdp": 3, "check": 3, "rank": 3,
    "predict": 4,
    "report": 5, "advise": 5,
    "cli": 6,
}
# The reference executor must not be able to see what the simulator thinks.
EXECUTOR_SEES = {"executor", "base", "plan", "hbm", "trace"}

LONGEST_FILE = 800
LONGEST_FUNCTION = 70

# Printing, and what depends on the machine, belong to the programs.
PROGRAM_FOLDERS = {"cli", "executor"}
BANNED_CALLS = {
    "printf": "results go through SimOutputFile, messages through GError",
    "puts": "results go through SimOutputFile, messages through GError",
    "putchar": "results go through SimOutputFile, messages through GError",
    "fprintf": "results go through SimOutputFile, messages through GError",
    "g_print": "results go through SimOutputFile, messages through GError",
    "g_printerr": "messages go through GError",
    "time": "the result must not depend on the clock",
    "clock": "the result must not depend on the clock",
    "clock_gettime": "the result must not depend on the clock",
    "gettimeofday": "the result must not depend on the clock",
    "g_get_real_time": "the result must not depend on the clock",
    "g_get_monotonic_time": "the result must not depend on the clock",
    "g_warning": "messages go through GError",
    "g_message": "messages go through GError",
    "setlocale": "the library must not depend on the locale",
}
BANNED_CALLS_ANYWHERE = {
    "malloc": "use g_new", "calloc": "use g_new0", "realloc": "use g_renew", "free": "use g_free",
    "strtok": "use strcspn or g_strsplit", "strcpy": "use g_strdup or GString",
    "strcat": "use GString", "sprintf": "use g_strdup_printf or snprintf",
    "rand": "use a seeded stream", "srand": "use a seeded stream", "random": "use a seeded stream",
    "drand48": "use a seeded stream", "g_random_int": "use a seeded stream",
    "strtod": "depends on the locale: use sim_units_parse_* or g_ascii_strtod",
    "atof": "depends on the locale: use sim_units_parse_* or g_ascii_strtod",
    "atoi": "use sim_units_parse_int64", "atol": "use sim_units_parse_int64",
    "g_hash_table_iter_init": "a hash table has no order",
    "g_hash_table_foreach": "a hash table has no order",
    "g_hash_table_get_keys": "a hash table has no order",
    "g_hash_table_get_values": "a hash table has no order",
    "g_return_if_fail": "a bug is a g_assert", "g_return_val_if_fail": "a bug is a g_assert",
}
# Their last digit differs between C libraries.
BANNED_CALLS_IN_VIRTUAL_TIME = ("pow", "exp", "exp2", "log", "log2", "log10")
VIRTUAL_TIME_FOLDERS = {"engine", "fabric", "hbm", "rank"}
# (file, call): realpath's result is malloc's.
ALLOWED_CALLS = {("sim/base/output_file.c", "free")}

SKIPPED_FOLDERS = {".git", "__pycache__", ".ipynb_checkpoints"}


def blank_comments_and_strings(text):
    """TEXT with comments and the insides of literals as blanks; line ends stay."""
    pattern = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)

    def blank(match):
        inside = re.sub(r"[^\n]", " ", match.group())
        return inside if match.group()[0] == "/" else '"' + inside[2:] + '"'

    return pattern.sub(blank, text)


def split_declarations(code):
    """The declarations at the outermost level of a header, bodies left out, with their lines."""
    # Preprocessor lines, with their continuations, are none.
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m.group().count("\n"), code,
                  flags=re.M)
    declarations = []
    depth = 0
    current = ""
    line = start = 1
    for character in code:
        if character == "\n":
            line += 1
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0 and current.rstrip().endswith(")"):
                declarations.append((start, current.strip()))
                current = ""
        elif depth == 0:
            if character == ";":
                declarations.append((start, current.strip()))
                current = ""
            elif current or not character.isspace():
                if not current:
                    start = line
                current += character
    return declarations


class Lint:
    def __init__(self, root):
        self.root = root
        self.violations = []

    def report(self, path, line, message):
        self.violations.append(f"{path}:{line}: {message}")

    def list_files(self, *folders):
        for folder in folders:
            for here, names, files in os.walk(os.path.join(self.root, folder)):
                names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
                for name in sorted(files):
                    yield os.path.relpath(os.path.join(here, name), self.root)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def check_licence(self, path, text):
        if path.endswith((".c", ".h")):
            if not text.startswith("/* SPDX-License-Identifier: Apache-2.0"):
                self.report(path, 1, "expected /* SPDX-License-Identifier: Apache-2.0")
        elif "# SPDX-License-Identifier: Apache-2.0" not in text.split("\n")[:2]:
            self.report(path, 1, "expected # SPDX-License-Identifier: Apache-2.0")

    def check_lengths(self, path, text, code):
        lines = code.split("\n")
        if text.count("\n") > LONGEST_FILE:
            self.report(path, LONGEST_FILE + 1,
                        f"expected at most {LONGEST_FILE} lines, found {text.count(chr(10))}")
        # The style puts a function's braces, and no others, alone at the start of a line.
        begin = None
        for number, line in enumerate(lines, 1):
            if line.rstrip() == "{":
                begin = number
            elif line.rstrip() == "}" and begin is not None:
                length = number - begin + 1
                if length > LONGEST_FUNCTION:
                    self.report(path, begin, f"expected a function of at most {LONGEST_FUNCTION} "
                                             f"lines, found {length}")
                begin = None

    def check_includes(self, path, text, code):
        folder = path.split("/")[1]
        own = path[len("sim/"):-1] + "h"
        first = True
        project = False
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if not match:
                continue
            target = match.group(2)
            quoted = match.group(1) == '"'
            if first and path.endswith(".c") and target != own \
                    and os.path.exists(os.path.join(self.root, "sim", own)):
                self.report(path, number, f"expected its own header \"{own}\" first")
            # Some files share a header: the first of the same folder counts as the own one.
            owned = target == own or target.endswith("_private.h") \
                or (first and target.split("/")[0] == folder)
            first = False
            if not quoted:
                if project and path.endswith(".c"):
                    self.report(path, number, "expected the headers of others before the "
                                              "project's")
                continue
            project = project or not owned
            if not os.path.exists(os.path.join(self.root, "sim", target)):
                self.report(path, number, f"expected a path from sim/, found \"{target}\"")
                continue
            other = target.split("/")[0]
            if folder == "executor":
                if other not in EXECUTOR_SEES:
                    self.report(path, number, f"executor sees only {sorted(EXECUTOR_SEES)}, "
                                              f"found \"{target}\"")
            elif other != folder and not FLOORS.get(other, 99) < FLOORS[folder]:
                self.report(path, number, f"floor {FLOORS[folder]} ({folder}) may include lower "
                                          f"floors only, found \"{target}\"")

    def check_calls(self, path, code):
        folder = path.split("/")[1]
        banned = dict(BANNED_CALLS_ANYWHERE)
        if folder not in PROGRAM_FOLDERS:
            banned.update(BANNED_CALLS)
        if folder in VIRTUAL_TIME_FOLDERS:
            for name in BANNED_CALLS_IN_VIRTUAL_TIME:
                banned[name] = "its last digit differs between machines"
        for number, line in enumerate(code.split("\n"), 1):
            # Not behind . or ->, which call a field, and not the end of a longer name.
            for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", line):
                name = match.group(1)
                if name in banned and (path, name) not in ALLOWED_CALLS:
                    self.report(path, number, f"{name}: {banned[name]}")
            if re.search(r"\bgoto\b", line):
                self.report(path, number, "goto: use g_autoptr and early returns")
            if re.match(r"\s*static\s+(?!const\b|inline\b)[\w\s*]+(\[[^\]]*\])*\s*(=|;)", line) \
                    and "const" not in line:
                self.report(path, number, "a static variable that is not const: state belongs to "
                                          "an object")

    def check_header(self, path, text, code):
        if len(re.findall(r"^#pragma once$", text, re.M)) != 1:
            self.report(path, 1, "expected #pragma once")
        name = os.path.basename(path)[:-2].removesuffix("_private")
        for line, declaration in split_declarations(code):
            if declaration.startswith(("typedef", "struct", "enum", "G_DEFINE", "_Static_assert")):
                declaration = re.sub(r"^G_DEFINE\w+\([^)]*\)\s*", "", declaration)
                if not declaration or declaration.startswith(("typedef", "struct", "enum", "G_",
                                                              "_Static")):
                    continue
            match = re.match(r"[\w\s*]*?\b(\w+)\s*\(", declaration)
            if match and not f"{match.group(1)}_".startswith(f"sim_{name}_"):
                self.report(path, line, f"expected a name that begins with sim_{name}_, found "
                                        f"{match.group(1)}")

    def check_header_names(self, paths):
        seen = {}
        for path in paths:
            name = os.path.basename(path)
            if name in seen:
                self.report(path, 1, f"the name stands for the prefix of its functions, and "
                                     f"{seen[name]} has it already")
            seen.setdefault(name, path)

    def check_paths(self):
        """Nothing names a machine: sources, models and texts are the same everywhere."""
        files = [*self.list_files("sim", "models", "traces", "notebooks-export", "tests", ".ci"),
                 *[name for name in ("README.md", "CMakeLists.txt")
                   if os.path.exists(os.path.join(self.root, name))]]
        for path in files:
            if path.startswith("tests/lint/") or path.endswith((".gz", ".pickle", ".png")):
                continue
            words = ["/work/", "../shared"]
            if not path.startswith("tests/"):
                words.append("/tmp/")
            text = self.read(path)
            for word in words:
                if word in text:
                    self.report(path, text[:text.index(word)].count("\n") + 1,
                                f"a path of one machine: {word}")

    def check_source(self, path):
        text = self.read(path)
        self.check_licence(path, text)
        if not path.endswith((".c", ".h")):
            return
        code = blank_comments_and_strings(text)
        self.check_lengths(path, text, code)
        for match in re.finditer(r"\b(TODO|FIXME|XXX)\b", text):
            self.report(path, text[:match.start()].count("\n") + 1,
                        f"{match.group()}: finish it or say what is left out")
        # sim/fsdpsim.h is the one file outside the folders.
        if not path.startswith("sim/") or path.count("/") < 2:
            return
        if path.split("/")[1] not in FLOORS and not path.startswith("sim/executor/"):
            self.report(path, 1, "a folder that has no floor")
            return
        self.check_includes(path, text, code)
        self.check_calls(path, code)
        if path.endswith(".h"):
            self.check_header(path, text, code)

    def check_all(self):
        for path in self.list_files("sim", "tests", ".ci"):
            name = os.path.basename(path)
            if name.endswith((".c", ".h", ".py", ".sh")) or name == "run":
                self.check_source(path)
        self.check_header_names([path for path in self.list_files("sim") if path.endswith(".h")])
        self.check_paths()
        return self.violations


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..")
    violations = Lint(root).check_all()
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
