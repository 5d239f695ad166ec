# SPDX-License-Identifier: GPL-2.0-or-later
"""The QEMU of another Debian release than this machine's, unpacked in the cache, and its headers, for tests.

bin/qemu-system-x86_64 runs it with the libraries of its release, so tests put bin first in PATH."""

import dataclasses
import pathlib
import tempfile

from lab.base import paths, ui
from lab.build import cache, debian, image, qemu_headers, user_namespace

PACKAGES = (qemu_headers.PACKAGE, "libstdc++6")     # the device needs libstdc++6
FROM_BACKPORTS = "qemu-* seabios ipxe-qemu"
LOG = "qemu-release"
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
MULTIARCH = "usr/lib/x86_64-linux-gnu"
WRAPPER = f"""#!/bin/sh
# Relative, as the directory is renamed when it is complete.
root="${{0%/*}}/../root"
export QEMU_MODULE_DIR="$root/{MULTIARCH}/qemu"
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/{MULTIARCH}" "$root/usr/bin/${{0##*/}}" \\
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
"""


@dataclasses.dataclass(frozen=True)
class Release:
    """An unpacked QEMU. release: Debian's. version: that of the package. bin: the folder to put first in PATH."""
    release: str
    version: str
    bin: pathlib.Path
    headers: pathlib.Path


def _make(out: pathlib.Path, release: str) -> None:
    archive = debian.Archive(out / "apt", debian.release_suites(release), ("deb",))
    archive.update(LOG)
    image.bootstrap(f"unpacking the QEMU of {release}", list(PACKAGES), out / "root",
                    ["--variant=extract", *image.pin(FROM_BACKPORTS, release)], debian.base_release(release), archive,
                    LOG)
    wrapper = out / "bin" / "qemu-system-x86_64"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    user_namespace.remove(archive.directory)


def newest(release: str) -> str:
    """Version of the newest QEMU package of a release; "" if there is none."""
    with tempfile.TemporaryDirectory(prefix="pib-qemu.") as name:
        archive = debian.Archive(pathlib.Path(name), debian.release_suites(release), ("deb",))
        archive.update(LOG)
        return archive.newest(qemu_headers.PACKAGE)


def ensure(release: str) -> Release:
    version = newest(release)
    if not version:
        raise ui.LabError(f"the mirror has no {qemu_headers.PACKAGE} of {release}. Take another mirror in "
                          "/etc/apt/sources.list.d")
    recipe = paths.recipe_hash(REVISION, version, WRAPPER, *PACKAGES)
    headers = qemu_headers.ensure(version, debian.release_suites(release))
    made = cache.entry(f"qemu-{release}-{recipe}", lambda out: _make(out, release))
    return Release(release, version, made / "bin", headers)
