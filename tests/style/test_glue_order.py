#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A file of the QEMU device calls only the files above it in the list of pib_hca_glue.h."""

import pathlib
import re
import unittest

GLUE = pathlib.Path(__file__).resolve().parents[2] / "qemu-hw" / "glue"
LISTED = re.compile(r"^ \*   (pib_hca_\w+\.c)\s", re.MULTILINE)
DEFINED = re.compile(r"^(?!static\b)\w[\w *]*?\b(pib_hca_\w+)(?:\(|\[| = )", re.MULTILINE)
USED = re.compile(r"\bpib_hca_\w+")


def calls_upwards(order: list[str], sources: dict[str, str]) -> list[str]:
    """The uses of a symbol in a file that stands above the file that defines it."""
    home = {symbol: name for name, text in sources.items() for symbol in DEFINED.findall(text)}
    return [f"{name}: {symbol} of {home[symbol]}"
            for name, text in sources.items() for symbol in sorted(set(USED.findall(text)))
            if symbol in home and order.index(home[symbol]) > order.index(name)]


class GlueOrder(unittest.TestCase):
    def setUp(self):
        self.order = LISTED.findall((GLUE / "pib_hca_glue.h").read_text(encoding="utf-8"))
        self.sources = {path.name: path.read_text(encoding="utf-8") for path in GLUE.glob("pib_hca_*.c")}

    def test_each_file_is_listed(self):
        self.assertEqual(sorted(self.order), sorted(self.sources))

    def test_no_file_calls_upwards(self):
        self.assertEqual(calls_upwards(self.order, self.sources), [])

    def test_a_call_upwards_is_noticed(self):
        sources = {"pib_hca_a.c": "void pib_hca_low(void)\n{\n    pib_hca_high();\n}\n",
                   "pib_hca_b.c": "bool pib_hca_high(void)\n{\n    pib_hca_low();\n}\n"}
        self.assertEqual(calls_upwards(["pib_hca_a.c", "pib_hca_b.c"], sources),
                         ["pib_hca_a.c: pib_hca_high of pib_hca_b.c"])


if __name__ == "__main__":
    unittest.main()
