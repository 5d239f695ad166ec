#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The QEMU device searches QEMU's object tree only while it is realized: a search needs the BQL, which threads of links
do not have."""

import pathlib
import re
import unittest

GLUE = pathlib.Path(__file__).resolve().parents[2] / "qemu-hw" / "glue"
DEFINITION = re.compile(r"^[a-z][\w *]*?\b(\w+)\(.*")
SEARCH = re.compile(r"\bobject_(?:get_canonical_path|resolve_path|child_foreach|property_iter|get_objects_root)\w*\(")
REALIZE = {"pib_hca_init_parts", "pib_hca_tls_find"}


def searchers(text: str) -> set[str]:
    """The functions of a file that search the tree."""
    function, found = "", set()
    for line in text.splitlines():
        if defined := DEFINITION.match(line):
            function = defined[1]
        elif SEARCH.search(line):
            found.add(function)
    return found


class GlueTree(unittest.TestCase):
    def test_the_tree_is_searched_while_the_device_is_realized(self):
        found = {name for path in GLUE.glob("*.c") for name in searchers(path.read_text(encoding="utf-8"))}
        self.assertEqual(found, REALIZE)

    def test_a_search_elsewhere_is_noticed(self):
        self.assertEqual(searchers("void host_log(void *opaque, int level,\n              const char *text)\n{\n"
                                   "    char *path = object_get_canonical_path(OBJECT(opaque));\n}\n"), {"host_log"})


if __name__ == "__main__":
    unittest.main()
