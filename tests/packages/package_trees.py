# SPDX-License-Identifier: GPL-2.0-or-later
"""Trees of Debian releases in which packages of this checkout are built and installed."""

import contextlib
import dataclasses
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile

import clean_tree
from lab.base import paths
from lab.build import cache, checkout, debian

SHARED = "/shared"
HOST = ("pib-lab", "pib-switch", "qemu-pib-hca")
GUEST = ("pib-hca-dkms", "ibverbs-provider-pib")
ALL = (*HOST, *GUEST, "pib-hca-doc")
# Debian 12 has QEMU and meson in its backports.
TARGET = {"bookworm": "-t bookworm-backports", "trixie": ""}
BUILD = """
apt-get -q build-dep -y --no-install-recommends -P nocheck {target} ./ >/shared/apt.log 2>&1
apt-get -q install -y --no-install-recommends ccache lintian >>/shared/apt.log 2>&1
export XDG_CACHE_HOME=/shared/cache
dpkg-buildpackage -b -us -uc -Pnocheck >/shared/build.log 2>&1 || {{ tail -40 /shared/build.log; exit 1; }}
cp ../*.deb ../*.changes ../*.buildinfo /shared/packages
lintian --allow-root --fail-on error ../*.changes
"""
# Paths that a package of ours may have made, without those that users keep.
OURS = r"find / -xdev \( -path /checkout -o -path /shared -o -path /home -o -path /root -o -path /tmp \) -prune " \
       r"-o -iname '*pib*' -print | grep -v ^/var/cache/apt | sort"


_HELD = contextlib.ExitStack()


@dataclasses.dataclass(frozen=True)
class Packages:
    """said: the output of lintian."""
    release: str
    directory: pathlib.Path
    said: str

    def files(self, *names: str) -> list[pathlib.Path]:
        return [next(self.directory.glob(f"{name}_*.deb")) for name in names]


def _add_backports(tree: clean_tree.Tree) -> str:
    if tree.release != "bookworm":
        return ""
    line = f"deb [signed-by={debian.keyring(debian.mirror())}] {debian.mirror()} bookworm-backports main"
    return f"echo '{line}' > /etc/apt/sources.list.d/backports.list; "


@contextlib.contextmanager
def tree_of(release: str):
    """A clean tree that knows the suites of its release."""
    tree = clean_tree.make(release)
    try:
        done = tree.run("root", f"{_add_backports(tree)}apt-get -q update")
        assert done.returncode == 0, done.stdout
        yield tree
    finally:
        tree.remove()


def _versions(release: str) -> str:
    """Debian's newest versions of the packages that ours are built with. Ours depend on some: QEMU, rdma-core."""
    control = (paths.ROOT / "debian" / "control").read_text()
    names = re.findall(r"^(?:Build-Depends:)? +([a-z][a-z0-9.+-]+)", control.split("\n\n")[0], re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="pib-packages.") as name:
        suites = debian.release_suites(f"{release}-backports" if TARGET[release] else release)
        archive = debian.Archive(pathlib.Path(name), suites, ("deb",))
        archive.update("packages")
        return "\n".join(archive.offered("debhelper", "dh-dkms", "g++", "libibverbs1", "lintian", *names))


def _sources(release: str) -> str:
    """A hash of everything that packages are made from."""
    tree_files = [path for path in checkout.files() if path.parts[0] not in ("tests", "packages")]
    return paths.recipe_hash(BUILD, _versions(release), *(part for path in tree_files for part in
                                                          (str(path), (paths.ROOT / path).read_bytes())))


@functools.cache
def _directory() -> pathlib.Path:
    """The directory of all packages. Runs in other checkouts, which replace the packages there, wait for this one's
    end."""
    return _HELD.enter_context(cache.changing("packages"))


@functools.cache
def built(release: str) -> Packages:
    """Builds the packages of a release, unless an earlier run has built them of the same sources. The compiler's cache
    and QEMU's headers stay for the next time."""
    shared, sources = _directory() / release, _sources(release)
    stamp, said = shared / "sources", shared / "lintian"
    if not stamp.exists() or stamp.read_text() != sources:
        stamp.unlink(missing_ok=True)
        shutil.rmtree(shared / "packages", ignore_errors=True)
        (shared / "packages").mkdir(parents=True)
        with tree_of(release) as tree:
            done = tree.run("root", BUILD.format(target=TARGET[release]), shared)
        assert done.returncode == 0, done.stdout
        said.write_text(done.stdout)
        stamp.write_text(sources)
    return Packages(release, shared / "packages", said.read_text())


def _newer_module(tree: pathlib.Path) -> None:
    """Gives a module of DKMS a higher version, also in its folder's name and in scripts."""
    for source in (tree / "usr" / "src").glob("*-*"):
        version = source.name.rpartition("-")[2]
        for file in (*(tree / "DEBIAN").iterdir(), source / "dkms.conf"):
            file.write_text(file.read_text().replace(version, f"{version}+1"))
        source.rename(source.with_name(f"{source.name}+1"))


def newer(file: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """A copy of the package with a higher version."""
    tree = directory / "newer"
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-R", file, tree], check=True)
    control = tree / "DEBIAN" / "control"
    lines = [f"{line}+1" if line.startswith("Version: ") else line for line in control.read_text().splitlines()]
    _newer_module(tree)
    control.write_text("\n".join([*lines, ""]))
    made = directory / file.name.replace("_", "+1_", 1)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], check=True, capture_output=True)
    shutil.rmtree(tree)
    return made
