# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test qemu: tests the device in the QEMUs of Debian 13 and of its backports, and in Debian's newest QEMU. For
each the device is compiled twice: to be loaded into Debian's program, and in QEMU's own tree."""

import functools
import os
import pathlib
from collections.abc import Callable

from lab.base import paths, ui
from lab.base.counts import Count, FAILURE
from lab.build import debian, host_build, qemu_headers, qemu_release, qemu_tree
from lab.testing import runners
from lab.testing.progress import Progress

# Each QEMU to test, with the releases that may have it. The tests take the newest version whose source the mirror has;
# a newer version without source counts as a failure.
QEMUS = {"QEMU 10.0": ("trixie",), "QEMU of backports": ("trixie-backports",),
         "the newest QEMU": ("trixie-backports", "testing")}
GUESTS = "test_management or test_rc_pingpong or test_ud_pingpong or test_provider_checks or test_names_of_interrupts"


def _stages(name: str) -> tuple[str, str, str]:
    return f"tests/qemu, {name}", f"tests/guest, {name}", f"tests/qemu, in the tree of {name}"


def stages() -> tuple[str, ...]:
    return tuple(stage for name in QEMUS for stage in _stages(name))


def _newest(name: str, releases: tuple[str, ...]) -> tuple[qemu_release.Release, list[str]]:
    """The newest QEMU of the releases whose source is available, and the newer ones whose source is not, as "VERSION of
    RELEASE". Prints why each of the newer ones cannot be tested."""
    versions = debian.newest_first({release: qemu_release.newest(release) for release in releases})
    missing: list[str] = []
    for release, version in versions:
        try:
            return qemu_release.ensure(release), missing
        except ui.LabError as error:
            ui.say(f"{name}: {version} of {release} CANNOT BE TESTED: {error}")
            missing.append(f"{version} of {release}")
    raise ui.LabError(f"{name}: the mirror has no source of {' or '.join(missing)}. Take another mirror in "
                      "/etc/apt/sources.list.d")


def _loaded(progress: Progress, name: str, qemu: qemu_release.Release) -> Count:
    """Tests the device loaded into Debian's program."""
    build = host_build.build(_build(name), qemu.headers)
    without_guests, with_guests, _ = _stages(name)
    with runners.environment({"PATH": f"{qemu.bin}:{os.environ['PATH']}", paths.BUILD_VARIABLE: str(build),
                              qemu_headers.VARIABLE: str(qemu.headers)}):
        return (runners.pytest(progress, "tests/qemu", name=without_guests)
                + runners.pytest(progress, "tests/guest", "-k", GUESTS, name=with_guests))


def _in_tree(progress: Progress, name: str, qemu: qemu_release.Release) -> Count:
    """Tests the device compiled in QEMU's tree. Such a QEMU loads no modules, so it cannot take the module by
    mistake."""
    with (qemu_tree.compiled(qemu.version, debian.release_suites(qemu.release)) as folder,
          runners.environment({"PATH": f"{folder}:{os.environ['PATH']}", paths.BUILD_VARIABLE: str(_build(name)),
                               qemu_headers.VARIABLE: str(qemu.headers)})):
        return runners.pytest(progress, "tests/qemu", name=_stages(name)[2])


def _build(name: str) -> pathlib.Path:
    return paths.ROOT / f"build-{name.replace(' ', '-').lower()}"


def _counted(what: str, check: Callable[[], Count]) -> Count:
    """Runs a check. If it cannot be made, prints why and counts one failure, so that other checks still run."""
    try:
        return check()
    except ui.LabError as error:
        ui.say(f"{what}: {error}")
        return FAILURE


def _check(progress: Progress, name: str, releases: tuple[str, ...], done: set[str]) -> Count:
    """Tests one QEMU, unless that of its release is in `done`. An older version than the newest is tested as well, but
    the part then counts a failure, because nothing is known about the newest."""
    qemu, missing = _newest(name, releases)
    tested = f"{name}: {qemu.version} of {qemu.release}"
    if qemu.release in done:
        ui.say(f"{tested}, which has been tested")
        return Count()
    done.add(qemu.release)
    ui.say(tested)
    count = (_counted(name, lambda: _loaded(progress, name, qemu))
             + _counted(f"{name}, with the device in its tree", lambda: _in_tree(progress, name, qemu)))
    if not missing:
        return count
    ui.say(f"{tested} was tested, {' and '.join(missing)} NOT: the mirror lacks the source. That is one failure. Take "
           "another mirror in /etc/apt/sources.list.d")
    return count + FAILURE


def check(progress: Progress) -> Count:
    done: set[str] = set()
    return sum((_counted(name, functools.partial(_check, progress, name, releases, done))
                for name, releases in QEMUS.items()), Count())
