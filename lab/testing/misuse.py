# SPDX-License-Identifier: GPL-2.0-or-later
"""Misuse by drivers: each patch in tests/guest/develop/misuse makes our driver or provider break one rule of the
manual, which a strict device names."""

import dataclasses
import pathlib
import re
import shutil

from lab.base import paths, ui
from lab.build import guest_build, kernel_module
from lab.testing import patches

FOLDER = paths.ROOT / "tests" / "guest" / "develop" / "misuse"
PEER = "PEER"                   # word of a program's line: the host name of the guest with the program's server
HEAD = re.compile(rf"{patches.LICENCE}\n(\S.*\.)\nRule: (\d+\.\d+\.\d+)\n(?:Runs: (\S.*)\n)?\n--- a/(\S+)/\S+\n")


@dataclasses.dataclass(frozen=True)
class Misuse(patches.Patch):
    """rule: its number in the manual. runs: the program that uses a faulty provider. part: the folder that the patch
    changes."""
    rule: str
    runs: str | None
    part: str


def copy(directory: pathlib.Path) -> pathlib.Path:
    """Copies our driver, our provider and the hardware interface to a directory, to which the patches apply."""
    for name in (kernel_module.COMMON, kernel_module.DRIVER, guest_build.PROVIDER):
        shutil.copytree(paths.ROOT / name, directory / name)
    return directory


def parse(path: pathlib.Path) -> Misuse:
    found = HEAD.match(path.read_text())
    if not found or (found[4] == guest_build.PROVIDER) != bool(found[3]):
        raise ui.LabError(f"{path.name}: a patch begins with the licence's line, the fault as a sentence, and "
                          f"'Rule: NUMBER', one of the provider also 'Runs: PROGRAM': see "
                          f"{FOLDER.relative_to(paths.ROOT)}/README.md")
    return Misuse(path, *found.groups())


def load() -> list[Misuse]:
    return [parse(path) for path in sorted(FOLDER.rglob("*.patch"))]
