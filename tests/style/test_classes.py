#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A class does one thing: at most 25 methods, defined in at most two source files."""

import pathlib
import shutil
import tempfile
import unittest

import classes
import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_METHODS = 25
MOST_SOURCES = 2
FOLDERS = ("ib/", "link-memory/", "qemu-hw/core/", "fabric-switch/", "tests/")


def of_tree() -> dict[str, tuple[int, int]]:
    """Methods and source files by class."""
    files = [path for path in tree.files(ROOT)
             if path.suffix in (".h", ".cc") and str(path.relative_to(ROOT)).startswith(FOLDERS)]
    return {name: (len(found.methods), len(found.sources)) for name, found in classes.read(ROOT, files).items()}


class Classes(unittest.TestCase):
    def setUp(self):
        self.assertTrue(shutil.which(classes.CTAGS), "install universal-ctags, or run ./pib deps")

    def test_no_class_is_too_large(self):
        found = of_tree()
        self.assertGreater(len(found), 300)
        self.assertEqual({name: size for name, size in found.items()
                          if size[0] > MOST_METHODS or size[1] > MOST_SOURCES}, {})

    def test_methods_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.h").write_text("namespace n {\nclass A {\n  public:\n    A();\n    ~A();\n    int f() const;\n"
                                      "    int f(int x) { return x; }\n    bool operator==(const A&) const;\n"
                                      "  private:\n    void g();\n    int h_;\n};\n}\n")
            (root / "a.cc").write_text('#include "a.h"\nnamespace n {\nint A::f() const { return 1; }\n}\n')
            (root / "b.cc").write_text('#include "a.h"\nnamespace n {\nvoid A::g() {\n    [] { return 2; }();\n}\n}\n')
            found = classes.read(root, sorted(root.iterdir()))["n::A"]
            self.assertEqual((len(found.methods), found.sources), (3, {"a.cc", "b.cc"}))


if __name__ == "__main__":
    unittest.main()
