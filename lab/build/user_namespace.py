# SPDX-License-Identifier: GPL-2.0-or-later
"""Access to files of other owners, and to devices in a new tree: root has both directly, another user through a user
namespace with subordinate ids. Root of a container that may not make device nodes has a user namespace, too."""

import contextlib
import functools
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

from lab.base import paths, ui

ENTER = ("unshare", "--map-auto", "--map-root-user", "--mount")
# The same for root, whose IDs newuidmap refuses.
NAMESPACE = (sys.executable, "-I", "-B", str(paths.ROOT / "lab" / "start.py"), "lab.build.root_namespace")
# A mount namespace of its own, for root.
MOUNTS = ("unshare", "--mount", "--")
# Script that mounts a device, as mmdebstrap does.
TRY = 'touch "$1"; mount --bind /dev/null "$1"; umount "$1"'


@functools.cache
def makes_devices(directory: pathlib.Path) -> bool:
    """Whether device nodes that this user makes below a directory work. In some containers root cannot make device
    nodes, and some file systems do not support them. True if the directory cannot be written: then no tree is made
    there."""
    try:
        with tempfile.TemporaryDirectory(dir=directory) as name:
            node = pathlib.Path(name) / "null"
            os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
            node.write_text("x")
    except PermissionError:
        return not os.access(directory, os.W_OK)
    except OSError:
        return True
    return True


def confined() -> bool:
    """Whether this user is root, but cannot make device nodes in the cache."""
    if os.geteuid():
        return False
    with contextlib.suppress(OSError):
        paths.cache().mkdir(parents=True, exist_ok=True)
    return not makes_devices(paths.cache())


@functools.cache
def can_mount() -> bool:
    """Whether root of a user namespace can mount a device."""
    with tempfile.TemporaryDirectory() as name:
        return not subprocess.run([*NAMESPACE, "sh", "-ec", TRY, "sh", f"{name}/null"], capture_output=True,
                                  check=False).returncode


def as_owner() -> list[str]:
    """Prefix of a command that accesses files of other owners, or makes a tree. mmdebstrap makes a tree without devices
    as well, but compilers do not work in it."""
    if os.geteuid():
        return [*ENTER, "--"]
    return [*NAMESPACE] if confined() and can_mount() else []


@functools.cache
def as_maker() -> list[str]:
    """Prefix of a command that mounts file systems in a tree. The mounts end with its processes, however these end.
    Root in a container may have no right to namespaces, and cannot mount either."""
    prefix = as_owner()
    if not prefix and not subprocess.run([*MOUNTS, "true"], capture_output=True, check=False).returncode:
        return [*MOUNTS]
    return prefix


def remove(tree: pathlib.Path) -> None:
    """Removes a tree. Enters a namespace only if a plain rm fails, because a user without subordinate IDs can build for
    the host too."""
    argv = ["rm", "-rf", "--one-file-system", str(tree)]
    if tree.exists() and subprocess.run(argv, stderr=subprocess.DEVNULL, check=False).returncode:
        done = subprocess.run([*as_owner(), *argv], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ui.LabError(f"{tree} cannot be removed. If something is mounted in it (findmnt | grep {tree.name}), "
                              f"end that with umount, and start again. rm said:\n{done.stderr}")
