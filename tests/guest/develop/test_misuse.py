# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies of our driver and provider that break a rule each, on a strict device, which has to name the rule. See
develop/misuse."""
import contextlib
import pathlib
import shutil
import subprocess

import pytest

from lab.base import ui
from lab.build import guest_build, kernel_module
from lab.develop import commands, provider
from lab.fabric import up
from lab.guests import vm
from lab.testing import misuse, patches
from labs import booted
from rdma import sh, wait_until

pytestmark = pytest.mark.nightly
NODE, PEER = "vm1", "vm0"
# iommu: the device notices memory that the driver has freed. doorbells=eventfd: shadow doorbell pages without KVM.
HCA, SIZE = "strict=on,doorbells=eventfd", vm.Size(iommu=True)
# Queries the SA until it answers, which takes a while at a new port. With a faulty driver it may never answer.
SEND = "timeout 30 sh -c 'until saquery >/dev/null 2>&1; do sleep 0.3; done'; true"
A_MINUTE = ("8.3.11", "9.1.1", "9.1.2", "9.1.3", "9.1.5", "10.1.5")     # rules that give a driver 60 s
NEEDS_IOMMU = "7.2.5"
PROGRAM_S = 60                  # limit for the program of a faulty provider
FAULTS = {part: [fault for fault in misuse.load() if fault.part == part]
          for part in (kernel_module.DRIVER, guest_build.PROVIDER)}


@pytest.fixture(scope="module", name="bench")
def guests_with_strict_devices():
    with booted("test-misuse", 2, hca=HCA, size=SIZE) as running:
        yield running


@pytest.fixture(scope="module", name="copy")
def copy_of_our_driver_and_provider(tmp_path_factory):
    """One copy for all faults, so that only changed files are compiled."""
    return misuse.copy(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module", name="our_library")
def our_provider_as_it_is_built(bench, tmp_path_factory):
    built = provider.compile_in(commands.image_of(bench), guest_build.OUR_PROVIDER)
    return pathlib.Path(shutil.copy(built, tmp_path_factory.mktemp("provider")))


class Named:
    """The rules that the device of the guest has named since the creation of this object."""

    def __init__(self, lab):
        self._lab = lab
        self._since = max((entry["time_ns"] for entry in self._entries()), default=0)
        self.rules = set()

    def _entries(self):
        return vm.device_property(self._lab.monitor(NODE), "objects")["refusals"]["entries"]

    def look(self):
        self.rules |= {entry["rule"] for entry in self._entries() if entry["time_ns"] > self._since}
        return self.rules


def exchange(lab, source, said):
    """Exchanges the driver of the guest; adds the error of a failed exchange to `said`."""
    try:
        commands.exchange_driver(lab, source, [NODE])
    except ui.LabError as error:
        said.append(str(error))


def take_our_driver_back(lab, said):
    """Exchanges the faulty driver for ours; reboots the guest if the faulty driver prevents that."""
    before = len(said)
    exchange(lab, kernel_module.OURS, said)
    if len(said) > before:
        up.reboot(lab, NODE)


def test_our_driver_breaks_no_rule(bench):
    named = Named(bench)
    for _ in range(2):
        commands.exchange_driver(bench, kernel_module.OURS, [NODE])
        sh(bench.node(NODE), SEND)
    assert named.look() == set()


def let_it_send(bench, fault, named):
    """Sends data, unless the device has named the rule already; waits if the rule gives the driver a minute."""
    if fault.rule not in named.look():
        sh(bench.node(NODE), SEND)
    if fault.rule in A_MINUTE:
        wait_until(lambda: fault.rule in named.look(), f"the device to name rule {fault.rule} after a minute")


@pytest.mark.parametrize("fault", FAULTS[kernel_module.DRIVER], ids=lambda fault: fault.name)
def test_the_rule_of_a_faulty_driver_is_named(bench, copy, fault):
    """The driver breaks the rule at its start, when it sends, or at its end."""
    if fault.rule == NEEDS_IOMMU and not sh(bench.node(NODE), "ls /sys/class/iommu").strip():
        pytest.skip("the kernel of the guest has no driver for the IOMMU")
    named, said = Named(bench), []
    try:
        with patches.applied(copy, fault):
            exchange(bench, copy / kernel_module.DRIVER, said)
        if bench.alive(NODE):
            let_it_send(bench, fault, named)
    finally:
        take_our_driver_back(bench, said)
    sh(bench.node(NODE), "dmesg --clear")      # the kernel may complain about a faulty driver
    assert fault.rule in named.look(), f"{fault.title} Named: {sorted(named.rules)}\n" + "\n".join(said)


def exchange_provider(lab, library):
    provider.exchange(lab.node(NODE), library, guest_build.provider_name())


def started(node, line):
    """Starts a program in the guest that runs the line repeatedly until it succeeds."""
    again = f"exec timeout {PROGRAM_S} sh -c 'until {line} >/dev/null 2>&1; do sleep 0.3; done'"
    return node.start([again], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def running(lab, runs):
    """Runs the program in NODE and, if it has a server, the server in PEER during the block; yields the program."""
    programs = [started(lab.node(PEER), runs.replace(misuse.PEER, ""))] if misuse.PEER in runs else []
    programs.insert(0, started(lab.node(NODE), runs.replace(misuse.PEER, PEER)))
    try:
        yield programs[0]
    finally:
        for program in programs:
            program.end()


@pytest.mark.parametrize("fault", FAULTS[guest_build.PROVIDER], ids=lambda fault: fault.name)
def test_the_rule_of_a_faulty_provider_is_named(bench, copy, our_library, fault):
    named = Named(bench)
    with patches.applied(copy, fault):
        exchange_provider(bench, provider.compile_in(commands.image_of(bench), copy / guest_build.PROVIDER))
    try:
        with running(bench, fault.runs) as program:
            wait_until(lambda: fault.rule in named.look() or program.poll() is not None, f"the end of {fault.runs}")
    finally:
        exchange_provider(bench, our_library)
    assert fault.rule in named.look(), f"{fault.title} Named: {sorted(named.rules)}"
