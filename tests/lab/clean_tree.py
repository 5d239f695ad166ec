# SPDX-License-Identifier: GPL-2.0-or-later
"""A Debian system that has never seen this project: mmdebstrap's smallest, in a directory.

It is entered as its root or as an ordinary user who may use sudo. Packages (.deb) that were
fetched for one tree stay in the cache for the next one. A tree is an incomplete entry of the cache, so that
the next run removes what a killed run has left, and ./pib clean leaves trees in use alone.
"""

import contextlib
import os
import pathlib
import secrets
import shlex
import subprocess

from lab import lock, paths
from lab.build import cache, debian, user_namespace
from lab.guests import image

LOG = "clean-tree"
MINIMAL = ("git", "python3", "sudo")
USER = "someone"
SOURCE = "/checkout"
# A new root file system rather than a chroot: inside of a chroot the kernel gives no user namespaces.
ENTER = """
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/var/cache/apt/archives"
if [ -n "$5" ]; then
    mkdir -p "$1/shared"
    mount --bind "$5" "$1/shared"
fi
cd "$1"
pivot_root . .
umount -l .
exec env -i PATH=$PATH LC_ALL=C.UTF-8 su - "$3" -c "$4"
"""
PREPARE = f"""
PATH=/usr/sbin:/usr/bin:/sbin:/bin
useradd --create-home --shell /bin/bash {USER}
echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}
chown -R {USER} {SOURCE}
"""
FILL = """
mkdir "$1$2"
tar --no-same-owner -C "$1$2" -xf -
cp /etc/resolv.conf /etc/hosts "$1/etc"
chroot "$1" /bin/sh -ec "$3"
"""


def _archives(release: str) -> pathlib.Path:
    directory = paths.cache() / "debs" / release
    directory.mkdir(parents=True, exist_ok=True)
    return directory


class Tree:
    """The tree is root/ in a directory of the calling user."""

    def __init__(self, release: str):
        cache.sweep()
        self.release = release
        self._locked = contextlib.ExitStack()
        name = f"clean.{secrets.token_hex(8)}"
        self._locked.enter_context(lock.held(cache.lock_of(name)))
        self.directory = paths.cache() / (name + cache.PART)
        self.directory.mkdir(mode=0o700)
        self.root = self.directory / "root"

    def run(self, user: str, script: str, shared: pathlib.Path | str = "") -> subprocess.CompletedProcess:
        """Runs a script in the checkout, in a login shell of the user with Debian's default environment. shared: a
        directory of the host, which is /shared in the tree."""
        script = f"set -e; cd {SOURCE}\n{script}"
        argv = [*user_namespace.as_owner(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER,
                "sh", self.root, _archives(self.release), user, script, shared]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)

    def copy(self) -> "Tree":
        other = Tree(self.release)
        subprocess.run([*user_namespace.as_owner(), "cp", "-a", "--reflink=auto", self.root, other.root], check=True)
        return other

    def remove(self) -> None:
        user_namespace.remove(self.directory)
        cache.lock_of(self.directory.stem).unlink()
        self._locked.close()


def checkout_files() -> list[pathlib.Path]:
    """Names of the files of this checkout that git knows or would take."""
    listed = subprocess.run(["git", "-C", paths.ROOT, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], check=True, capture_output=True, text=True).stdout
    names = [pathlib.Path(name) for name in listed.split("\0") if name]
    return sorted(name for name in names if (paths.ROOT / name).is_file())


def _checkout() -> bytes:
    """A tar of these files as they are now."""
    there = b"\0".join(os.fsencode(name) for name in checkout_files())
    return subprocess.run(["tar", "-C", paths.ROOT, "--null", "-T", "-", "-cf", "-"], input=there, check=True,
                          capture_output=True).stdout


def make(release: str) -> Tree:
    tree = Tree(release)
    lists = debian.Archive(tree.directory / "apt", debian.release_suites(release), ("deb",))
    lists.update(LOG)
    archives = shlex.quote(str(_archives(release)))
    image.bootstrap(f"making a clean tree of {release}", list(MINIMAL), tree.root,
                    ['--setup-hook=mkdir -p "$1/var/cache/apt/archives"',
                     f"--setup-hook=sync-in {archives} /var/cache/apt/archives",
                     f"--customize-hook=sync-out /var/cache/apt/archives {archives}",
                     "--skip=essential/unlink"], release, lists, LOG)
    subprocess.run([*user_namespace.as_owner(), "sh", "-ec", FILL, "sh", tree.root, SOURCE, PREPARE], input=_checkout(),
                   check=True)
    return tree
