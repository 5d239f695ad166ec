# SPDX-License-Identifier: GPL-2.0-or-later
"""Deliberate defects: each patch of tests/mutants puts one realistic bug into the code."""

import dataclasses
import fnmatch
import os
import pathlib
import re
import subprocess

from lab import paths, ui

FOLDER = paths.ROOT / "tests" / "mutants"
README = FOLDER / "README.md"
LICENCE = "SPDX-License-Identifier: GPL-2.0-or-later"
FILE = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)
CHANGE = re.compile(r"^[+-](?![+-]{2} )", re.MULTILINE)
FIELD = re.compile(r"^(First|Survives): (\S.*)$")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """title: the defect as a sentence. first: names of meson's tests that run before all others. survives: why no test
    can find the defect; empty: a test must."""
    path: pathlib.Path
    title: str
    first: tuple[str, ...]
    survives: str = ""

    @property
    def name(self) -> str:
        return self.path.stem

    def files(self) -> list[str]:
        """The files that it changes, relative to the tree's root."""
        return FILE.findall(self.path.read_text())

    def changed_lines(self) -> int:
        """Lines that it adds, or those that it removes if these are more."""
        signs = CHANGE.findall(self.path.read_text())
        return max(signs.count("+"), signs.count("-"))


def parse(path: pathlib.Path) -> Mutant:
    head, found, _ = path.read_text().partition("\n--- a/")
    lines = head.splitlines()
    fields = {match[1]: match[2] for line in lines[2:] if (match := FIELD.match(line))}
    if not found or lines[:1] != [LICENCE] or len(fields) != len(lines[2:]) or "First" not in fields:
        raise ui.LabError(f"{path.name}: a patch begins with the licence's line, the defect as a sentence, and "
                          f"'First: TESTS': see {README.relative_to(paths.ROOT)}")
    return Mutant(path, lines[1], tuple(re.split(r",\s*", fields["First"])), fields.get("Survives", ""))


def load(pattern: str | None = None) -> list[Mutant]:
    """pattern: of names, as in a shell; a part of the name does as well."""
    found = [parse(path) for path in sorted(FOLDER.glob("*.patch"))
             if pattern is None or pattern in path.stem or fnmatch.fnmatch(path.stem, pattern)]
    if not found:
        raise ui.LabError(f"no mutant is named {pattern}. Their names:  ls {FOLDER.relative_to(paths.ROOT)}")
    return found


def apply(tree: pathlib.Path, mutants: list[Mutant], *options: str) -> None:
    """Applies patches to a tree, which need not be a repository. With the option --check it only tries each one."""
    done = subprocess.run(["git", "apply", *options, *(str(mutant.path) for mutant in mutants)], cwd=tree,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise ui.LabError(f"a mutant does not apply to the code, which has changed since. Make it anew as "
                          f"{README.relative_to(paths.ROOT)} says:\n{done.stderr.strip()}")
