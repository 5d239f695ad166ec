# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test kernels: the driver for every kernel and the provider in every rdma-core of Debian.

Each Debian release has a tree in the cache with its compiler and the headers of all
kernels that its suites offer. A driver that compiles there with W=1 passes only without
a warning, and with everything that the kernel offers in it.
"""

import pathlib
import re
import shutil
import tempfile

from lab import paths, ui
from lab.build import builder, cache, debian, guest_build, rdma_core, user_namespace
from lab.guests import image
from lab.testing.counts import Count
from lab.testing.progress import Progress

RELEASES = ("bookworm-backports", "trixie-backports", "testing")
LOG = STAGE = "kernels"
REVISION = "1"                  # version of the code that makes a tree
KERNEL = r"linux-headers-\d+\.\d+\.\d\S*-amd64"
GENERIC = re.compile(r"linux-headers-(\d+\.\d+)\.\d[\d.+a-z]*(-\d+)?-amd64")
FLAVOURS = ("amd64", "cloud-amd64", "rt-amd64")
# kernel-doc, which W=1 runs, is written in Perl or Python; BTF data is made by pahole.
TOOLS = ("perl", "dwarves")
COMPLAINT = re.compile(r"warning|error", re.IGNORECASE)
# Functions of the core that the driver uses where nothing has been compiled out.
WANTED_SYMBOLS = {"ib_umem_odp_map_dma_and_lock", "ib_umem_dmabuf_get_pinned"}


def _count(what: str, faults: list[str]) -> Count:
    ui.say(f"{what}: {'; '.join(faults[:3]) or 'passed'}")
    return Count(failed=1) if faults else Count(passed=1)


# -- trees --------------------------------------------------------------------

def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def header_packages(names: list[str], newest: list[str]) -> list[str]:
    """The header packages to test with, of all package names: the oldest and the newest kernel
    of each series, and in every flavour those that the metapackages depend on."""
    series: dict[str, list[str]] = {}
    for name in sorted(names, key=_numbers):
        if found := GENERIC.fullmatch(name):
            series.setdefault(found.group(1), []).append(name)
    ends = {name for kernels_of in series.values() for name in (kernels_of[0], kernels_of[-1])}
    return sorted(ends | set(newest))


def _archive(directory: pathlib.Path, release: str) -> debian.Archive:
    archive = debian.Archive(directory, debian.release_suites(release), ("deb", "deb-src"))
    archive.update(LOG)
    return archive


def _offered(release: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pib-kernels.") as name:
        archive = _archive(pathlib.Path(name), release)
        names = debian.output("apt-cache", "pkgnames", "linux-headers-", env=archive.env)
        metas = debian.output("apt-cache", "show", *(f"linux-headers-{flavour}" for flavour in FLAVOURS),
                              env=archive.env)
    return header_packages(names.split(), re.findall(rf"^Depends: .*({KERNEL})", metas, re.MULTILINE))


def _make(out: pathlib.Path, release: str, wanted: list[str]) -> None:
    archive, base = _archive(out / "apt", release), debian.base_release(release)
    image.bootstrap(f"making the tree of {release}", wanted, out / "builder", image.builder_options(base),
                    base, archive, LOG)
    rdma_core.ensure(out / "builder", archive)
    user_namespace.remove(archive.directory)


def tree(release: str) -> pathlib.Path:
    """The release's tree, from the cache; made when it is not there."""
    wanted = [name for name in image.packages("builder-packages.txt") if name != "linux-headers-amd64"]
    wanted += [*TOOLS, *_offered(release)]
    return cache.entry(f"kernels-{release}-{paths.recipe_hash(REVISION, *wanted)}",
                       lambda out: _make(out, release, wanted))


def kernels(base: pathlib.Path) -> list[str]:
    """Versions of the kernels whose headers a tree has."""
    found = (base / "builder" / "usr" / "src").glob("linux-headers-*-amd64")
    return sorted(path.name.removeprefix("linux-headers-") for path in found)


# -- driver -------------------------------------------------------------------

def complaints(output: str) -> list[str]:
    return [line.strip() for line in output.splitlines() if COMPLAINT.search(line)]


def missing_symbols(listing: str) -> list[str]:
    """Complaints about a listing of a module's undefined symbols."""
    present = {line.split()[-1] for line in listing.splitlines() if line.split()}
    return [f"{symbol} is compiled out" for symbol in sorted(WANTED_SYMBOLS - present)]


def _compile_driver(tools: builder.Builder, kernel: str) -> list[str]:
    """Complaints of one kernel's build. What has compiled well before is not compiled again."""
    work = f"kernels/{kernel}"
    stamp = tools.work / work / "passed"
    inputs = paths.recipe_hash(kernel, *guest_build.sources(guest_build.COMMON, guest_build.DRIVER))
    if stamp.exists() and stamp.read_text() == inputs:
        return []
    shutil.rmtree(tools.work / work, ignore_errors=True)
    for folder in (guest_build.COMMON, guest_build.DRIVER):
        tools.bring(paths.ROOT / folder, f"{work}/{folder}")
    driver = f"{work}/{guest_build.DRIVER}"
    try:
        tools.sh(f"compiling the driver for {kernel}",
                 f"{guest_build.MAKE} -C {driver} W=1 KDIR=/usr/src/linux-headers-{kernel} "
                 f"> {driver}/output 2>&1; nm -u {driver}/pib_hca.ko > {driver}/symbols", LOG)
    except ui.LabError:
        return complaints((tools.work / driver / "output").read_text()) or ["make failed"]
    found = complaints((tools.work / driver / "output").read_text())
    found += missing_symbols((tools.work / driver / "symbols").read_text())
    if not found:
        stamp.write_text(inputs)
    return found


# -- provider -----------------------------------------------------------------

def _compile_provider(tools: builder.Builder) -> list[str]:
    try:
        guest_build.compile_provider(tools)
    except ui.LabError as error:
        return [str(error).splitlines()[0], *complaints(str(error))]
    return []


def _check(release: str) -> Count:
    base = tree(release)
    tools = builder.Builder(base)
    with tools.locked():
        count = sum((_count(f"driver, {release}, kernel {kernel}", _compile_driver(tools, kernel))
                     for kernel in kernels(base)), Count())
        version = rdma_core.version(base / "builder")
        return count + _count(f"provider, {release}, rdma-core {version}", _compile_provider(tools))


def check(progress: Progress) -> Count:
    """Compiles driver and provider everywhere."""
    stage, count = progress.begin(STAGE), Count()
    for number, release in enumerate(RELEASES, 1):
        count += _check(release)
        stage.count(number, len(RELEASES))
        progress.show(stage)
    stage.end(count)
    return count
