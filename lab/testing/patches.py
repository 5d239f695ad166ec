# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches of tests: each puts one fault into a tree. The README.md beside patches says how they are made."""

import contextlib
import dataclasses
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator, Sequence

from lab.base import paths, ui
from lab.build import builder

LICENCE = "SPDX-License-Identifier: GPL-2.0-or-later"
FILE = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)
CHANGE = re.compile(r"^[+-](?![+-]{2} )", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Patch:
    """title: the fault as a sentence."""
    path: pathlib.Path
    title: str

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


def readme(patch: pathlib.Path) -> str:
    """The README.md beside a patch, as messages name it."""
    file = patch.parent / "README.md"
    return str(file.relative_to(paths.ROOT) if file.is_relative_to(paths.ROOT) else file)


def apply(tree: pathlib.Path, patches: Sequence[Patch], *options: str) -> None:
    """Applies patches of one folder to a tree, which need not be a repository. options: those of git apply; --check
    only tests them."""
    done = subprocess.run(["git", "apply", *options, *(str(patch.path) for patch in patches)], cwd=tree,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise ui.LabError(f"a patch does not apply to the code, which has changed since. Make it anew as "
                          f"{readme(patches[0].path)} says:\n{done.stderr.strip()}")


@contextlib.contextmanager
def applied(tree: pathlib.Path, patch: Patch) -> Iterator[None]:
    """Applies the patch to the tree during the block."""
    before = {name: (tree / name).read_bytes() for name in patch.files()}
    try:
        apply(tree, [patch])
        yield
    finally:
        for name, data in before.items():
            builder.write_if_changed(data, tree / name)
