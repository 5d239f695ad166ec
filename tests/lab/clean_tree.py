# SPDX-License-Identifier: GPL-2.0-or-later
"""A new Debian system: mmdebstrap's smallest, in a directory.

Scripts run in it as root or as an ordinary user who may use sudo. Packages (.deb) that were fetched for one tree stay
in the cache for the next one. Each tree has its own directory of them, made of hard links, because several test runs
use one cache at the same time: apt locks its directory, and removes and replaces files in it. A tree is an incomplete
entry of the cache, so that the next run removes what a killed run has left, and ./pib clean leaves trees in use alone.
"""

import contextlib
import os
import pathlib
import secrets
import shlex
import subprocess

from lab.base import lock, paths
from lab.build import cache, checkout, debian, image, user_namespace

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
# $1: the cache's directory of packages, $2: a tree's. $2.taken lists what the tree has got. Another run may remove a
# file of the cache at any time.
TAKE = """
mkdir "$2"
for deb in "$1"/*.deb; do
    [ ! -e "$deb" ] || ln "$deb" "$2" || [ ! -e "$deb" ]
done
ls "$2" >"$2.taken"
"""
# Adds what the tree has fetched, and removes what apt has removed from the tree. A file appears whole, by rename.
KEEP = """
for deb in "$2"/*.deb; do
    kept="$1/${deb##*/}"
    [ ! -e "$deb" ] || [ "$deb" -ef "$kept" ] || { ln "$deb" "$kept.$$" && mv -f "$kept.$$" "$kept"; }
done
while read -r name; do
    [ -e "$2/$name" ] || rm -f "$1/$name"
done <"$2.taken"
"""
FILL = """
mkdir "$1$2"
tar --no-same-owner -C "$1$2" -xf -
cp /etc/resolv.conf /etc/hosts "$1/etc"
for passwords in /etc/apt/auth.conf /etc/apt/auth.conf.d; do
    [ ! -r "$passwords" ] || cp -r "$passwords" "$1/etc/apt"
done
chroot "$1" /bin/sh -ec "$3"
"""


def archives(release: str) -> pathlib.Path:
    """The cache's directory of packages."""
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
        self.archives = self.directory / "archives"

    def _exchange(self, script: str) -> None:
        subprocess.run([*user_namespace.as_owner(), "sh", "-ec", script, "sh", archives(self.release), self.archives],
                       check=True)

    def take_archives(self) -> None:
        """Gives a new tree the packages of the cache."""
        self._exchange(TAKE)

    def keep_archives(self) -> None:
        """Copies the tree's new packages to the cache, and removes those that apt has removed from the tree."""
        self._exchange(KEEP)

    def run(self, user: str, script: str, shared: pathlib.Path | str = "") -> subprocess.CompletedProcess:
        """Runs a script in the checkout, in a login shell of the user with Debian's default environment. shared: a
        directory of the host, which is /shared in the tree."""
        script = f"set -e; cd {SOURCE}\n{script}"
        argv = [*user_namespace.as_owner(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER,
                "sh", self.root, self.archives, user, script, shared]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.keep_archives()
        return done

    def copy(self) -> "Tree":
        other = Tree(self.release)
        other.take_archives()
        subprocess.run([*user_namespace.as_owner(), "cp", "-a", "--reflink=auto", self.root, other.root], check=True)
        return other

    def remove(self) -> None:
        user_namespace.remove(self.directory)
        cache.lock_of(self.directory.stem).unlink()
        self._locked.close()


def _checkout() -> bytes:
    """A tar archive of the checkout's files as they are now."""
    there = b"\0".join(os.fsencode(name) for name in checkout.files())
    return subprocess.run(["tar", "-C", paths.ROOT, "--null", "-T", "-", "-cf", "-"], input=there, check=True,
                          capture_output=True).stdout


def certificates(suites: list[debian.Suite]) -> list[str]:
    """The package that apt in a tree needs for a mirror with https."""
    return ["ca-certificates"] if any(suite.uri.startswith("https:") for suite in suites) else []


def make(release: str) -> Tree:
    tree, suites = Tree(release), debian.release_suites(release)
    lists = debian.Archive(tree.directory / "apt", suites, ("deb",))
    lists.update(LOG)
    tree.take_archives()
    own, inside = shlex.quote(str(tree.archives)), '"$1/var/cache/apt/archives"'
    image.bootstrap(f"making a clean tree of {release}", [*MINIMAL, *certificates(suites)], tree.root,
                    [f"--setup-hook=mkdir -p {inside} && find {own} -name '*.deb' -exec mv -t {inside} {{}} +",
                     f"--customize-hook=find {inside} -name '*.deb' -exec mv -t {own} {{}} +",
                     "--skip=essential/unlink"], release, lists, LOG)
    tree.keep_archives()
    subprocess.run([*user_namespace.as_owner(), "sh", "-ec", FILL, "sh", tree.root, SOURCE, PREPARE], input=_checkout(),
                   check=True)
    return tree
