# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of this checkout that are sources."""

import pathlib

from lab.base import paths
from lab.build import builder, debian

NO_SOURCES = (".git", ".lab", ".cache")
BUILDS = "build"                # prefix of build directories


def files() -> list[pathlib.Path]:
    """Names of the files that git tracks or would add; without git, as in an unpacked archive, of all files except
    products."""
    listed = debian.output("git", "-C", str(paths.ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = [pathlib.Path(name) for name in listed.split("\0") if name] or _without_git()
    return sorted(name for name in names if (paths.ROOT / name).is_file())


def _without_git() -> list[pathlib.Path]:
    """All files except products and those in build directories, which come and go."""
    tops = [top for top in paths.ROOT.iterdir() if top.name not in NO_SOURCES and not top.name.startswith(BUILDS)]
    found = [path for top in tops for path in (top.rglob("*") if top.is_dir() else [top])]
    return [path.relative_to(paths.ROOT) for path in found
            if not builder.is_product(path) and "__pycache__" not in path.parts]
