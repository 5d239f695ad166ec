#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Each header compiles alone, with g++."""

import pathlib
import tempfile
import unittest

import headers
import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".lab" / "style" / "headers.json"
COMPILER = "g++"


def files(suffix: str) -> list[pathlib.Path]:
    return [path for path in tree.files(ROOT)
            if path.suffix == suffix and str(path.relative_to(ROOT)).startswith(headers.FOLDERS)]


class Headers(unittest.TestCase):
    def test_sources_include_their_own_header_first(self):
        sources = files(".cc")
        self.assertGreater(len(sources), 100)
        self.assertEqual([str(path.relative_to(ROOT)) for path in sources if not headers.own_header_first(path)], [])

    def test_other_headers_compile_alone(self):
        alone = [path for path in files(".h") if not path.with_suffix(".cc").exists()]
        self.assertGreater(len(alone), 30)
        self.assertEqual(headers.faults(ROOT, alone, COMPILER, CACHE), {})

    def test_faults_are_noticed_and_not_cached(self):
        with tempfile.TemporaryDirectory() as folder:
            root, cache = pathlib.Path(folder), pathlib.Path(folder) / "cache.json"
            good, bad = root / "good.h", root / "bad.h"
            good.write_text("#pragma once\n#include <vector>\ninline std::vector<int> f() { return {}; }\n")
            bad.write_text('#pragma once\n#include "good.h"\ninline std::string g() { return {}; }\n')
            for _ in range(2):
                self.assertEqual(list(headers.faults(root, [good, bad], COMPILER, cache)), ["bad.h"])
            good.write_text(good.read_text() + "#include <string>\n")
            self.assertEqual(headers.faults(root, [good, bad], COMPILER, cache), {})
            (root / "a.h").write_text("\n")
            (root / "a.cc").write_text('#include "good.h"\n#include "a.h"\n')
            self.assertFalse(headers.own_header_first(root / "a.cc"))


if __name__ == "__main__":
    unittest.main()
