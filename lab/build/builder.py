# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the guest's compiler on the host, in the tree that image.py makes.

Sources are copied in and results copied out, not mounted, so a plain chroot is enough. Each checkout has its own
working directory in the tree. In a container the tree contains no system, because a container may not make device
nodes; the container's own compiler is used instead."""

import os
import pathlib
import shutil

from lab.base import lock, paths, ui
from lab.build import user_namespace

# The objtool of newer kernels reads /proc/self/maps and fails without it. Where root of a container may not mount
# /proc, a copy of that file suffices: objtool reads from it only where the stack ends, for messages about its own
# crashes.
AS_ROOT = ('if unshare --mount mount --rbind /proc "$1/proc" 2>/dev/null; then '
           'exec unshare --mount sh -ec \'mount --rbind /proc "$1/proc"; '
           'exec chroot "$1" /bin/sh -ec "$2"\' sh "$1" "$2"; fi; '
           'mkdir -p "$1/proc/self"; maps=$(mktemp -p "$1/proc/self"); cat /proc/self/maps >"$maps"; '
           'mv -f "$maps" "$1/proc/self/maps"; '
           'exec chroot "$1" /bin/sh -ec "$2"')
# Users other than root, and root that cannot make devices, enter a user namespace with the host's devices.
UNPRIVILEGED = ('mount --rbind /dev "$1/dev"; mount --rbind /proc "$1/proc"; '
                'exec chroot "$1" /bin/sh -ec "$2"')


HERE = "here"                   # file in a tree without a system: this machine has the tree's packages


def place(image: pathlib.Path) -> pathlib.Path:
    """This checkout's working directory in the build tree of an image."""
    return image / "builder" / "work" / paths.recipe_hash(str(paths.ROOT))


class Builder:
    flags = ""                  # arguments of make for modules

    def __init__(self, image: pathlib.Path):
        self.tree = image / "builder"
        self.work = place(image)
        self.inside = f"/{self.work.relative_to(self.tree)}"
        self._here = (self.tree / HERE).exists()
        if self._here:
            self.inside = str(self.work)
        self.work.mkdir(parents=True, exist_ok=True)

    def locked(self):
        """Lock for one build at a time in a checkout."""
        return lock.held(self.work / ".lock")

    def headers(self, kernel: str) -> str:
        """The kernel's build directory, as a path in the chroot, against which modules are compiled."""
        return f"/usr/src/linux-headers-{kernel}"

    def sh(self, title: str, script: str, log: str) -> None:
        """Runs a script in the checkout's working directory of the build tree."""
        script = ("export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C.UTF-8; "
                  f"cd {self.inside}; {script}")
        argv = ["sh", "-ec", AS_ROOT, "sh", str(self.tree), script]
        if self._here:
            argv = ["sh", "-ec", script]
        elif namespace := user_namespace.as_owner():
            argv = [*namespace, "sh", "-ec", UNPRIVILEGED, "sh", str(self.tree), script]
        ui.run(title, argv, log, env={"PATH": os.environ["PATH"]})

    def bring(self, source: pathlib.Path, name: str) -> None:
        """Makes the folder work/NAME equal to the sources. Unchanged files keep their times, so make and ninja rebuild
        only what has changed. Products of former builds stay."""
        target, listing = self.work / name, self.work / f".{name.replace('/', '_')}.names"
        needed = wanted(source)
        known = listing.read_bytes().split(b"\0") if listing.exists() else []     # a name may have a newline
        for gone in {pathlib.Path(os.fsdecode(file)) for file in known if file} - needed:
            (target / gone).unlink(missing_ok=True)
        for path in sorted(needed):
            copy_if_changed(source / path, target / path)
        listing.write_bytes(b"\0".join(sorted(map(os.fsencode, needed))))


def wanted(source: pathlib.Path) -> set[pathlib.Path]:
    """Files of a source directory, without products of builds and git's files."""
    found = {path.relative_to(source) for path in source.rglob("*") if not is_product(path) and path.is_file()}
    return {path for path in found if ".git" not in path.parts}


def is_product(path: pathlib.Path) -> bool:
    return (path.suffix in (".o", ".ko", ".mod", ".cmd", ".a", ".so", ".pyc")
            or path.name.endswith(".mod.c")
            or path.name in ("Module.symvers", "modules.order"))


def copy_if_changed(source: pathlib.Path, target: pathlib.Path) -> None:
    if write_if_changed(source.read_bytes(), target):
        shutil.copymode(source, target)


def write_if_changed(data: bytes, target: pathlib.Path) -> bool:
    """Returns whether the file was written."""
    if target.exists() and target.read_bytes() == data:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return True
