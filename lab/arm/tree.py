# SPDX-License-Identifier: GPL-2.0-or-later
"""The cross-compilation tree: Debian with packages of two architectures, and the headers of QEMU on an Arm host."""

import contextlib
import pathlib
import re

from lab.base import paths, ui
from lab.build import builder, cache, debian, image, qemu_headers, rdma_core, user_namespace

RELEASE = "trixie"
ARCHITECTURES = ("amd64", "arm64")
TRIPLET = "aarch64-linux-gnu"
LOG = "arm"
PACKAGES = pathlib.Path(__file__).with_name("arm-packages.txt")
NEW_GIB = 8.0                   # free space for making the tree, and for what is compiled in it
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
HEADERS = "/qemu-headers"       # in the tree, with the layout of qemu_headers.py
CONFIGURE = (f"--cross-prefix={TRIPLET}-", *qemu_headers.options("aarch64"))
# Packages of a kernel that are unpacked, not installed, because they depend on a compiler that runs on Arm.
KERNEL = ("linux-headers-{}-common", "linux-headers-{}-arm64:arm64", "linux-headers-{}-arm64-16k:arm64",
          "linux-image-{}-arm64-16k:arm64")
NEWEST = re.compile(r"^Depends: .*linux-headers-(\d\S*)-arm64\b", re.MULTILINE)


def _kernel(archive: debian.Archive) -> str:
    """Version of the release's newest kernel."""
    shown = debian.output("apt-cache", "show", "--no-all-versions", "linux-headers-arm64:arm64", env=archive.env)
    found = NEWEST.search(shown)
    if not found:
        raise ui.LabError(f"the mirror has no linux-headers-arm64 of {RELEASE}. Take a mirror that has arm64")
    return found[1]


def _unpack_kernel(root: pathlib.Path, kernel: str, archive: debian.Archive) -> None:
    names = [name.format(kernel) for name in KERNEL]
    ui.run(f"downloading kernel {kernel} for Arm", ["apt-get", "download", *names], LOG, cwd=archive.directory,
           env=archive.env)
    for package in archive.directory.glob("*.deb"):
        ui.run(f"unpacking {package.name}", ["dpkg-deb", "-x", package, root], LOG)


def _headers(tools: builder.Builder, archive: debian.Archive) -> None:
    """The headers of the tree's QEMU, configured for an Arm host."""
    version = debian.package_version(tools.tree, "qemu-system-arm")
    source = qemu_headers.fetch(tools.work, version, archive)
    qemu_headers.complete(source)
    build = tools.work / "qemu-build"
    build.mkdir()
    tools.sh("configuring QEMU for its headers on Arm",
             f"cd qemu-build; ../{source.name}/configure --python=/usr/bin/python3 {' '.join(CONFIGURE)}; "
             "ninja -t targets all > targets", LOG)
    wanted = qemu_headers.generated((build / "targets").read_text())
    tools.sh(f"generating {len(wanted)} headers", f"cd qemu-build; ninja {' '.join(wanted)}", LOG)
    qemu_headers.collect(source, build, tools.tree / HEADERS.lstrip("/"))
    user_namespace.remove(tools.work)


def _make(out: pathlib.Path) -> None:
    archive = debian.Archive(out / "apt", debian.release_suites(RELEASE), ("deb", "deb-src"), ARCHITECTURES)
    archive.update(LOG)
    kernel, packages = _kernel(archive), image.listed(PACKAGES)
    image.bootstrap("making the tree of cross compilers", [*packages, f"linux-kbuild-{kernel}"], out / "builder",
                    [f"--architectures={','.join(ARCHITECTURES)}", *image.builder_options(RELEASE)],
                    RELEASE, archive, LOG)
    with contextlib.suppress(ui.LabError):  # compiling the provider reports it
        rdma_core.ensure(out / "builder", archive)
    _unpack_kernel(out / "builder", kernel, archive)
    _headers(builder.Builder(out), archive)
    user_namespace.remove(archive.directory)


def _directory() -> pathlib.Path:
    recipe = paths.recipe_hash(REVISION, RELEASE, *image.listed(PACKAGES), *KERNEL, *CONFIGURE)
    return paths.cache() / f"arm-{RELEASE}-{recipe}"


def missing() -> dict[str, float]:
    """Free space in GiB for the tree, by name, if it is missing."""
    return {} if _directory().is_dir() else {_directory().name: NEW_GIB}


def ensure() -> pathlib.Path:
    """The tree's directory in the cache; it is created if it is missing."""
    return cache.entry(_directory().name, _make)
