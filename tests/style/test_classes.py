#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A class does one thing: at most 25 methods, defined in at most two source files. One file defines its name."""

import pathlib
import re
import shutil
import tempfile
import unittest

import classes
import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_METHODS = 25
MOST_SOURCES = 2
TEST_SOURCE = re.compile(r"tests/.*\.cc$")
FOLDERS = ("ib/", "link-memory/", "qemu-hw/core/", "qemu-hw/replay/", "fabric-switch/", "tests/")


def of_tree() -> dict[str, classes.Class]:
    files = [path for path in tree.files(ROOT)
             if path.suffix in (".h", ".cc") and str(path.relative_to(ROOT)).startswith(FOLDERS)]
    return classes.read(ROOT, files)


def of_text(**files: str) -> dict[str, classes.Class]:
    """The classes of files with these names, whose last "_" stands for a dot."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / ".".join(name.rsplit("_", 1))).write_text(text)
        return classes.read(root, sorted(root.iterdir()))


def defined_twice(found: dict[str, classes.Class]) -> dict[str, list[str]]:
    """Names that several files define. A test's source may: it is a program, and ctags gives a type that is local to
    a test case the name of a global one."""
    return {name: sorted(files) for name, one in found.items()
            if len(files := {path for path in {one.path, *one.others} if not TEST_SOURCE.match(path)}) > 1}


class Classes(unittest.TestCase):
    def setUp(self):
        self.assertTrue(shutil.which(classes.CTAGS), "install universal-ctags, or run ./pib deps")

    def test_no_class_is_too_large(self):
        found = of_tree()
        self.assertGreater(len(found), 300)
        self.assertEqual({name: len(one.methods) for name, one in found.items() if len(one.methods) > MOST_METHODS}, {})
        self.assertEqual({name: one.sources for name, one in found.items() if len(one.sources) > MOST_SOURCES}, {})

    def test_one_file_defines_a_name(self):
        self.assertEqual(defined_twice(of_tree()), {})

    def test_a_second_definition_is_found(self):
        struct = "namespace n {\nstruct A { int a; };\n}\n"
        found = of_text(a_h=struct, b_cc=struct.replace("int", "char"), c_h=struct.replace("n {", "m {", 1),
                        d_cc="namespace n {\nnamespace {\nstruct A { long a; };\n}\nenum class B { kNone };\n}\n",
                        e_h="namespace n {\nstruct A;\nenum class B { kSome };\n}\n")
        self.assertEqual(defined_twice(found), {"n::A": ["a.h", "b.cc"], "n::B": ["d.cc", "e.h"]})

    def test_methods_are_counted(self):
        found = of_text(
            a_h="namespace n {\nclass A {\n  public:\n    A();\n    ~A();\n    int f() const;\n"
                "    int f(int x) { return x; }\n    bool operator==(const A&) const;\n"
                "    bool operator<(const A&) const = default;\n    A(const A&) = delete;\n"
                "  private:\n    void g();\n    int h_;\n};\n}\n",
            a_cc='#include "a.h"\nnamespace n {\nint A::f() const { return 1; }\nA::~A() = default;\n}\n',
            b_cc='#include "a.h"\nnamespace n {\nvoid A::g() {\n    [] { return 2; }();\n}\n}\n')["n::A"]
        self.assertEqual(found.methods, {"A()", "~A()", "A(constA&)", "f()const", "f(intx)", "g()",
                                         "operator ==(constA&)const", "operator <(constA&)const"})
        self.assertEqual(found.sources, {"a.cc", "b.cc"})


if __name__ == "__main__":
    unittest.main()
