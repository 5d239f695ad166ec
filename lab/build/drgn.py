# SPDX-License-Identifier: GPL-2.0-or-later
"""Unpacks drgn, which reads dumps of kernels, in the cache, with Python and libraries of one Debian release: Debian
12's drgn cannot read kernels of Debian 13."""

import pathlib

from lab.base import paths
from lab.build import cache, debian, image, user_namespace

RELEASE = image.RELEASES[0]
PACKAGES = ("python3-drgn",)
LOG = "drgn"
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
MULTIARCH = "usr/lib/x86_64-linux-gnu"
WRAPPER = f"""#!/bin/sh
# Relative, as the directory is renamed when it is complete.
root="${{0%/*}}/root"
unset PYTHONPATH DEBUGINFOD_URLS
export PYTHONHOME="$root/usr" PYTHONDONTWRITEBYTECODE=1
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/{MULTIARCH}" "$root/usr/bin/python3" "$@"
"""


def _make(out: pathlib.Path) -> None:
    archive = debian.Archive(out / "apt", debian.release_suites(RELEASE), ("deb",))
    archive.update(LOG)
    image.bootstrap(f"unpacking drgn of {RELEASE} (16 MB to fetch, 73 MB kept)", list(PACKAGES), out / "root",
                    ["--variant=extract"], RELEASE, archive, LOG)
    wrapper = out / "python3"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    user_namespace.remove(archive.directory)


def ensure() -> pathlib.Path:
    """The path of a Python interpreter that can import drgn."""
    return cache.entry(f"drgn-{RELEASE}-{paths.recipe_hash(REVISION, RELEASE, WRAPPER, *PACKAGES)}", _make) / "python3"
