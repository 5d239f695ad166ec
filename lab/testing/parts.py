# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of ./pib test and their result.

Unit tests are meson's tests, built with sanitizers, and tests of the device in QEMU without a guest; guest tests are
pytest with booted guests. Tests with the mark `nightly` run only in `./pib test all`, or with --nightly.
"""

import contextlib
import dataclasses
import os
import pathlib
import random
import re
from collections.abc import Callable, Iterator

from lab.base import memory, paths, ui
from lab.base.counts import Count, FAILURE
from lab.bench import bench_host
from lab.build import cache, debug_kernel, deps, host_build, image, kernels, preflight, steps
from lab.fabric import up
from lab.guests import guest_kernel, kvm, nested, vm
from lab.testing import all_kernels, arm, coverage, mutants, qemus, runners, simulate, style, used
from lab.testing.progress import Progress

KVM_TESTS = "test_kvm or test_kicks"
NEWEST_KERNEL = image.RELEASES[-1]
# Guest tests that together use all interfaces between driver and kernel: registration, user memory, on-demand paging,
# MADs, IPoIB, power management.
KERNEL_TESTS = "test_driver or test_management or test_provider_checks or test_rc_pingpong or test_ud_pingpong"
VERDICT = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
# Parts that run the guest tests, with the environment of each.
GUESTS: dict[str, dict[str, str]] = {
    "guest": {},
    **{kind: {guest_kernel.VARIABLE: kind} for kind in debug_kernel.KINDS},
    "bookworm": {image.VARIABLE: "bookworm"},
    "sockets": {"PIB_TEST_HCA": "shared-memory=off"},
    "peer-copy": {"PIB_TEST_HCA": vm.PEER_COPY},
    "strict": {"PIB_TEST_HCA": "strict=fatal"},
}
# The variables by which a user chooses guests, with their defaults.
CHOICES = {image.VARIABLE: image.RELEASES[0], guest_kernel.VARIABLE: "debian"}
# Shares of the guest tests: two labs in parallel, because each waits half of its time. Together at most eight guests.
SHARES: dict[str, tuple[str, ...]] = {"shared lab": ("--labs=shared",), "own labs": ("--labs=own",)}
PARALLEL_MIB = 9216             # memory that two parallel labs, or a build beside tests, need
USUAL = "guest"
UNIT = "unit"
DEFAULT = (UNIT, USUAL)
ALL = "all"
BROWSER = "web"
DEBUGGERS = "debug"
DEBUGGED = ("trixie", "bookworm")       # releases of guests with debugger tests
PACKAGES = "packages"
# Free space for the trees in which packages are built and installed, and for images of the container and of guests.
PACKAGES_GIB, CONTAINERS_GIB = 6.0, 12.0
QEMU = "qemu"
QEMU_GIB = 5.0                  # free space for sources and programs of two QEMUs, and for the device built for each
ADVERSARY = "adversary"
ADVERSARY_SEEDS = 100
# Lists of Debian packages that only some parts need.
PACKAGES_OF = {UNIT: deps.DEBUGGER_LIST, BROWSER: deps.BROWSER_LIST, DEBUGGERS: deps.DEBUGGER_LIST,
               PACKAGES: deps.PACKAGING_LIST}


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of ./pib test. nightly: includes tests with the mark `nightly`. mutants: a pattern of names; None:
    all."""
    progress: Progress
    nightly: bool = False
    simulation: simulate.Wanted = simulate.Wanted()
    mutants: str | None = None


def _build_sanitized() -> None:
    try:
        host_build.build(host_build.SANITIZED)
    except ui.LabError:
        ui.say(f"{host_build.SANITIZED.name}/ cannot be built. The reason follows the tests that run now")
        raise


def _tests_of_the_plain_build(run: Run) -> Count:
    count = runners.pytest(run.progress, "tests/lab") + style.style(run.progress, run.nightly)
    if vm.module_usable():
        return count + runners.pytest(run.progress, "tests/qemu")
    ui.say("the device has not been built, so tests/qemu cannot run: counted as failed")
    return count + FAILURE


def unit(run: Run) -> Count:
    """Runs the unit tests. Meanwhile the sanitizer build runs in parallel with the tests that do not need it, which
    leave a processor idle."""
    host_build.build()
    parallel = memory.available_mib() >= PARALLEL_MIB
    with steps.beside(_build_sanitized) if parallel else contextlib.nullcontext():
        count = _tests_of_the_plain_build(run)
    return count + runners.meson(run.progress) + simulate.new_seeds(run.progress)


def _drawn_seed() -> int:
    return random.SystemRandom().randrange(2 ** 32)


def _one_adversary() -> dict[str, str]:
    """The environment of the adversary's test by day: a new seed for each run, which is printed."""
    seed = _drawn_seed()
    ui.say(f"seed of the adversary, again by: ./pib test {ADVERSARY} --seed {seed} --seeds 1")
    return {"PIB_ADVERSARY_SEED": str(seed)}


def _fitting(values: dict[str, str]) -> dict[str, str]:
    """The environment of guests that a part chooses. values: its choice. Kernels with checks are for one release: if
    the user has chosen another release, or a part with another release meets such a kernel, the user's choice yields.
    """
    chosen = {**CHOICES, **os.environ, **values}
    impossible = (chosen[guest_kernel.VARIABLE] in debug_kernel.KINDS
                  and chosen[image.VARIABLE] in image.RELEASES[1:])
    return CHOICES | values if impossible and CHOICES.keys() & values.keys() else values


@contextlib.contextmanager
def _guests_of(part: str, values: dict[str, str]) -> Iterator[None]:
    """Chooses the part's guests for the duration of the block. values: as for _fitting()."""
    fitting = _fitting(values)
    for name in fitting.keys() - values.keys():
        ui.say(f"{part}: {name}={os.environ[name]} does not fit these guests; they have {name}={fitting[name]}")
    with runners.environment(fitting):
        yield


def guests(run: Run, name: str) -> Count:
    """Runs the guest tests. name: that of the part, a key of GUESTS. In ./pib test all it also prints and checks what
    the tests have used of the device."""
    def tests() -> Count:
        return runners.pytest(run.progress, "tests/guest", *(["--nightly"] if run.nightly else []), name=_stage(name),
                              shares=SHARES if memory.available_mib() >= PARALLEL_MIB else None)

    with _guests_of(name, GUESTS[name]), runners.environment(_one_adversary()):
        up.prepare()
        return used.checked(tests) if run.nightly and name == USUAL else tests()


def _stage(name: str) -> str:
    return "tests/guest" if name == "guest" else f"tests/guest, {name}"


def adversary(run: Run) -> Count:
    """Boots guests with adversarial devices, one seed after the other."""
    wanted = run.simulation
    first = _drawn_seed() if wanted.seed is None else wanted.seed
    seeds = ADVERSARY_SEEDS if wanted.seeds is None else wanted.seeds
    ui.say(f"again: ./pib test {ADVERSARY} --seed {first} --seeds {seeds}")
    with runners.environment({"PIB_ADVERSARY": f"{first},{seeds}"}):
        up.prepare()
        return runners.pytest(run.progress, "tests/guest", "-k", "test_adversary", name=_stage(ADVERSARY))


def tsan(run: Run) -> Count:
    """Runs the multithreaded tests under the thread sanitizer."""
    return runners.meson(run.progress, host_build.THREADS, host_build.THREADED)


def browser(run: Run) -> Count:
    """Tests the page of ./pib web with simulated fabrics, and with a switch that has traffic."""
    host_build.build(more=(bench_host.FABRIC_LOAD,))
    return runners.pytest(run.progress, "tests/browser")


def on_kvm(run: Run) -> Count:
    """Runs the tests that need KVM; on a host without KVM, on an emulated host that has it."""
    base, _ = up.prepare()
    if kvm.accelerator(base) == "kvm":
        return runners.pytest(run.progress, "tests/guest", "-k", KVM_TESTS, name=_stage("kvm"))
    verdicts = VERDICT.findall(nested.run(base, ["./pib", "test", "kvm"]))
    if not verdicts:
        ui.say("the emulated host has died because of QEMU's emulation of SVM, not of the device: run it again")
        return FAILURE
    return Count(*map(int, verdicts[-1]))


def _renew_image(kernel: str) -> None:
    """Removes the image if it has another kernel, as after an update in the archive."""
    made = image.directory()
    if made.is_dir() and image.kernel_version(made) != kernel:
        cache.remove(made)


def on_kernels(run: Run) -> Count:
    """Compiles the driver for every kernel, and runs guest tests on the newest one of Debian 13."""
    count = all_kernels.check(run.progress)
    with _guests_of("kernels", {image.VARIABLE: NEWEST_KERNEL}):
        _renew_image(kernels.newest(kernels.kernels(kernels.tree(NEWEST_KERNEL))))
        up.prepare()
        return count + runners.pytest(run.progress, "tests/guest", "-k", KERNEL_TESTS, name=_stage(NEWEST_KERNEL))


def _debug_stage(release: str) -> str:
    return f"tests/debug, {release}"


def debug(run: Run) -> Count:
    """Runs the debugger tests with the kernels of both releases."""
    count = Count()
    for release in DEBUGGED:
        with _guests_of(DEBUGGERS, {image.VARIABLE: release}):
            up.prepare()
            count += runners.pytest(run.progress, "tests/debug", name=_debug_stage(release))
    return count


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of ./pib test. stages: names of its stages in progress lines, in order. builds: build directories. guests:
    whether it needs guests, or trees that are made as their image is. images: the environment of each image that it
    needs. entries: free space in GiB for other entries of the cache, by name. temporary_gib: free space in the
    directory for temporary files."""
    run: Callable[[Run], Count]
    stages: tuple[str, ...]
    builds: tuple[pathlib.Path, ...] = (paths.BUILD,)
    guests: bool = True
    images: tuple[dict[str, str], ...] = ({},)
    entries: Callable[[], dict[str, float]] = dict
    temporary_gib: float = 0

    def missing(self) -> dict[str, float]:
        """Free space in GiB for making what the part needs and the cache lacks, by name."""
        found = self.entries()
        for values in self.images if self.guests else ():
            with runners.environment(_fitting(values)):
                found |= guest_kernel.missing()
        return found

    def written(self) -> set[pathlib.Path]:
        """Directories of the cache in which builds for the part's guests write."""
        found: set[pathlib.Path] = set()
        for values in self.images if self.guests else ():
            with runners.environment(_fitting(values)):
                found |= {*guest_kernel.written()}
        return found


def _guests(name: str) -> Part:
    return Part(lambda run: guests(run, name), (_stage(name),), images=(GUESTS[name],))


def _needed(parts: list[Part]) -> preflight.Needed:
    missing: dict[str, float] = {}
    written: set[pathlib.Path] = set()
    for part in parts:
        missing |= part.missing()
        written |= part.written()
    return preflight.Needed(sum(missing.values()), temporary=max(part.temporary_gib for part in parts),
                            compiles=bool(missing), written=tuple(sorted(written)))


PARTS = {UNIT: Part(unit, ("tests/lab", *style.FOLDERS, "tests/qemu", host_build.SANITIZED.name,
                           simulate.NEW_SEEDS_STAGE), builds=(paths.BUILD, host_build.SANITIZED), guests=False),
         "style": Part(lambda run: style.style(run.progress), style.FOLDERS, guests=False),
         "simulate": Part(lambda run: simulate.simulate(run.progress, run.simulation), (simulate.STAGE,),
                          guests=False),
         "tsan": Part(tsan, (host_build.THREADS.name,), builds=(host_build.THREADS,), guests=False),
         "mutants": Part(lambda run: mutants.check(run.progress, run.mutants), (mutants.STAGE,)),
         "coverage": Part(lambda run: coverage.coverage(run.progress), (host_build.COVERAGE.name,),
                          builds=(host_build.COVERAGE,), guests=False),
         **{name: _guests(name) for name in GUESTS},
         ADVERSARY: Part(adversary, (_stage(ADVERSARY),)),
         "kvm": Part(on_kvm, (_stage("kvm"),)),
         "kernels": Part(on_kernels, (all_kernels.STAGE, _stage(NEWEST_KERNEL)),
                         images=({image.VARIABLE: NEWEST_KERNEL},), entries=kernels.missing),
         QEMU: Part(lambda run: qemus.check(run.progress), qemus.stages(), entries=lambda: {QEMU: QEMU_GIB}),
         "arm": Part(lambda run: arm.check(run.progress), (arm.STAGE,), images=(), entries=arm.missing),
         BROWSER: Part(browser, ("tests/browser",), guests=False),
         DEBUGGERS: Part(debug, tuple(map(_debug_stage, DEBUGGED)),
                         images=tuple({image.VARIABLE: release} for release in DEBUGGED)),
         PACKAGES: Part(lambda run: runners.pytest(run.progress, "tests/packages"), ("tests/packages",),
                        entries=lambda: {PACKAGES: PACKAGES_GIB}, temporary_gib=CONTAINERS_GIB)}


ALL_PARTS = tuple(name for name in PARTS if name != "style")      # "unit" includes it


def _whole(pattern: str | None) -> bool:
    """Whether stages run all of their tests. Only then are their durations kept."""
    return pattern is None and "PYTEST_ADDOPTS" not in os.environ


def _count(name: str, run: Run) -> Count:
    """Runs a part. At night a part that cannot run, for example because the mirror lacks its packages, is a failure,
    and the other parts still run."""
    try:
        return PARTS[name].run(run)
    except ui.LabError as error:
        if not run.nightly:
            raise
        ui.say(f"{name}: {error}")
        return FAILURE


def test(name: str | None, simulation: simulate.Wanted = simulate.Wanted(), pattern: str | None = None) -> int:
    """Runs tests; returns an exit status. name: one of PARTS, or ALL; None: the parts in DEFAULT. pattern: which
    mutants, by name."""
    if os.pathsep in str(paths.ROOT):
        raise ui.LabError(f"{paths.ROOT}: tests find their modules by PYTHONPATH, where a colon separates directories. "
                          "Use a checkout without a colon in its path")
    names = DEFAULT if name is None else ALL_PARTS if name == ALL else (name,)
    parts = [PARTS[part] for part in names]
    up.machine(deps.TEST_LIST, *dict.fromkeys(PACKAGES_OF[part] for part in names if part in PACKAGES_OF),
               guests=pattern is None and any(part.guests for part in parts),
               needed=_needed(parts) if pattern is None else preflight.Needed(),
               builds={directory for part in parts for directory in part.builds})
    paths.RUN.mkdir(exist_ok=True)
    progress = Progress([stage for part in parts for stage in part.stages], whole=_whole(pattern))
    run = Run(progress, nightly=name == ALL, simulation=simulation, mutants=pattern)
    count = sum((_count(part, run) for part in names), Count())
    print(f"\n{count.passed} passed, {count.failed} failed", flush=True)
    return 0 if count.passed and not count.failed else 1
