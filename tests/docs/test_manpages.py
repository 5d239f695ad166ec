#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The sources of manual pages against the programs: every option is there."""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
import manpage  # noqa: E402  pylint: disable=wrong-import-position

SWITCH_OPTION = re.compile(r'"!?(--[a-z][a-z0-9-]+)"')
SWITCH_COMMAND = re.compile(r'add_command\(\*ctl, options, "(\w+)"')
FAULT = re.compile(r'^ {8}\{"([a-z0-9-]+)", "', re.MULTILINE)
PROPERTY = re.compile(r'DEFINE_PROP\w*\("([\w-]+)"')


def missing(names: set[str], page: str, before: str = "") -> list[str]:
    """Names that the page does not have as a whole word. before: the character before a name."""
    return [name for name in sorted(names) if not re.search(rf"{before}(?<![\w-]){name}(?![\w-])", page)]


class ManualPages(unittest.TestCase):
    def page(self, name: str) -> str:
        return manpage.document((ROOT / "docs" / f"{name}.md").read_text(), "description")

    def test_the_switch_has_all_of_its_options_and_commands(self):
        source = (ROOT / "fabric-switch" / "options.cc").read_text()
        page = self.page("pib-switch")
        options = set(SWITCH_OPTION.findall(source)) | {f"--{name}" for name in FAULT.findall(source)}
        self.assertGreater(len(options), 20)
        self.assertEqual(missing(options, page), [])
        commands = set(SWITCH_COMMAND.findall(source)) | {"fault"}
        self.assertGreater(len(commands), 6)
        self.assertEqual(missing(commands, page, "`"), [])

    def test_the_device_has_all_of_its_properties(self):
        source = manpage.GLUE.read_text()
        names = PROPERTY.findall(source)
        self.assertGreater(len(names), 20)
        self.assertEqual(sorted(names), sorted(manpage.properties()))
        page = self.page("pib-hca")
        self.assertEqual([name for name in names if f"`{name}`\n\n: " not in page], [])

    def test_a_property_has_its_default(self):
        said = manpage.properties()
        self.assertEqual({name: re.search(r"\(default: (.*)\)$", said[name])[1] for name in (
            "ports", "vectors", "mtu", "vls", "device-memory", "poll-us", "bursts", "inject")}, {
                "ports": "1", "vectors": "9", "mtu": "4096", "vls": "8", "device-memory": "1M", "poll-us": "20",
                "bursts": "on", "inject": "off"})
        self.assertEqual([text for text in said.values() if text.count("default") > 1], [])
        self.assertIn("#define DEVICE_MEMORY_DEFAULT MiB\n", manpage.GLUE.read_text())

    def test_the_replay_has_all_of_its_options(self):
        source = (ROOT / "qemu-hw" / "replay" / "replay_options.cc").read_text()
        page = self.page("pib-replay")
        options = set(re.findall(r'word == "(--[a-z]+)"', source))
        self.assertGreater(len(options), 5)
        self.assertEqual(missing(options, page, "`"), [])
        dumps = re.search(r"kNumbered = \{([^}]+)\}", source)[1].replace('"', "").split(", ")
        self.assertEqual([name for name in dumps if f"`{name} " not in page], [])

    def test_a_table_becomes_a_list(self):
        text = "a\n\n| option | |\n|---|---|\n| `-x` | first |\n| | second |\n| `a\\|b` | third |\n\nz"
        self.assertEqual(manpage.tables(text).split("\n\n"),
                         ["a", "`-x`", ": first second", "`a|b`", ": third", "", "z"])

    def test_links_and_paths_of_a_checkout_go(self):
        text = "# x\n\n`./pib up`, see [here](y.md#z).\n\n    ./pib map; ls ./pib-lab.deb\n"
        page = manpage.document(text, "description")
        self.assertEqual(page, "# NAME\n\nx - description\n\n# DESCRIPTION\n\n`pib up`, see here.\n\n"
                               "    pib map; ls ./pib-lab.deb")
        for name in ("pib-switch", "pib-topology", "pib-replay", "pib-hca"):
            self.assertIsNone(re.search(r"\./pib(?![\w-])", self.page(name)), name)

    def test_the_page_of_the_command_has_its_installed_name(self):
        """troff takes a line that begins with ./pib for an unknown macro, and leaves it out."""
        with tempfile.TemporaryDirectory() as name:
            program = pathlib.Path(name) / "argparse-manpage"
            lines = (".SH NAME", "pib", "./pib driver coverage: as ./pib -h", "\\&./pib up")
            program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join([*lines, "END", ""]))
            program.chmod(0o755)
            page = manpage.from_parser(str(program), "pib.1", "x")
        self.assertEqual(page, ".SH NAME\npib \\- x\npib driver coverage: as pib -h\npib up\n")


if __name__ == "__main__":
    unittest.main()
