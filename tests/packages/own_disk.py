# SPDX-License-Identifier: GPL-2.0-or-later
"""The disk image that the commands of docs/user-guide.md, section 13, make with our packages."""

import pathlib
import re
import shutil

import package_trees
from lab.base import paths, ui
from lab.build import debian, user_namespace


def _commands() -> str:
    """The document's commands without ./pib up, with this machine's mirror."""
    section = (paths.ROOT / "docs" / "user-guide.md").read_text().split("\n## 13. ")[1]
    block = re.findall(r"^```sh\n(mmdebstrap .*?)^```", section, re.MULTILINE | re.DOTALL)[0]
    made, _, boot = block.partition("./pib up --image disk.img")
    assert boot == "\n"
    return made.replace(" trixie tree\n", f" trixie tree {debian.mirror()}\n")


def make(built: package_trees.Packages, work: pathlib.Path) -> pathlib.Path:
    for file in built.files(*package_trees.GUEST):
        shutil.copy(file, work)
    # In a mount namespace: mmdebstrap leaves /dev/pts of the tree mounted if its umount fails because it is busy.
    apart = user_namespace.as_owner() or ["unshare", "--mount", "--"]
    ui.run("making a disk image as the user guide says", [*apart, "sh", "-ec", f"cd {work}\n{_commands()}"], "packages")
    user_namespace.remove(work / "tree")
    return work / "disk.img"
