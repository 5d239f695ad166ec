# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of the tree that are ours, without what builds and tools leave behind."""

import os
import pathlib
import subprocess

# Texts that are not ours to change.
FOREIGN = ("LICENSES",)
# Changed files are those since this commit.
BASE = os.environ.get("PIB_STYLE_BASE", "origin/main")


def files(root: pathlib.Path) -> list[pathlib.Path]:
    """All files that git does not ignore; without git or a clone, all files except well-known products."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        found = [root / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in root.rglob("*") if not _is_product(path.relative_to(root))]
    return sorted(path for path in found if path.is_file() and not path.is_symlink()
                  and path.relative_to(root).parts[0] not in FOREIGN)


def _is_product(path: pathlib.Path) -> bool:
    top = path.parts[0]
    return (top.startswith("build") or top in (".git", ".lab", ".cache")
            or "__pycache__" in path.parts)


def is_code(path: pathlib.Path) -> bool:
    return path.suffix in (".c", ".cc", ".h", ".py", ".sh")


def changed(root: pathlib.Path) -> set[str]:
    """C++ files that differ from BASE, or from the commit before if there is no BASE."""
    for base in (BASE, "HEAD~1"):
        done = subprocess.run(["git", "-C", root, "diff", "--name-only", "--diff-filter=d", base], capture_output=True,
                              text=True, check=False)
        if not done.returncode:
            return {name for name in done.stdout.split() if name.endswith(".cc")}
    return set()
