# SPDX-License-Identifier: GPL-2.0-or-later
"""Misuse by drivers: each patch in tests/guest/misuse makes our driver break one rule of the manual, which a strict
device names."""

import dataclasses
import pathlib
import re
import shutil

from lab import paths, ui
from lab.build import kernel_module
from lab.testing import mutant

FOLDER = paths.ROOT / "tests" / "guest" / "misuse"
HEAD = re.compile(rf"{mutant.LICENCE}\n(\S.*\.)\nRule: (\d+\.\d+\.\d+)\n\n--- a/")


@dataclasses.dataclass(frozen=True)
class Misuse:
    """title: the fault as a sentence. rule: its number in the manual."""
    path: pathlib.Path
    title: str
    rule: str

    @property
    def name(self) -> str:
        return self.path.stem

    def as_mutant(self) -> mutant.Mutant:
        return mutant.Mutant(self.path, self.title)


def copy(directory: pathlib.Path) -> pathlib.Path:
    """Copies our driver and the hardware interface to a directory, to which the patches apply."""
    for name in (kernel_module.COMMON, kernel_module.DRIVER):
        shutil.copytree(paths.ROOT / name, directory / name)
    return directory


def parse(path: pathlib.Path) -> Misuse:
    found = HEAD.match(path.read_text())
    if not found:
        raise ui.LabError(f"{path.name}: a patch begins with the licence's line, the fault as a sentence, and "
                          "'Rule: NUMBER'. See tests/guest/misuse/README.md")
    return Misuse(path, *found.groups())


def load() -> list[Misuse]:
    return [parse(path) for path in sorted(FOLDER.glob("*.patch"))]
