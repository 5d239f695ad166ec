# SPDX-License-Identifier: GPL-2.0-or-later
"""The source of rdma-core in the version whose libraries a build tree has; kept in the cache.

    python3 -I -B lab/start.py lab.build.rdma_core DIR

writes to DIR the source for this machine's libraries, with the provider added. PIB_RDMA_CORE names a directory that is
used instead of the archive's source."""

import os
import pathlib
import re
import shutil
import sys
import tempfile

from lab.base import paths, ui
from lab.build import cache, debian

LOG = "guest-provider"
PACKAGE = "rdma-core"
VARIABLE = "PIB_RDMA_CORE"
PROVIDER = paths.ROOT / "guest-provider"
HERE = pathlib.Path("/")        # this machine, used as a tree
NEIGHBOUR = "add_subdirectory(providers/rxe)\n"


def version(tree: pathlib.Path) -> str:
    # A binary rebuild (suffix +bN) has the same source.
    return re.sub(r"\+b\d+$", "", debian.package_version(tree, "libibverbs-dev"))


def _directory(wanted: str) -> pathlib.Path:
    return paths.cache() / f"{PACKAGE}-{wanted}"


def ensure(tree: pathlib.Path, lists: debian.Archive) -> pathlib.Path:
    """The source's directory in the cache; the source is fetched if it is missing. lists: the package lists from which
    the tree was made, because the archive may later offer only another version."""
    wanted = version(tree)
    return cache.entry(_directory(wanted).name, lambda out: _make(out, wanted, lists))


def present(tree: pathlib.Path) -> bool:
    return _directory(version(tree)).is_dir()


def source(tree: pathlib.Path) -> pathlib.Path:
    found = _directory(version(tree))
    if not found.is_dir():
        owner = tree.resolve().parent       # an image with the user's own kernel has a link to another image's tree
        raise ui.LabError(f"{found} is gone, and the archive may have moved on. Have the image made anew:  "
                          f"./pib clean {owner.name}   and run the same command again")
    return found


def note_use(tree: pathlib.Path) -> None:
    """Marks the source that belongs to a tree as used now."""
    if present(tree):
        cache.note_use(_directory(version(tree)))


def _make(out: pathlib.Path, wanted: str, lists: debian.Archive) -> None:
    with tempfile.TemporaryDirectory(dir=out, prefix="archive.") as name:
        try:
            lists.download(PACKAGE, wanted, LOG, tarball_only=True, to=pathlib.Path(name))
        except ui.LabError as error:    # for an old release some mirrors have binary packages but no sources
            raise ui.LabError(f"{error}\nIf the mirror does not have it, unpack the source of that release from "
                              f"elsewhere as {_directory(wanted)}") from error
        ui.run("unpacking rdma-core's source",
               ["tar", "-xf", next(pathlib.Path(name).glob(f"{PACKAGE}_*.orig.tar.*")), "-C", out,
                "--strip-components=1"], LOG)


def add_provider(tree: pathlib.Path, where: str | pathlib.Path) -> None:
    """Links the provider's folder into an rdma-core source and adds it to its build."""
    (tree / "providers" / "pib").symlink_to(where)
    lists = tree / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace(NEIGHBOUR, f"{NEIGHBOUR}add_subdirectory(providers/pib)\n", 1))


def _of_this_machine() -> pathlib.Path:
    if given := os.environ.get(VARIABLE):
        return pathlib.Path(given)
    if (found := _directory(version(HERE))).is_dir():
        return found
    with tempfile.TemporaryDirectory() as name:
        lists = debian.Archive(pathlib.Path(name), debian.sources())
        lists.update(LOG)
        return ensure(HERE, lists)


def main() -> int:
    try:
        tree = pathlib.Path(sys.argv[1])
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(_of_this_machine(), tree, symlinks=True)
        add_provider(tree, PROVIDER)
    except ui.LabError as error:
        print(f"pib: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
