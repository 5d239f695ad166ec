# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel tree of the user's own, as  make bzImage modules  leaves it: guests boot its kernel, and the driver is
compiled against it by the compiler of this machine, which has built the tree. The tree is only read."""

import pathlib
import re
import shutil

from lab.base import paths, ui
from lab.build import builder

MARK = "kernel-dir"             # file in an image's directory: the tree that its kernel is from
RELEASE = "include/config/kernel.release"
BZIMAGE = "arch/x86/boot/bzImage"
ORDER = "modules.order"
NEEDED = (RELEASE, BZIMAGE, ORDER, "Makefile", ".config", "Module.symvers")
# Options that a guest needs to boot and to have InfiniBand.
BUILT_IN = ("BINFMT_SCRIPT", "BLK_DEV_INITRD", "DEVTMPFS", "SERIAL_8250_CONSOLE", "TMPFS", "UNIX")
AVAILABLE = ("EXT4_FS", "INFINIBAND", "INFINIBAND_USER_ACCESS", "INFINIBAND_USER_MAD", "VIRTIO_BLK", "VIRTIO_NET",
             "VIRTIO_PCI")
DEBUG_INFO = "CONFIG_DEBUG_INFO=y"
ONLY_SIGNED = "CONFIG_MODULE_SIG_FORCE=y"
OPTION = re.compile(r"^CONFIG_(\w+)=([ym])$", re.MULTILINE)
MODULE = re.compile(r"^(?:kernel/)?(\S+)\.k?o$", re.MULTILINE)
VERSION = re.compile(r"[\w.+~-]+")


def check(tree: pathlib.Path) -> pathlib.Path:
    """Returns the directory. Raises LabError if the tree lacks something that guests need, or if this machine cannot
    compile modules against it."""
    if not shutil.which("make"):
        raise ui.LabError("there is no make, with which drivers are compiled for a kernel of your own. Install it:  "
                          "sudo apt-get install make")
    if absent := [name for name in NEEDED if not (tree / name).is_file()]:
        raise ui.LabError(f"{tree} has no {absent[0]}: it is not a kernel tree that has been built. Name the directory "
                          "of the build, and have it built:  make -j$(nproc) bzImage modules")
    config = (tree / ".config").read_text()
    if ONLY_SIGNED in config.splitlines():
        raise ui.LabError(f"{tree}/.config has {ONLY_SIGNED}, and the driver is not signed. Build the kernel without:  "
                          "scripts/config --disable MODULE_SIG_FORCE && make bzImage modules")
    if lost := missing(config):
        raise ui.LabError(f"{tree}/.config lacks {', '.join(f'CONFIG_{name}' for name in lost)}, which guests need. "
                          "Enable that and build again:  scripts/config "
                          f"{' '.join(f'--enable {name}' for name in lost)} && make olddefconfig bzImage modules")
    if not VERSION.fullmatch(release(tree)):
        raise ui.LabError(f"{tree}/{RELEASE} has no version of a kernel. Build the tree again:  make bzImage modules")
    return tree


def missing(config: str) -> list[str]:
    """Options that guests need and .config does not enable. BUILT_IN ones must be built in; others may be modules."""
    found = dict(OPTION.findall(config))
    return [name for name in BUILT_IN if found.get(name) != "y"] + [name for name in AVAILABLE if name not in found]


def release(tree: pathlib.Path) -> str:
    return (tree / RELEASE).read_text().strip()


def modules(tree: pathlib.Path) -> list[str]:
    """Paths of the built modules in the tree."""
    return [f"{stem}.ko" for stem in MODULE.findall((tree / ORDER).read_text())]


def fingerprint(tree: pathlib.Path) -> str:
    """A value that changes with each build of the kernel or of one of its modules."""
    built = [BZIMAGE, *modules(tree)]
    if gone := [name for name in built if not (tree / name).is_file()]:
        raise ui.LabError(f"{tree} has no {gone[0]}, which {ORDER} lists. Build the tree again:  make bzImage modules")
    stats = [(tree / name).stat() for name in built]
    return paths.recipe_hash(*(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in zip(built, stats)),
                             *((tree / name).read_bytes() for name in NEEDED if name != BZIMAGE))


def of_image(image: pathlib.Path) -> pathlib.Path | None:
    """The user's tree with the image's kernel; None: the kernel is Debian's or the lab's."""
    mark = image / MARK
    return pathlib.Path(mark.read_text()) if mark.exists() else None


class HostBuilder(builder.Builder):
    """Compiles modules on this machine, without a chroot, in the checkout's working directory."""

    def __init__(self, image: pathlib.Path, tree: pathlib.Path):
        super().__init__(image)
        self.inside = str(self.work)
        self._tree = tree
        if DEBUG_INFO not in (tree / ".config").read_text().splitlines():
            self.flags = 'KCFLAGS="${KCFLAGS-} -g"'     # so that reports of faults have lines of source

    def headers(self, kernel: str) -> str:
        if release(self._tree) != kernel:
            raise ui.LabError(f"{self._tree} has Linux {release(self._tree)} now, and the guests run {kernel}. Boot "
                              f"guests with the new one:  ./pib up --kernel-dir {self._tree}")
        return str(self._tree)

    def sh(self, title: str, script: str, log: str) -> None:
        ui.run(title, ["sh", "-ec", script], log, cwd=self.work)


def tools(image: pathlib.Path) -> builder.Builder:
    """The Builder that compiles modules for an image's kernel."""
    tree = of_image(image)
    return HostBuilder(image, tree) if tree else builder.Builder(image)
