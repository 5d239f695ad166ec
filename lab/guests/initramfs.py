# SPDX-License-Identifier: GPL-2.0-or-later
"""The initramfs of a guest: it mounts the root disk, and its init copies files over the image (start-up files, key,
driver, provider). So a changed driver needs no new image."""

import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

from lab.base import paths
from lab.build import image
from lab.guests import key

FILES = pathlib.Path(__file__).parent / "files"
INIT = FILES / "initramfs-init"
ROOTFS = FILES / "rootfs"
# ext4 requests crc32c by a name that modules.dep does not list.
ROOT_DISK_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")


def module_order(modules: pathlib.Path, wanted: tuple[str, ...]) -> list[str]:
    """Paths of modules and their dependencies in loading order, from modules.dep."""
    depends = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        module, needs = line.split(":", 1)
        depends[module] = needs.split()
    names = {pathlib.Path(module).stem.replace("-", "_"): module for module in depends}
    order: list[str] = []
    for name in wanted:
        if name not in names:
            continue                # built into the kernel
        # modules.dep lists the nearest dependency first, so load from the end.
        for module in [*reversed(depends[names[name]]), names[name]]:
            if module not in order:
                order.append(module)
    return order


def cpio(tree: pathlib.Path, archive: pathlib.Path) -> None:
    """Packs a directory into an initramfs whose files belong to root."""
    listing = subprocess.run(["find", ".", "-print0"], cwd=tree, check=True,
                             capture_output=True).stdout
    with open(archive, "wb") as out:
        subprocess.run(["cpio", "--null", "--create", "--format=newc", "--quiet",
                        "--owner=0:0"], cwd=tree, input=listing, stdout=out, check=True)


def open_to_all(tree: pathlib.Path) -> None:
    """Sets the modes of a guest's files, independent of the modes in the checkout."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _install_key(tree: pathlib.Path, pair: pathlib.Path) -> None:
    """Installs the lab's key pair, which ssh uses from the host to guests and between guests."""
    directory = tree / "root" / ".ssh"
    directory.mkdir(parents=True)
    for source, name in ((key.public(pair), "authorized_keys"), (pair, "id_ed25519")):
        shutil.copy(source, directory / name)
        (directory / name).chmod(0o600)
    directory.chmod(0o700)
    directory.parent.chmod(0o700)


def add_boot_files(tree: pathlib.Path, base: pathlib.Path, init: pathlib.Path,
                   wanted: tuple[str, ...]) -> None:
    """Adds init and, from the image at `base`, its shell and kernel modules. The file modules/order has their loading
    order."""
    modules = base / "modules" / "lib" / "modules" / image.kernel_version(base)
    (tree / "bin").mkdir()
    (tree / "modules").mkdir()
    shutil.copy(base / "busybox", tree / "bin" / "busybox")
    shutil.copy(init, tree / "init")
    (tree / "init").chmod(0o755)
    order = module_order(modules, wanted)
    for module in order:
        shutil.copy(modules / module, tree / "modules")
    (tree / "modules" / "order").write_text(
        "".join(f"{pathlib.Path(module).name}\n" for module in order))


def make(base: pathlib.Path, initramfs: pathlib.Path, artefacts: Sequence[pathlib.Path] = (),
         pair: pathlib.Path | None = None) -> pathlib.Path:
    """Makes the initramfs. base: the image's directory; artefacts: trees with the layout of a guest's root; pair: the
    private key of the lab's ssh key pair."""
    with tempfile.TemporaryDirectory(dir=initramfs.parent) as name:
        tree = pathlib.Path(name)
        add_boot_files(tree, base, INIT, ROOT_DISK_MODULES)
        for part in [ROOTFS, *artefacts]:
            shutil.copytree(part, tree / "overlay", symlinks=True, dirs_exist_ok=True)
        open_to_all(tree)
        if pair:
            _install_key(tree / "overlay", pair)
        cpio(tree, initramfs)
    return initramfs


def stamp(artefacts: list[pathlib.Path]) -> str:
    """A hash of all files that a guest receives."""
    return paths.recipe_hash(INIT.read_bytes(), *ROOT_DISK_MODULES, *contents(ROOTFS, *artefacts))


def contents(*roots: pathlib.Path) -> Iterator[str | bytes]:
    """Name and content of each regular file below these directories."""
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(root))
                yield path.read_bytes()
