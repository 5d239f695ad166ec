# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetches into the cache what the debuggers need of the guests' kernel: Debian's debug symbols, the kernel's own
scripts for gdb, and the source of InfiniBand.

The package linux-image-VERSION-dbg has the symbols of all modules. The cache keeps the symbols of the kernel and of the
InfiniBand modules, and System.map."""

import dataclasses
import pathlib
import re
import shutil

from lab import paths, ui
from lab.build import builder, cache, debian, user_namespace
from lab.guests import image

LOG = "kernel-symbols"
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
DEBUG = "usr/lib/debug"
SYMBOLS = (f"./{DEBUG}/boot/*", "*/drivers/infiniband/core/*", "*/drivers/infiniband/ulp/*")
SOURCES = ("scripts/gdb", "drivers/infiniband/core", "drivers/infiniband/ulp", "include/rdma")
SCRIPTS = "scripts/gdb/linux"   # path in the kernel's source
CONSTANTS = "constants.py"      # the kernel's build generates it for the scripts
KEPT_MB = 800                   # size of an entry, with room for the larger symbols of later kernels
MB = 1_000_000
OF_DEBIAN = re.compile(rf"guest-({'|'.join(image.RELEASES)})-[0-9a-f]{{12}}")
SERIES = re.compile(r"\d+\.\d+")
UNPACK_SYMBOLS = ('dpkg-deb --fsys-tarfile "$1"/linux-image-*.deb | '
                  'tar --extract --no-same-owner --directory "$2" --wildcards "$3" "$4" "$5"')
UNPACK_SOURCE = ('out=$1; packages=$2; shift 2; mkdir "$out"; dpkg-deb --fsys-tarfile "$packages"/linux-source-*.deb | '
                 "tar --extract --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' | "
                 'tar --extract --xz --no-same-owner --strip-components=1 --directory "$out" --wildcards "$@"')


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Symbols of a kernel. directory: in the cache. version: the kernel's."""
    directory: pathlib.Path
    version: str

    @property
    def vmlinux(self) -> pathlib.Path:
        return self.directory / DEBUG / "boot" / f"vmlinux-{self.version}"

    @property
    def modules(self) -> pathlib.Path:
        """Directory with the symbols of the InfiniBand modules."""
        return self.directory / DEBUG / "lib" / "modules" / self.version

    @property
    def source(self) -> pathlib.Path:
        """Directory with a part of the kernel's source: the scripts for gdb, and InfiniBand."""
        return self.directory / "source"

    def address(self, symbol: str) -> int:
        """The symbol's address at link time. KASLR moves a running kernel by an offset."""
        text = (self.directory / DEBUG / "boot" / f"System.map-{self.version}").read_text()
        found = re.search(rf"^([0-9a-f]+) \w {re.escape(symbol)}$", text, re.MULTILINE)
        if not found:
            raise ui.LabError(f"Linux {self.version} has no symbol {symbol}, which is needed here. Take guests with a "
                              "kernel from 6.1 on")
        return int(found[1], 16)


def release_of(directory: pathlib.Path) -> str:
    """The Debian release whose kernel an image has."""
    found = OF_DEBIAN.fullmatch(directory.name)
    if not found:
        raise ui.LabError("the guests' kernel is not Debian's own, and only that one has debug symbols to fetch. Boot "
                          "guests with it:  ./pib down   and  ./pib up --kernel debian")
    return found[1]


def packages_of(version: str) -> tuple[str, str]:
    """Names of the packages with the symbols and with the source."""
    series = SERIES.match(version)
    return f"linux-image-{version}-dbg", f"linux-source-{series[0] if series else version}"


def _package_version(directory: pathlib.Path, version: str) -> str:
    """The version of the image's kernel package. The package with its symbols has the same version."""
    if not (directory / debian.STATUS).exists():
        raise ui.LabError(f"{directory.name} was made by an older pib, which has not noted its packages. Make it "
                          f"again:  ./pib down   and  ./pib clean {directory.name}   and  ./pib up")
    return debian.package_version(directory, f"linux-image-{version}")


# -- fetching --------------------------------------------------------------------

def _size(archive: debian.Archive, package: str, version: str) -> int:
    """Size of a package's file in bytes."""
    text = debian.output("apt-cache", "show", f"{package}={version}", env=archive.env)
    found = re.search(r"^Size: (\d+)$", text, re.MULTILINE)
    if not found:
        raise ui.LabError(f"the mirror has no {package} {version} any more: a newer kernel has replaced it. Make the "
                          "guests' image again:  ./pib down   and  ./pib clean ENTRY   and  ./pib up. Entries:  "
                          "./pib clean")
    return int(found[1])


def _check_room(wanted: int) -> None:
    free = shutil.disk_usage(paths.cache()).free
    if free < wanted:
        raise ui.LabError(f"the kernel's debug symbols take {wanted // MB} MB of {paths.cache()} while they are "
                          f"unpacked, and {free // MB} MB are free. Free some:  ./pib clean")


def _fetch(archive: debian.Archive, packages: tuple[str, ...], version: str) -> None:
    size = sum(_size(archive, package, version) for package in packages)
    _check_room(size + KEPT_MB * MB)
    ui.run(f"fetching {' and '.join(packages)} {version}: {size // MB} MB, of which less than {KEPT_MB} MB are kept",
           ["apt-get", "-o", "Acquire::Retries=3", "download", *(f"{package}={version}" for package in packages)],
           LOG, cwd=archive.directory, env=archive.env)


def _make_constants(base: pathlib.Path, source: pathlib.Path, version: str) -> None:
    """Generates constants.py for the scripts from the kernel's headers, with the scripts' Makefile."""
    parts, tools = source / "constants", builder.Builder(base)
    parts.mkdir()
    for name in ("Makefile", f"{CONSTANTS}.in"):
        shutil.copy(source / SCRIPTS / name, parts)
    with tools.locked():
        tools.bring(parts, "gdb-scripts")
        tools.sh("making the kernel's scripts for gdb", f"rm -f gdb-scripts/{CONSTANTS}; "
                 f"make -C /usr/src/linux-headers-{version} M={tools.inside}/gdb-scripts modules", LOG)
        shutil.copy(tools.work / "gdb-scripts" / CONSTANTS, source / SCRIPTS)
    shutil.rmtree(parts)


def _make(out: pathlib.Path, base: pathlib.Path, version: str) -> None:
    archive = debian.Archive(out / "apt", debian.release_suites(release_of(base)), ("deb",))
    archive.update(LOG)
    _fetch(archive, packages_of(version), _package_version(base, version))
    ui.run("unpacking the kernel's symbols", ["sh", "-ec", UNPACK_SYMBOLS, "sh", archive.directory, out, *SYMBOLS], LOG)
    ui.run("unpacking the source of its InfiniBand",
           ["sh", "-ec", UNPACK_SOURCE, "sh", out / "source", archive.directory, *(f"*/{part}" for part in SOURCES)],
           LOG)
    user_namespace.remove(archive.directory)
    _make_constants(base, out / "source", version)


def ensure(base: pathlib.Path) -> Kernel:
    """The symbols of an image's kernel."""
    version = image.kernel_version(base)
    release_of(base)
    recipe = paths.recipe_hash(REVISION, version, _package_version(base, version), *SYMBOLS, *SOURCES)
    return Kernel(cache.entry(f"symbols-{version}-{recipe}", lambda out: _make(out, base, version)), version)
