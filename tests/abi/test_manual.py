#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/device-spec.md against hw-interface/: every table, both ways; the bytes of the worked
example; and the headers as C and C++. Arguments: the C compiler, "--", the C++ compiler."""

import pathlib
import re
import sys
import unittest

import header
import manual
import probe

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "hw-interface"
MANUAL = ROOT / "docs" / "device-spec.md"
# A comment of each register names its access and width.
REGISTER = re.compile(r"^#define (PIB_HCA_(?:REG|UAR)_\w+) 0x\w+\s*/\* (\w+ \d+):", re.MULTILINE)
COMPILERS = {"c": ["cc"], "cxx": ["c++"]}


def compiler() -> probe.Compiler:
    return probe.Compiler(COMPILERS["c"], FOLDER)


def stated(doc: manual.Manual) -> dict[str, int]:
    """Every claim of the manual as a C expression and its value."""
    claims = {f"sizeof(struct {name})": size for name, size in doc.sizes.items()}
    for name, fields in doc.structs.items():
        for field in fields:
            claims[f"offsetof(struct {name}, {field.name})"] = field.offset
            claims[f"sizeof(((struct {name} *)0)->{field.name})"] = field.size
    claims |= doc.constants
    claims |= {name: offset for name, (offset, _) in doc.registers.items()}
    return claims


def differences(doc: manual.Manual, interface: header.Interface) -> list[str]:
    """Differences between manual and headers; one line each."""
    found = []
    for name in interface.structs.keys() | doc.structs.keys():
        theirs = interface.structs.get(name, [])
        ours = [field.name for field in doc.structs.get(name, [])]
        if theirs != ours:
            found.append(f"struct {name}: header {theirs}, manual {ours}")
    named = doc.constants.keys() | doc.registers.keys()
    found += [f"only in the header: {name}" for name in sorted(interface.constants - named)]
    found += [f"only in the manual: {name}" for name in sorted(named - interface.constants)]
    if found:
        return found            # the constants do not exist, so the compiler cannot evaluate them
    claims = stated(doc)
    values = probe.numbers(compiler(), list(claims))
    return [f"{what}: header {values[what]}, manual {claim}"
            for what, claim in claims.items() if values[what] != claim]


class Tables(unittest.TestCase):
    def setUp(self):
        self.text = MANUAL.read_text()
        self.doc = manual.parse(self.text)
        self.interface = header.read(FOLDER)

    def test_manual_and_headers_agree(self):
        self.assertEqual(differences(self.doc, self.interface), [])

    def test_access_and_width_of_registers_agree(self):
        text = (FOLDER / "pib_hca_regs.h").read_text()
        self.assertEqual({name: access for name, (_, access) in self.doc.registers.items()},
                         dict(REGISTER.findall(text)))

    def test_sizes_of_command_structures_agree(self):
        self.assertTrue(self.doc.mentioned_sizes)
        for name, size in self.doc.mentioned_sizes:
            self.assertEqual(self.doc.sizes.get(name), size, name)

    def test_fields_fill_their_structures(self):
        for name, fields in self.doc.structs.items():
            end = 0
            for field in fields:
                self.assertEqual(field.offset, end, f"struct {name}: {field.name}")
                end += field.size
            self.assertEqual(end, self.doc.sizes[name], name)

    def test_a_missing_row_is_noticed(self):
        rows = [line for line in self.text.splitlines()
                if re.match(r"\| \d+ \| \d+ \| `|\| `PIB_HCA_|\| 0x\w+ \| \d+ \| \w+ \|", line)]
        self.assertGreater(len(rows), 300)
        for row in rows:
            whole = re.search(re.escape(row) + r"\n(?:\| \|.*\n)*", self.text).group()
            changed = manual.parse(self.text.replace(whole, "", 1))
            self.assertNotEqual(differences(changed, self.interface), [], row)

    def test_a_wrong_number_is_noticed(self):
        for field in ("| 16 | 8 | `out_addr`", "| `PIB_HCA_CMD_CREATE_QP` | 0x50"):
            self.assertIn(field, self.text)
            changed = manual.parse(self.text.replace(field, re.sub(r"(8|0x50)(?!\d)", "4", field)))
            self.assertNotEqual(differences(changed, self.interface), [], field)


class Examples(unittest.TestCase):
    def test_bytes_of_the_examples_equal_their_fields(self):
        fields = header.read(FOLDER).structs
        examples = manual.parse(MANUAL.read_text()).examples
        self.assertTrue(examples)
        for example in examples:
            with self.subTest(example.structs):
                data = probe.bytes_of(compiler(), example.structs, example.values, fields)
                self.assertLess(max(example.dump), len(data))
                shown = bytes(example.dump.get(i, 0) for i in range(len(data)))
                self.assertEqual(shown.hex(" "), data.hex(" "))


class Headers(unittest.TestCase):
    LANGUAGES = (("c", ["-x", "c", "-std=c11"]), ("cxx", ["-x", "c++", "-std=c++23"]))

    def test_each_header_compiles_alone(self):
        for name in header.HEADERS:
            for which, language in self.LANGUAGES:
                with self.subTest(name, language=language):
                    tool = probe.Compiler(COMPILERS[which], FOLDER)
                    self.assertEqual(tool.check(language, f'#include "{name}"\nint one;\n'),
                                     "")


if __name__ == "__main__":
    if "--" in sys.argv:
        split = sys.argv.index("--")
        COMPILERS = {"c": sys.argv[1:split], "cxx": sys.argv[split + 1:]}
    unittest.main(argv=sys.argv[:1], verbosity=2)
