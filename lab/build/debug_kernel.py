# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest kernels with checks.

lockdep: locking, sleeping in atomic context, DMA API; kasan: each access to memory, undefined behaviour, leaks,
locking, and allocations that fail where a test wants it. Debian's kernels are built without these checks, so these are
compiled from Debian's linux-source. The result is an image directory as in image.py, with the same root disk but
another kernel and build tree, in the cache under its own recipe. Everything is built in, so a guest loads no module
except the driver."""

import pathlib
import re
import shutil

from lab.base import paths, ui
from lab.build import builder, cache, image, rdma_core, user_namespace

KINDS = ("lockdep", "kasan")
LOG = "guest-kernel"
NEW_GIB = 8.0                   # free space for compiling a kernel, beside the image
REVISION = "3"                  # part of the cache key: increase it with each change of the code below
SOURCE = "/usr/src/linux"       # within the build tree


def wanted_config(kind: str) -> str:
    """The options that the kernel must have. kind: one of KINDS."""
    return "".join((image.FILES / name).read_text() for name in ("checked-kernel.config", f"{kind}.config"))


def has_iommu(kind: str) -> bool:
    """Whether the kernel has a driver for an IOMMU."""
    return "CONFIG_INTEL_IOMMU=y" in wanted_config(kind).splitlines()


def most_cpus(kind: str) -> int:
    """The number of processors that the kernel uses."""
    return int(re.findall(r"^CONFIG_NR_CPUS=(\d+)$", wanted_config(kind), re.MULTILINE)[-1])


def directory(base: pathlib.Path, kind: str) -> pathlib.Path:
    recipe = paths.recipe_hash(REVISION, image.identity(base), wanted_config(kind),
                               *image.packages("kernel-packages.txt"))
    return paths.cache() / f"guest-{image.release()}-{kind}-{recipe}"


def missing(wanted: str, config: str) -> list[str]:
    """Lines of a configuration fragment that a kernel's .config lacks: make drops an option with an unmet dependency
    silently."""
    present = set(config.splitlines())
    return [line for line in wanted.splitlines()
            if line.startswith("CONFIG_") and line not in present]


def _configure(tools: builder.Builder, kind: str) -> None:
    tree = tools.tree / SOURCE.lstrip("/")
    guest = (tree / "kernel" / "configs" / "kvm_guest.config").read_text()
    (tree / "lab.config").write_text(guest + wanted_config(kind))
    tools.sh("configuring the kernel",
             f"make -C {SOURCE} KCONFIG_ALLCONFIG=lab.config allnoconfig", LOG)
    lost = missing(wanted_config(kind), (tree / ".config").read_text())
    if lost:
        raise ui.LabError(f"the configuration of the {kind} kernel ignores {', '.join(lost)}. Add the options that "
                          "they depend on")


def _compile(tools: builder.Builder) -> str:
    """Compiles the kernel below SOURCE and keeps the tree for modules there; returns the kernel's version."""
    tools.sh("compiling the kernel (some ten minutes)",
             f"make -C {SOURCE} -j$(nproc) bzImage modules", LOG)
    tools.sh("installing its modules",
             f"make -C {SOURCE} INSTALL_MOD_PATH={SOURCE}/lab modules_install", LOG)
    # Builds of modules, and debuggers, need only the files that stay.
    tools.sh("tidying the kernel's tree",
             f"find {SOURCE} -name '*.o' ! -path '*/scripts/*' ! -path '*/tools/*' -delete; "
             f"rm -f {SOURCE}/vmlinux.* {SOURCE}/.tmp_vmlinux* /usr/src/linux-source-*", LOG)
    release = tools.tree / SOURCE.lstrip("/") / "include" / "config" / "kernel.release"
    return release.read_text().strip()


def _make(base: pathlib.Path, kind: str, made: pathlib.Path) -> None:
    wanted = [*image.packages("builder-packages.txt"), *image.packages("kernel-packages.txt")]
    lists = image.package_lists(made)
    image.bootstrap_builder(made / "builder", wanted, lists)
    rdma_core.ensure(made / "builder", lists)
    user_namespace.remove(lists.directory)
    tools = builder.Builder(made)
    tools.sh("unpacking the kernel's source",
             f"mkdir {SOURCE}; tar -C {SOURCE} --strip-components=1 -xf "
             "/usr/src/linux-source-*.tar.xz", LOG)
    _configure(tools, kind)
    version = _compile(tools)
    tree = tools.tree / SOURCE.lstrip("/")
    (tree.parent / f"linux-headers-{version}").symlink_to(tree.name)
    (made / "kernel-version").write_text(version + "\n")
    shutil.copy(tree / "arch" / "x86" / "boot" / "bzImage", made / "vmlinuz")
    (made / "modules").mkdir()
    (tree / "lab" / "lib").rename(made / "modules" / "lib")
    image.share_disk(base, made)
    image.keep_status(base, made)
    image.write_identity(made, image.identity(base))


def check(kind: str) -> None:
    """Raises LabError if the kernel cannot be made for the chosen release. kind: one of KINDS."""
    if (release := image.release()) != image.RELEASES[0]:
        raise ui.LabError(f"the {kind} kernel is made for guests of {image.RELEASES[0]} only, and these are of "
                          f"{release}. Choose --guest {image.RELEASES[0]} ({image.VARIABLE}={image.RELEASES[0]}) or "
                          "--kernel debian (PIB_KERNEL=debian)")


def ensure(kind: str) -> pathlib.Path:
    """The image's directory in the cache; it is made if it is missing. kind: one of KINDS."""
    check(kind)
    base = image.ensure()
    return cache.entry(directory(base, kind).name, lambda made: _make(base, kind, made))
