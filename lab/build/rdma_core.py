# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's source, of the version that a build tree has the libraries of, in the cache."""

import pathlib
import re
import tempfile

from lab import paths, ui
from lab.build import cache, debian

LOG = "guest-provider"
PACKAGE = "rdma-core"


def version(tree: pathlib.Path) -> str:
    status = (tree / "var" / "lib" / "dpkg" / "status").read_text()
    entry = re.search(r"^Package: libibverbs-dev\n(?:.+\n)*?Version: (.+)$", status, re.MULTILINE)
    if not entry:
        raise ui.LabError(f"{tree} has no libibverbs-dev")
    return entry.group(1)


def _directory(wanted: str) -> pathlib.Path:
    return paths.cache() / f"{PACKAGE}-{wanted}"


def ensure(tree: pathlib.Path, lists: debian.Archive) -> pathlib.Path:
    """Fetched by the lists that the tree was made from: later the archive may have another version alone."""
    wanted = version(tree)
    return cache.entry(_directory(wanted).name, lambda out: _make(out, wanted, lists))


def source(tree: pathlib.Path) -> pathlib.Path:
    found = _directory(version(tree))
    if not found.is_dir():
        raise ui.LabError(f"{found} is gone, and the archive may have moved on. Have the image made anew: remove "
                          f"{tree.parent} and run the same command again")
    return found


def _make(out: pathlib.Path, wanted: str, lists: debian.Archive) -> None:
    with tempfile.TemporaryDirectory(dir=out, prefix="archive.") as name:
        try:
            lists.download(PACKAGE, wanted, LOG, tarball_only=True, to=pathlib.Path(name))
        except ui.LabError as error:    # some mirrors carry an old release's packages alone
            raise ui.LabError(f"{error}\nIf the mirror does not have it, unpack the source of that release from "
                              f"elsewhere as {_directory(wanted)}") from error
        ui.run("unpacking rdma-core's source",
               ["tar", "-xf", next(pathlib.Path(name).glob(f"{PACKAGE}_*.orig.tar.*")), "-C", out,
                "--strip-components=1"], LOG)
