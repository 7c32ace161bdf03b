#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows check_sources.py each violation once: a rule that cannot fail holds nothing."""

import os
import subprocess
import sys
import tempfile

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HEADER = LICENCE + "#pragma once\n"
BODY = "    ;\n"

# name, files, what the lint must say (a part of a line); no file: what it must let pass.
CASES = [
    ("a higher floor",
     {"sim/engine/a.c": LICENCE + '#include "rank/b.h"\n', "sim/rank/b.h": HEADER},
     "sim/engine/a.c:2: floor 1 (engine) may include lower floors only"),
    ("the same floor",
     {"sim/hbm/a.c": LICENCE + '#include "plan/b.h"\n', "sim/plan/b.h": HEADER},
     "sim/hbm/a.c:2: floor 1 (hbm) may include lower floors only"),
    ("the executor sees the simulator",
     {"sim/executor/a.c": LICENCE + '#include "fsdp/b.h"\n', "sim/fsdp/b.h": HEADER},
     "sim/executor/a.c:2: executor sees only"),
    ("somebody sees the executor",
     {"sim/cli/a.c": LICENCE + '#include "executor/b.h"\n', "sim/executor/b.h": HEADER},
     "sim/cli/a.c:2: floor 6 (cli) may include lower floors only"),
    ("a folder without a floor", {"sim/misc/a.c": LICENCE}, "sim/misc/a.c:1: a folder"),
    ("an include from nowhere", {"sim/base/a.c": LICENCE + '#include "b.h"\n'},
     'sim/base/a.c:2: expected a path from sim/, found "b.h"'),
    ("its own header late",
     {"sim/base/a.c": LICENCE + '#include <glib.h>\n#include "base/a.h"\n',
      "sim/base/a.h": HEADER},
     'sim/base/a.c:2: expected its own header "base/a.h" first'),
    ("the project's headers before a library's",
     {"sim/plan/a.c": LICENCE + '#include "base/b.h"\n#include <glib.h>\n',
      "sim/base/b.h": HEADER},
     "sim/plan/a.c:3: expected the headers of others before"),
    ("a long file", {"sim/base/a.c": LICENCE + "\n" * 800},
     "sim/base/a.c:801: expected at most 800 lines, found 801"),
    ("a long function", {"tests/unit/base/test_a.c": LICENCE + "void f(void)\n{\n" + BODY * 69
                                                     + "}\n"},
     "tests/unit/base/test_a.c:3: expected a function of at most 70 lines, found 71"),
    ("no licence", {"sim/base/a.c": "int a;\n"}, "sim/base/a.c:1: expected /* SPDX"),
    ("a script without licence", {"tests/run": "#!/bin/bash\n"}, "tests/run:1: expected # SPDX"),
    ("no guard", {"sim/base/a.h": LICENCE}, "sim/base/a.h:1: expected #pragma once"),
    ("a wrong prefix",
     {"sim/base/a.h": HEADER + "typedef struct SimA {\n    int b;\n} SimA;\n"
                               "G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimA, sim_a_free)\n"
                               "void sim_a_ok(int (*f)(void));\nint *sim_b_get(int x);\n"},
     "sim/base/a.h:8: expected a name that begins with sim_a_, found sim_b_get"),
    ("a name twice", {"sim/base/a.h": HEADER, "sim/plan/a.h": HEADER},
     "sim/plan/a.h:1: the name stands for the prefix"),
    ("goto", {"sim/cli/a.c": LICENCE + "goto end;\n"}, "sim/cli/a.c:2: goto"),
    ("a static variable", {"sim/cli/a.c": LICENCE + "static int count = 0;\n"},
     "sim/cli/a.c:2: a static variable"),
    ("unfinished work", {"sim/cli/a.c": LICENCE + "/* TO" + "DO */\n"}, "sim/cli/a.c:2: TO"),
    ("a path", {"README.md": "\n/tmp/x\n"}, "README.md:2: a path of one machine: /tmp/"),
    ("a path in a model", {"models/a.json": '"../shared/x"'}, "models/a.json:1: a path of one"),
    ("pow in the engine", {"sim/engine/a.c": LICENCE + "x = pow(2, 3);\n"},
     "sim/engine/a.c:2: pow"),
]
CALLS = ["printf", "fprintf", "puts", "malloc", "free", "strtok", "rand", "strtod", "atoi",
         "setlocale", "g_hash_table_iter_init", "time"]
CASES += [(name, {"sim/base/a.c": LICENCE + f"    {name}(x);\n"}, f"sim/base/a.c:2: {name}: ")
          for name in CALLS]

PASSES = {
    "sim/base/a.h": HEADER + "typedef int (*SimFunc)(void *user_data);\n"
                             "void sim_a_free(int *a);\nstatic inline int sim_a_get(void)\n{\n"
                             "    return 1;\n}\nint sim_a_put(void);\n",
    "sim/base/a.c": LICENCE + '#include "base/a.h"\n#include <glib.h>\n'
                              'static const int table[] = {1};\n/* printf( goto malloc( */\n'
                              'x = "printf(" "goto"; g_malloc(1); sim_a_free(0); a->free(1);\n',
    "sim/cli/main.c": LICENCE + '#include "base/a.h"\nvoid f(void)\n{\n' + BODY * 68 + "}\n"
                      'printf("x"); pow(1, 2);\n',
    "sim/fsdpsim.h": HEADER + "int sim_a_put(void);\n",
}


def run_lint(files):
    lint = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_sources.py")
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, lint, root], capture_output=True, text=True,
                                check=False)
    return result.returncode, result.stdout + result.stderr


def main():
    failures = 0
    for name, files, expected in CASES:
        code, output = run_lint(files)
        lines = output.splitlines()
        if code != 1 or len(lines) != 1 or not lines[0].startswith(expected):
            print(f"{name}: expected '{expected}', found:\n{output}")
            failures += 1
    code, output = run_lint(PASSES)
    if code != 0 or output:
        print(f"expected nothing, found:\n{output}")
        failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
