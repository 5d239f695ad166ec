# SPDX-License-Identifier: GPL-2.0-or-later
"""Deliberate defects: each patch of tests/mutants puts one realistic bug into the code."""

import contextlib
import dataclasses
import fnmatch
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

from lab import paths, ui
from lab.build import builder

FOLDER = paths.ROOT / "tests" / "mutants"
README = FOLDER / "README.md"
LICENCE = "SPDX-License-Identifier: GPL-2.0-or-later"
FILE = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)
CHANGE = re.compile(r"^[+-](?![+-]{2} )", re.MULTILINE)
FIELD = re.compile(r"^(First|Guest|Survives): (\S.*)$")


class TestsFail(ui.LabError):
    """A test fails without a defect, so that it cannot find one."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """title: the defect as a sentence. first: names of meson's tests that run before all others. guest: tests in guests
    as pytest names them, in place of all tests of the host. survives: why no test can find the defect; empty: a test
    must."""
    path: pathlib.Path
    title: str
    first: tuple[str, ...] = ()
    survives: str = ""
    guest: tuple[str, ...] = ()

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
    complete = lines[:1] == [LICENCE] and len(fields) == len(lines[2:]) and ("First" in fields) != ("Guest" in fields)
    if not found or not complete:
        raise ui.LabError(f"{path.name}: a patch begins with the licence's line, the defect as a sentence, and "
                          f"'First: TESTS' or 'Guest: TESTS': see {README.relative_to(paths.ROOT)}")
    first, guest = (tuple(re.split(r",\s*", fields[name])) if name in fields else () for name in ("First", "Guest"))
    return Mutant(path, lines[1], first, fields.get("Survives", ""), guest)


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


@contextlib.contextmanager
def applied(tree: pathlib.Path, mutant: Mutant) -> Iterator[None]:
    """The tree has the defect for as long as the block lasts."""
    before = {name: (tree / name).read_bytes() for name in mutant.files()}
    try:
        apply(tree, [mutant])
        yield
    finally:
        for name, data in before.items():
            builder.write_if_changed(data, tree / name)
