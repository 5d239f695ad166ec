# SPDX-License-Identifier: GPL-2.0-or-later
"""An Arm kernel with 64 KiB pages and the options that the unit tests need; compiled here, as Debian has none."""

import pathlib
import shutil

from lab.arm import tree
from lab.base import paths, ui
from lab.build import builder, cache, debug_kernel

FRAGMENT = pathlib.Path(__file__).with_name("arm-64k.config")
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
IMAGE = "arch/arm64/boot/Image"
MAKE = f"make -C linux ARCH=arm64 CROSS_COMPILE={tree.TRIPLET}-"


def _make(tools: builder.Builder, made: pathlib.Path) -> None:
    source = tools.work / "linux"
    shutil.rmtree(source, ignore_errors=True)
    tools.sh("unpacking the kernel's source",
             "mkdir linux; tar -C linux --strip-components=1 -xf /usr/src/linux-source-*.tar.xz", tree.LOG)
    shutil.copy(FRAGMENT, source / "lab.config")
    tools.sh("configuring a kernel with pages of 64 KiB", f"{MAKE} KCONFIG_ALLCONFIG=lab.config allnoconfig", tree.LOG)
    lost = debug_kernel.missing(FRAGMENT.read_text(), (source / ".config").read_text())
    if lost:
        raise ui.LabError(f"the kernel's configuration ignores {', '.join(lost)}. Add the options that they depend on "
                          f"to {FRAGMENT.name}")
    tools.sh("compiling a kernel with pages of 64 KiB (some minutes)", f"{MAKE} -j$(nproc) Image", tree.LOG)
    shutil.copy(source / IMAGE, made / "Image")
    shutil.rmtree(source)


def ensure(tools: builder.Builder) -> pathlib.Path:
    """The kernel's image, which is built if it is missing."""
    recipe = paths.recipe_hash(REVISION, FRAGMENT.read_bytes(), tools.tree.parent.name)
    return cache.entry(f"arm-64k-{recipe}", lambda made: _make(tools, made)) / "Image"
