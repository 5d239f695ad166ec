# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of ./pib test, and its verdict.

Units are meson's tests, built with sanitizers, and QEMU's own view of the device
without a guest; guests are pytest against booted guests.
"""

import os
import re

from lab import paths, ui, up
from lab.build import deps, host_build
from lab.guests import guest_kernel, image, kvm, nested, vm
from lab.testing import runners, style
from lab.testing.counts import FAILURE, Count

DEFAULT = ("unit", "guest")
KVM_TESTS = "test_kvm or test_kicks"
VERDICT = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)


def unit() -> Count:
    host_build.build()
    count = runners.pytest("tests/lab") + style.style()
    if vm.module_usable():
        count += runners.pytest("tests/qemu")
    else:
        ui.say("the device has not been built, so tests/qemu cannot run: counted as failed")
        count += FAILURE
    return count + runners.meson()


def guest() -> Count:
    up.prepare()
    return runners.pytest("tests/guest")


def lockdep() -> Count:
    guest_kernel.choose("lockdep")
    return guest()


def tsan() -> Count:
    """What threads do to each other's memory, in the tests that have threads, and in the switch that others run."""
    return runners.meson(host_build.THREADS, host_build.THREADED)


def bookworm() -> Count:
    image.choose("bookworm")
    return guest()


def sockets() -> Count:
    os.environ["PIB_TEST_HCA"] = "shared-memory=off"
    return guest()


def one_copy() -> Count:
    os.environ["PIB_TEST_HCA"] = vm.ZERO_COPY
    return guest()


def on_kvm() -> Count:
    """What KVM does for the device; where it does not work, on an emulated host on which it does."""
    base, _ = up.prepare()
    if kvm.accelerator(base) == "kvm":
        return runners.pytest("tests/guest", "-k", KVM_TESTS)
    verdicts = VERDICT.findall(nested.run(base, ["./pib", "test", "kvm"]))
    if not verdicts:
        ui.say("the emulated host has died, which is QEMU's emulation of SVM and not the device: run it again")
        return FAILURE
    return Count(*map(int, verdicts[-1]))


RUNNERS = {"unit": unit, "guest": guest, "lockdep": lockdep, "bookworm": bookworm, "sockets": sockets,
           "one-copy": one_copy, "kvm": on_kvm, "tsan": tsan,
           "style": style.style}


def test(part: str | None) -> int:
    """part: a name of RUNNERS; None: those of DEFAULT."""
    deps.install()
    paths.RUN.mkdir(exist_ok=True)
    count = sum((RUNNERS[name]() for name in ([part] if part else DEFAULT)), Count())
    print(f"\n{count.passed} passed, {count.failed} failed", flush=True)
    return 0 if count.passed and not count.failed else 1
