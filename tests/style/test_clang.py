#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""clang++ accepts the C++ files that g++ compiles, with the same warnings as errors. It checks changed files; with
PIB_TIDY=all the whole tree, which takes some minutes.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import unittest

import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
CLANG = "clang++-19"
# Arguments for g++ that name its output, with the number of their values.
OUTPUT = {"-o": 1, "-MQ": 1, "-MF": 1, "-MD": 0, "-c": 0}
# Always checked: templates and concepts that the two compilers may read in different ways.
ALWAYS = ("ib/wire/packet.cc", "qemu-hw/core/transport/requester.cc", "fabric-switch/switch/packet_relay.cc")
MOST_CHANGED = 12


def arguments(command: str) -> list[str]:
    """The arguments of a compilation by g++, as clang++ needs them to check the file."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        if word not in OUTPUT:
            kept.append(word)
        elif OUTPUT[word]:
            next(words)
    while not kept[0].startswith("-"):     # ccache and the compiler
        kept.pop(0)
    return [*(word for word in kept if not word.startswith(("-O", "-g"))), "-fsyntax-only",
            "-Wno-unknown-warning-option"]


def commands() -> dict[str, tuple[str, str]]:
    """Directory and command of the compilation of each C++ file of the tree."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if path.suffix == ".cc" and path.is_relative_to(ROOT) and not path.is_relative_to(BUILD):
            found[str(path.relative_to(ROOT))] = (entry["directory"], entry["command"])
    return found


def complaints(directory: str | pathlib.Path, command: str) -> str:
    done = subprocess.run([CLANG, *arguments(command)], cwd=directory, capture_output=True, text=True, check=False)
    return (done.stderr or f"{command}: status {done.returncode}\n") if done.returncode else ""


class Clang(unittest.TestCase):
    def setUp(self):
        self.assertTrue(shutil.which(CLANG), "install clang-19, or run ./pib deps")

    def test_clang_has_no_complaints(self):
        self.assertTrue((BUILD / "compile_commands.json").exists(), "configure build/ first:  ./pib build")
        known = commands()
        self.assertGreater(len(known), 200)
        chosen = set(known)
        if os.environ.get("PIB_TIDY") != "all":
            changed = {name for name in tree.changed(ROOT) if name in known}
            chosen = set(ALWAYS) | set(sorted(changed)[:MOST_CHANGED])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            said = list(pool.map(lambda name: complaints(*known[name]), sorted(chosen)))
        self.assertEqual("".join(said), "")

    def test_a_fault_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.cc"
            bad.write_text("class A {\n    int unused_;\n};\nA a;\n")
            command = f"ccache c++ -Wall -Wextra -Werror -std=c++23 -O2 -MD -MQ x -MF x -o x -c {bad}"
            self.assertIn("private field 'unused_' is not used", complaints(folder, command))


if __name__ == "__main__":
    unittest.main()
