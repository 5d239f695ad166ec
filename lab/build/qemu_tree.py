# SPDX-License-Identifier: GPL-2.0-or-later
"""A QEMU with the device in its own tree: Debian's source with the patches of packaging/qemu, compiled."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator

from lab.base import paths, ui
from lab.build import cache, debian, qemu_headers

LOG = "qemu-tree"
SERIES = paths.ROOT / "packaging" / "qemu" / "series.py"
# The smallest QEMU that tests/qemu can use.
DEVICES = ("I440FX", "IVSHMEM_DEVICE", "PCIE_PORT", "PIB_HCA", "Q35", "VTD")
CONFIGURE = ("--target-list=x86_64-softmmu", "--without-default-features", "--without-default-devices",
             "--with-devices-x86_64=pib-hca", "--enable-gnutls", "--enable-kvm", "--enable-tcg", "--disable-debug-info",
             "--firmwarepath=/usr/share/qemu:/usr/share/seabios",   # Debian's source has no firmware
             "--disable-docs", "--disable-tools", "--disable-guest-agent", "--disable-download",
             "--disable-install-blobs")
EMULATOR = "qemu-system-x86_64"
CCACHE = "/usr/lib/ccache"


def patch(source: pathlib.Path, work: pathlib.Path) -> None:
    """Writes the patch series and applies it to the source."""
    ui.run("writing the patches for QEMU", [sys.executable, "-B", SERIES, work / "series"], LOG)
    for file in sorted((work / "series").glob("*.patch")):
        # Without GIT_CEILING_DIRECTORIES git would use a repository that contains the cache.
        ui.run(f"applying {file.name}", ["git", "apply", "--whitespace=nowarn", file], LOG, cwd=source,
               env={**os.environ, "GIT_CEILING_DIRECTORIES": str(work)})


def _compile(source: pathlib.Path, build: pathlib.Path) -> None:
    devices = source / "configs" / "devices" / "x86_64-softmmu" / "pib-hca.mak"
    devices.write_text("".join(f"CONFIG_{name}=y\n" for name in DEVICES))
    qemu_headers.complete(source)
    build.mkdir()
    env = {**os.environ, "PATH": f"{CCACHE}:{os.environ['PATH']}"}
    ui.run("configuring QEMU with the device", [source / "configure", "--python=/usr/bin/python3", *CONFIGURE], LOG,
           cwd=build, env=env)
    ui.run("compiling QEMU with the device (some minutes)", ["ninja", EMULATOR], LOG, cwd=build, env=env)
    # A QEMU that runs in its build directory looks for all its files, also those of --firmwarepath, in qemu-bundle.
    (build / "qemu-bundle" / "usr" / "share").symlink_to("/usr/share")


@contextlib.contextmanager
def compiled(version: str, suites: list[debian.Suite]) -> Iterator[pathlib.Path]:
    """Compiles QEMU; yields the folder with its program, to be put into PATH, and removes the folder at the end of the
    block. version: that of Debian's package."""
    with cache.scratch("qemu-tree") as work:
        archive = debian.Archive(work, suites)
        archive.update(LOG)
        source = qemu_headers.fetch(work, version, archive)
        patch(source, work)
        _compile(source, work / "build")
        yield work / "build"
