# SPDX-License-Identifier: GPL-2.0-or-later
"""Compiles the driver for every kernel, and the provider in every rdma-core, of Debian.

Each Debian release has a tree in the cache with its compiler and the headers of all kernels of its suites. The driver
passes if it compiles with W=1 without a warning and uses everything that the kernel offers."""

import contextlib
import pathlib
import re
import shutil
import tempfile

from lab.base import paths, ui
from lab.build import builder, cache, debian, guest_build, image, kernel_module, rdma_core, user_namespace

RELEASES = ("bookworm-backports", "trixie-backports", "testing")
LOG = "kernels"
# Free space in GiB for making each release's tree, and for the drivers in it.
NEW_GIB = {"bookworm-backports": 4.5, "trixie-backports": 2.5, "testing": 2.0}
REVISION = "1"                  # part of the cache key: increase it with each change of the code that makes a tree
KERNEL = r"linux-headers-\d\S*-amd64"
GENERIC = re.compile(r"linux-headers-\d+\.\d+\.\d[\d.+a-z]*(-\d+)?-amd64")
OTHER_FLAVOUR = re.compile(r"-[a-z]+-amd64$")
FLAVOURS = ("amd64", "cloud-amd64", "rt-amd64")
# kernel-doc, which W=1 runs, needs Perl or Python; pahole makes BTF data.
TOOLS = ("perl", "dwarves")
COMPLAINT = re.compile(r"warning|error", re.IGNORECASE)
# Functions of the kernel's InfiniBand core that the driver references if no feature is compiled out.
WANTED_SYMBOLS = {"ib_umem_odp_map_dma_and_lock", "ib_umem_dmabuf_get_pinned"}
# First kernel series of Debian with each feature whose absence no compiler reports. The driver does not compile without
# the others that Kbuild looks for.
OFFERED_SINCE = {"ODP": (6, 1), "DMA_DEV_NEED_SYNC": (6, 10), "PLACEMENT": (6, 12), "FILL_RES_SRQ": (6, 12),
                 "CREATE_USER_CQ": (7, 2), "RESIZE_USER_CQ": (7, 2)}
# First release of rdma-core with each operation for which the provider's CMakeLists.txt looks in the headers.
OPERATIONS_SINCE = {"ATOMIC_WRITE": 44, "FLUSH": 45}


# -- trees --------------------------------------------------------------------

def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def header_packages(names: list[str], newest: list[str]) -> list[str]:
    """Header packages to test with: those of all kernels, because updates within a series backport changes of newer
    series; and in every flavour those on which the metapackages depend."""
    return sorted({*filter(GENERIC.fullmatch, names), *newest})


def _archive(directory: pathlib.Path, release: str) -> debian.Archive:
    archive = debian.Archive(directory, debian.release_suites(release), ("deb", "deb-src"))
    archive.update(LOG)
    return archive


def _wanted(release: str) -> tuple[list[str], list[str]]:
    """The packages of a release's tree, and lines with the versions that the archive has now."""
    with tempfile.TemporaryDirectory(prefix="pib-kernels.") as name:
        archive = _archive(pathlib.Path(name), release)
        names = debian.output("apt-cache", "pkgnames", "linux-headers-", env=archive.env)
        metas = debian.output("apt-cache", "show", *(f"linux-headers-{flavour}" for flavour in FLAVOURS),
                              env=archive.env)
        headers = header_packages(names.split(), re.findall(rf"^Depends: .*({KERNEL})", metas, re.MULTILINE))
        if not headers:
            raise ui.LabError(f"the mirror offers no linux-headers for {release}. Choose another in the machine's apt "
                              "sources, and read its lists:  sudo apt-get update")
        tools = [name for name in image.packages("builder-packages.txt") if name != "linux-headers-amd64"]
        wanted = [*tools, *TOOLS, *headers]
        return wanted, archive.offered(*wanted)


def _make(out: pathlib.Path, release: str, wanted: list[str]) -> None:
    archive, base = _archive(out / "apt", release), debian.base_release(release)
    image.bootstrap(f"making the tree of {release}", wanted, out / "builder", image.builder_options(base),
                    base, archive, LOG)
    with contextlib.suppress(ui.LabError):  # compiling the provider reports it; kernels need no source
        rdma_core.ensure(out / "builder", archive)
    user_namespace.remove(archive.directory)


def missing() -> dict[str, float]:
    """Free space in GiB for trees, by release. A tree of older packages counts as that of a release: without the
    archive's lists nobody knows whether there are newer ones."""
    names = {f"kernels-{release}": NEW_GIB[release] for release in RELEASES}
    return {name: gib for name, gib in names.items() if not list(paths.cache().glob(f"{name}-*"))}


def tree(release: str) -> pathlib.Path:
    """The release's tree in the cache; it is made if it is missing."""
    wanted, versions = _wanted(release)
    return cache.entry(f"kernels-{release}-{paths.recipe_hash(REVISION, *wanted, *versions)}",
                       lambda out: _make(out, release, wanted))


def kernels(base: pathlib.Path) -> list[str]:
    """Versions of the kernels whose headers a tree has."""
    found = (base / "builder" / "usr" / "src").glob("linux-headers-*-amd64")
    return sorted(path.name.removeprefix("linux-headers-") for path in found)


def newest(versions: list[str]) -> str:
    """The newest of these kernels of the flavour that guests boot."""
    return max((one for one in versions if not OTHER_FLAVOUR.search(one)),
               key=lambda one: (_numbers(re.split(r"[^\d.]", one)[0]), _numbers(one)))


# -- driver -------------------------------------------------------------------

def complaints(output: str) -> list[str]:
    return [line.strip() for line in output.splitlines() if COMPLAINT.search(line)]


def missing_symbols(listing: str) -> list[str]:
    """Complaints about missing references in a listing of a module's undefined symbols."""
    present = {line.split()[-1] for line in listing.splitlines() if line.split()}
    return [f"{symbol} is compiled out" for symbol in sorted(WANTED_SYMBOLS - present)]


def missing_features(kernel: str, options: str) -> list[str]:
    """Complaints about features that the kernel offers but the compiler's options do not enable."""
    series = tuple(_numbers(kernel)[:2])
    return [f"{name} is compiled out" for name, since in OFFERED_SINCE.items()
            if series >= since and f"-DPIB_HCA_HAS_{name} " not in options]


def _faults(driver: pathlib.Path, kernel: str) -> list[str]:
    """Complaints about a build, from the files in the driver's folder."""
    return [*complaints((driver / "output").read_text()), *missing_symbols((driver / "symbols").read_text()),
            *missing_features(kernel, (driver / ".main.o.cmd").read_text())]


def compile_driver(tools: builder.Builder, kernel: str, options: str = "") -> list[str]:
    """Compiles for one kernel; returns complaints. options: additional arguments of make. If the sources are unchanged,
    it judges the last build instead of compiling again."""
    work = f"kernels/{kernel}"
    stamp, driver = tools.work / work / "compiled", f"{work}/{kernel_module.DRIVER}"
    inputs = paths.recipe_hash(kernel, options, *guest_build.sources(kernel_module.COMMON, kernel_module.DRIVER))
    if stamp.exists() and stamp.read_text() == inputs:
        return _faults(tools.work / driver, kernel)
    shutil.rmtree(tools.work / work, ignore_errors=True)
    for folder in (kernel_module.COMMON, kernel_module.DRIVER):
        tools.bring(paths.ROOT / folder, f"{work}/{folder}")
    try:
        tools.sh(f"compiling the driver for {kernel}",
                 f"{kernel_module.MAKE} -C {driver} W=1 {options} KDIR=/usr/src/linux-headers-{kernel} "
                 f"> {driver}/output 2>&1; nm -u {driver}/pib_hca.ko > {driver}/symbols", LOG)
    except ui.LabError:
        return complaints((tools.work / driver / "output").read_text()) or ["make failed"]
    stamp.write_text(inputs)
    return _faults(tools.work / driver, kernel)


# -- provider -----------------------------------------------------------------

def _get_source(tools: builder.Builder, release: str) -> None:
    """Downloads rdma-core's source if the mirror did not have it when the tree was made."""
    if not rdma_core.present(tools.tree):
        with tempfile.TemporaryDirectory(prefix="pib-kernels.") as name:
            rdma_core.ensure(tools.tree, _archive(pathlib.Path(name), release))


def missing_operations(version: str, rules: str) -> list[str]:
    """Complaints about operations that rdma-core offers but ninja's rules for the provider do not enable."""
    return [f"{name} is compiled out" for name, since in OPERATIONS_SINCE.items()
            if _numbers(version)[0] >= since and not re.search(rf"-DPIB_HAVE_{name}\b", rules)]


def compile_provider(tools: builder.Builder, release: str, options: str = "") -> list[str]:
    """Compiles in the rdma-core of a release; returns complaints. options: additional ones of cmake."""
    try:
        _get_source(tools, release)
        library = guest_build.compile_provider(tools, options=options)
    except ui.LabError as error:
        return [str(error).splitlines()[0], *complaints(str(error)), str(error).splitlines()[-1]]
    return missing_operations(rdma_core.version(tools.tree), (library.parents[1] / "build.ninja").read_text())
