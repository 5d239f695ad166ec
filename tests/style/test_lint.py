#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""pylint over all Python files, mypy over the lab; clang-tidy over C++ files that changed, and over a few that parse
untrusted input.

PIB_TIDY=all has clang-tidy check the whole tree, which takes half an hour.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
TIDY = "clang-tidy-19"
TIDY_ARGUMENTS = ("--quiet", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option")
# Always checked: parsers of packets and MADs.
PARSERS = ("ib/wire/packet.cc", "ib/wire/link_frame.cc", "ib/mgmt/smi.cc")
# Limit of changed files that are checked.
MOST_CHANGED = 12


def pylint(*files: pathlib.Path) -> str:
    # Modules of the guests are not on the host.
    done = subprocess.run(["pylint", f"--rcfile={ROOT / 'pylintrc'}", "--disable=import-error,no-name-in-module",
                           "--score=no", *files], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout or ended(done)


def ended(done: subprocess.CompletedProcess) -> str:
    """The reason why a program has failed without complaints, such as a kill; empty if it has not failed."""
    return f"status {done.returncode}: {done.stderr}" if done.returncode else ""


def mypy(cache: str, *paths: pathlib.Path) -> tuple[int, str]:
    """Exit status and complaints."""
    done = subprocess.run(["mypy", f"--cache-dir={cache}", "--ignore-missing-imports", "--check-untyped-defs", *paths],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def to_check() -> list[str]:
    known = {str(path.relative_to(ROOT)) for path in tree.files(ROOT)
             if path.suffix == ".cc" and not str(path.relative_to(ROOT)).startswith("tests/")}
    if os.environ.get("PIB_TIDY") == "all":
        return sorted(known)
    return sorted(set(PARSERS) | set(sorted(tree.changed(ROOT) & known)[:MOST_CHANGED]))


def tidy(*arguments: str) -> str:
    """The complaints about a file; empty if there are none."""
    done = subprocess.run([TIDY, *TIDY_ARGUMENTS, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr or ended(done)) if done.returncode else ""


class Python(unittest.TestCase):
    def setUp(self):
        self.assertTrue(shutil.which("pylint"), "install pylint, or run ./pib deps")

    def test_pylint_has_no_complaints(self):
        self.assertEqual(pylint(*[path for path in tree.files(ROOT) if path.suffix == ".py"]), "")

    def test_a_fault_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.py"
            bad.write_text("import os\nprint(undefined)\n")
            said = pylint(bad)
            self.assertIn("unused-import", said)
            self.assertIn("undefined-variable", said)


class Types(unittest.TestCase):
    def setUp(self):
        self.assertTrue(shutil.which("mypy"), "install mypy, or run ./pib deps")

    def test_mypy_has_no_complaints(self):
        with tempfile.TemporaryDirectory() as cache:
            status, said = mypy(cache, ROOT / "lab")
        self.assertEqual(status, 0, said)

    def test_a_fault_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.py"
            bad.write_text("def f(a: int | None) -> int:\n    return a\n")
            status, said = mypy(folder, bad)
            self.assertEqual(status, 1, said)
            self.assertIn("bad.py:2", said)


class CPlusPlus(unittest.TestCase):
    def setUp(self):
        self.assertTrue(shutil.which(TIDY), f"install {TIDY}, or run ./pib deps")

    def test_clang_tidy_has_no_complaints(self):
        self.assertTrue((BUILD / "compile_commands.json").exists(), "configure build/ first:  ./pib build")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            said = list(pool.map(lambda file: tidy("-p", str(BUILD), file), to_check()))
        self.assertEqual("".join(said), "")

    def test_a_fault_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.cc"
            bad.write_text("int f(int a) {\n    if (a = 1) {\n        return 2;\n    }\n    return a;\n}\n")
            self.assertIn("bugprone-assignment-in-if-condition",
                          tidy(f"--config-file={ROOT / '.clang-tidy'}", str(bad), "--", "-std=c++23"))


if __name__ == "__main__":
    unittest.main()
