# SPDX-License-Identifier: GPL-2.0-or-later
"""Mutants: each patch in tests/mutants puts one realistic defect into the code."""

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
    """A test fails without a mutant, so it cannot find mutants."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """title: the defect as a sentence. first: names of meson tests that run before all others. guest: pytest names of
    tests in guests, which replace all tests on the host. survives: why no test can find the mutant; empty: a test must
    find it."""
    path: pathlib.Path
    title: str
    first: tuple[str, ...] = ()
    survives: str = ""
    guest: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.stem

    def files(self) -> list[str]:
        """Files that the patch changes, relative to the tree's root."""
        return FILE.findall(self.path.read_text())

    def changed_lines(self) -> int:
        """Number of lines that the patch adds or that it removes, whichever is larger."""
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
    """The mutants. pattern: a shell pattern of their names, or a part of a name; None: all mutants."""
    found = [parse(path) for path in sorted(FOLDER.glob("*.patch"))
             if pattern is None or pattern in path.stem or fnmatch.fnmatch(path.stem, pattern)]
    if not found:
        raise ui.LabError(f"no mutant is named {pattern}. Their names:  ls {FOLDER.relative_to(paths.ROOT)}")
    return found


def apply(tree: pathlib.Path, mutants: list[Mutant], *options: str) -> None:
    """Applies patches to a tree, which need not be a repository. options: of git apply; --check only tests them."""
    done = subprocess.run(["git", "apply", *options, *(str(mutant.path) for mutant in mutants)], cwd=tree,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise ui.LabError(f"a mutant does not apply to the code, which has changed since. Make it anew as "
                          f"{README.relative_to(paths.ROOT)} says:\n{done.stderr.strip()}")


@contextlib.contextmanager
def applied(tree: pathlib.Path, mutant: Mutant) -> Iterator[None]:
    """Applies the mutant to the tree during the block."""
    before = {name: (tree / name).read_bytes() for name in mutant.files()}
    try:
        apply(tree, [mutant])
        yield
    finally:
        for name, data in before.items():
            builder.write_if_changed(data, tree / name)
