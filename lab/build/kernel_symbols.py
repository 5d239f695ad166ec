# SPDX-License-Identifier: GPL-2.0-or-later
"""Puts into the cache what the debuggers need of the guests' kernel: debug symbols and the kernel's own scripts for
gdb.

Debian's package linux-image-VERSION-dbg has the symbols of all modules. The cache keeps the symbols of the kernel and
of the InfiniBand modules, System.map, and the source of InfiniBand. A kernel of the user's own and the lab's kernels
with checks have vmlinux, System.map, modules and source in the tree in which they were built; the cache has the scripts
and links to the modules."""

import dataclasses
import pathlib
import re
import shlex
import shutil

from lab.base import paths, ui
from lab.build import builder, cache, debian, debug_kernel, elf, image, kernel_tree, user_namespace

LOG = "kernel-symbols"
REVISION = "1"                  # part of the cache key: increase it with each change of the code below
DEBUG = "usr/lib/debug"
SYMBOLS = (f"./{DEBUG}/boot/*", "*/drivers/infiniband/core/*", "*/drivers/infiniband/ulp/*")
SOURCES = ("scripts/gdb", "drivers/infiniband/core", "drivers/infiniband/ulp", "include/rdma")
SCRIPT = "vmlinux-gdb.py"       # in scripts/gdb of the kernel's source: it loads the others
SCRIPTS = "scripts/gdb/linux"   # path in the kernel's source
CONSTANTS = "constants.py"      # the kernel's build generates it for the scripts
MODULES = "modules"             # directory with links to the modules of a tree
CHOICE = "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"           # option of the kernel that enables kernel_tree.DEBUG_INFO
UNUSABLE = ("DEBUG_INFO_REDUCED", "DEBUG_INFO_SPLIT")   # symbols without types, or in other files
KEPT_MB = 800                   # size of an entry, with room for the larger symbols of later kernels
MB = 1_000_000
OF_DEBIAN = re.compile(rf"guest-({'|'.join(image.RELEASES)})-[0-9a-f]{{12}}")
OF_LAB = re.compile(rf"guest-\w+-({'|'.join(debug_kernel.KINDS)})-[0-9a-f]{{12}}")
SERIES = re.compile(r"\d+\.\d+")
UNPACK_SYMBOLS = ('dpkg-deb --fsys-tarfile "$1"/linux-image-*.deb | '
                  'tar --extract --no-same-owner --directory "$2" --wildcards "$3" "$4" "$5"')
UNPACK_SOURCE = ('out=$1; packages=$2; shift 2; mkdir "$out"; dpkg-deb --fsys-tarfile "$packages"/linux-source-*.deb | '
                 "tar --extract --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' | "
                 'tar --extract --xz --no-same-owner --strip-components=1 --directory "$out" --wildcards "$@"')


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Symbols of a kernel. directory: in the cache. version: the kernel's. tree: the directory in which the kernel was
    built; None: the kernel is Debian's. inside: the tree's path when the kernel was compiled, if it is another one.
    again: the command that boots guests with the present kernel."""
    directory: pathlib.Path
    version: str
    tree: pathlib.Path | None = None
    inside: str = ""
    again: str = "./pib reboot NODE"

    def _of(self, name: str) -> pathlib.Path:
        return self.tree / name if self.tree else self.directory / DEBUG / "boot" / f"{name}-{self.version}"

    @property
    def vmlinux(self) -> pathlib.Path:
        return self._of("vmlinux")

    @property
    def modules(self) -> pathlib.Path:
        """Directory with the symbols of modules: all of a tree's, or InfiniBand's of Debian."""
        return self.directory / (MODULES if self.tree else f"{DEBUG}/lib/modules/{self.version}")

    @property
    def source(self) -> pathlib.Path:
        """Directory with the kernel's source. For Debian's kernel it has InfiniBand's part only."""
        return _source_of(self.tree) if self.tree else self.directory / "source"

    @property
    def sources(self) -> dict[str, str]:
        """Directories of the source, by the directories' names in the debug information."""
        return {self.inside: str(self.tree)} if self.inside else {}

    @property
    def scripts(self) -> pathlib.Path | None:
        """The directory scripts/gdb with all that the kernel's scripts for gdb need; None: the tree has no scripts."""
        found = self.directory / "source" / "scripts" / "gdb"
        return found if found.is_dir() else None

    def address(self, symbol: str, advice: str = "Take guests with a kernel from 6.1 on") -> int:
        """The symbol's address at link time. KASLR moves a running kernel by an offset. advice: the end of the
        error if the kernel does not have the symbol."""
        text = self._of("System.map").read_text()
        found = re.search(rf"^([0-9a-f]+) \w {re.escape(symbol)}$", text, re.MULTILINE)
        if not found:
            raise ui.LabError(f"Linux {self.version} has no symbol {symbol}, which is needed here. {advice}")
        return int(found[1], 16)


def release_of(directory: pathlib.Path) -> str:
    """The Debian release whose kernel an image has."""
    found = OF_DEBIAN.fullmatch(directory.name)
    if not found:
        raise ui.LabError(f"the guests' image {directory.name} was made by another pib, which knows where the symbols "
                          "of its kernel are. Boot guests of this one:  ./pib down   and  ./pib up")
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


def _make_constants(tools: builder.Builder, source: pathlib.Path, version: str) -> None:
    """Generates constants.py for the scripts from the kernel's headers, with the scripts' Makefile."""
    parts = source / "constants"
    parts.mkdir()
    for name in ("Makefile", f"{CONSTANTS}.in"):
        shutil.copy(source / SCRIPTS / name, parts)
    with tools.locked():
        tools.bring(parts, "gdb-scripts")
        tools.sh("making the kernel's scripts for gdb", f"rm -f gdb-scripts/{CONSTANTS}; "
                 f"make -C {shlex.quote(tools.headers(version))} M={shlex.quote(tools.inside)}/gdb-scripts modules",
                 LOG)
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
    _make_constants(builder.Builder(base), out / "source", version)


# -- built trees ---------------------------------------------------------------------

def _source_of(tree: pathlib.Path) -> pathlib.Path:
    """The source of a tree: make O=DIR leaves a link to it there."""
    return tree / "source" if (tree / "source" / "Makefile").is_file() else tree


def check_debug_info(tree: pathlib.Path, again: str) -> None:
    """Checks that a tree has the kernel's symbols. again: the command that boots guests with the tree's kernel."""
    if lost := [name for name in (".config", "vmlinux", "System.map") if not (tree / name).is_file()]:
        raise ui.LabError(f"{tree} has no {lost[0]}, which debuggers need beside the running kernel. Build and boot it "
                          f"again:  make bzImage modules   and  {again}")
    config = (tree / ".config").read_text().splitlines()
    wrong = [f"CONFIG_{name}=y" for name in UNUSABLE if f"CONFIG_{name}=y" in config]
    if wrong or kernel_tree.DEBUG_INFO not in config:
        off = " ".join(f"--disable {name}" for name in ("DEBUG_INFO_NONE", *UNUSABLE))
        raise ui.LabError(f"{tree}/.config {f'has {wrong[0]}' if wrong else f'lacks {kernel_tree.DEBUG_INFO}'}, so its "
                          f"vmlinux lacks symbols for debuggers. Build and boot one with them:  scripts/config {off} "
                          f"--enable DEBUG_KERNEL --enable {CHOICE} && make olddefconfig bzImage modules   and  "
                          f"{again}")


def _make_of_tree(out: pathlib.Path, base: pathlib.Path, known: Kernel) -> None:
    """Makes an entry for a kernel in a tree: the scripts for gdb, if the tree has them, and links to the modules."""
    assert known.tree
    (out / MODULES).mkdir()
    for name, path in {pathlib.Path(path).name: path for path in kernel_tree.modules(known.tree)}.items():
        (out / MODULES / name).symlink_to(known.tree / path)
    given = known.source / "scripts" / "gdb"
    if (given / SCRIPT).is_file():
        shutil.copytree(given, out / "source" / "scripts" / "gdb")
        _make_constants(kernel_tree.tools(base), out / "source", known.version)


def _of_tree(base: pathlib.Path, known: Kernel) -> Kernel:
    """The symbols of a kernel that was built in a tree. known: all but the directory in the cache."""
    assert known.tree
    check_debug_info(known.tree, known.again)
    recipe = paths.recipe_hash(REVISION, str(known.tree), elf.build_id(known.vmlinux).value.hex(),
                               (known.tree / kernel_tree.ORDER).read_bytes())
    return dataclasses.replace(known, directory=cache.entry(f"symbols-{known.version}-own-{recipe}",
                                                            lambda out: _make_of_tree(out, base, known)))


def _built(base: pathlib.Path, version: str) -> Kernel | None:
    """The kernel of an image if it was built in a tree, else None. Its directory is not yet the one in the cache."""
    if tree := kernel_tree.of_image(base):
        return Kernel(base, version, tree, again=f"./pib up --kernel-dir {shlex.quote(str(tree))}")
    if kind := OF_LAB.fullmatch(base.name):
        place, again = debug_kernel.SOURCE, f"./pib up --kernel {kind[1]}"
        tree = base / "builder" / place.lstrip("/")
        if not (tree / "vmlinux").is_file():
            raise ui.LabError(f"{base.name} was made by an older pib, which kept no symbols of its kernel. Boot guests "
                              f"with one of this pib:  {again}")
        return Kernel(base, version, tree, place, again)
    return None


# -- of an image ---------------------------------------------------------------------

def ensure(base: pathlib.Path) -> Kernel:
    """The symbols of an image's kernel."""
    version = image.kernel_version(base)
    if built := _built(base, version):
        return _of_tree(base, built)
    release_of(base)
    recipe = paths.recipe_hash(REVISION, version, _package_version(base, version), *SYMBOLS, *SOURCES)
    return Kernel(cache.entry(f"symbols-{version}-{recipe}", lambda out: _make(out, base, version)), version)
