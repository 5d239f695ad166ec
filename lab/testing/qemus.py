# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test qemu: the device in the QEMU of Debian 13 and in the newest of its backports, compiled for each."""

import os

from lab import paths, ui
from lab.build import host_build, qemu_headers, qemu_release
from lab.testing import runners
from lab.testing.counts import FAILURE, Count
from lab.testing.progress import Progress

RELEASES = ("trixie", "trixie-backports")
GUESTS = "test_management or test_rc_pingpong or test_ud_pingpong or test_provider_checks or test_interrupts"


def stages() -> tuple[str, ...]:
    return tuple(f"{folder}, QEMU of {release}" for release in RELEASES for folder in ("tests/qemu", "tests/guest"))


def _environment(qemu: qemu_release.Release, build: str) -> dict[str, str]:
    """In which tests find this QEMU and the device for it."""
    return {"PATH": f"{qemu.bin}:{os.environ['PATH']}", paths.BUILD_VARIABLE: build,
            qemu_headers.VARIABLE: str(qemu.headers)}


def _check(progress: Progress, release: str) -> Count:
    qemu = qemu_release.ensure(release)
    build = host_build.build(paths.ROOT / f"build-qemu-{release}", qemu.headers)
    with runners.environment(_environment(qemu, str(build))):
        ui.say(f"QEMU {qemu.version}")
        return (runners.pytest(progress, "tests/qemu", name=f"tests/qemu, QEMU of {release}")
                + runners.pytest(progress, "tests/guest", "-k", GUESTS, name=f"tests/guest, QEMU of {release}"))


def check(progress: Progress) -> Count:
    """A QEMU that cannot be had is a failure, and the others are tested all the same."""
    count = Count()
    for release in RELEASES:
        try:
            count += _check(progress, release)
        except ui.LabError as error:
            ui.say(f"QEMU of {release}: {error}")
            count += FAILURE
    return count
