# SPDX-License-Identifier: GPL-2.0-or-later
"""Mutants: each patch in tests/mutants puts one realistic defect into the code."""

import dataclasses
import fnmatch
import pathlib
import re

from lab.base import paths, ui
from lab.testing import patches

FOLDER = paths.ROOT / "tests" / "mutants"
README = FOLDER / "README.md"
FIELD = re.compile(r"^(First|Guest|Survives): (\S.*)$")


class TestsFail(ui.LabError):
    """A test fails without a mutant, so it cannot find mutants."""


@dataclasses.dataclass(frozen=True)
class Mutant(patches.Patch):
    """title: the defect. first: names of meson tests that run before all others. guest: pytest names of tests in
    guests, which replace all tests on the host. survives: why no test can find the mutant; empty: a test must find it.
    """
    first: tuple[str, ...] = ()
    survives: str = ""
    guest: tuple[str, ...] = ()


def parse(path: pathlib.Path) -> Mutant:
    head, found, _ = path.read_text().partition("\n--- a/")
    lines = head.splitlines()
    fields = {match[1]: match[2] for line in lines[2:] if (match := FIELD.match(line))}
    licensed, one_test = lines[:1] == [patches.LICENCE], ("First" in fields) != ("Guest" in fields)
    complete = licensed and one_test and len(fields) == len(lines[2:])
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
