# SPDX-License-Identifier: Apache-2.0
"""Five thousand wrong files: see tests/fuzz/fuzz.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))

import fuzz  # pylint: disable=wrong-import-position
import program  # pylint: disable=wrong-import-position


class WrongFiles(fuzz.Fuzz):
    variants = 1000


del fuzz
program.main()
