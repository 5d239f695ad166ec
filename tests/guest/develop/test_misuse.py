# SPDX-License-Identifier: GPL-2.0-or-later
"""Real drivers that break a rule each, on a strict device that names the rule: see tests/guest/develop/misuse."""
import pytest

from lab import ui, up
from lab.build import kernel_module
from lab.develop import commands
from lab.guests import vm
from lab.testing import misuse, patches
from labs import booted
from rdma import sh

pytestmark = pytest.mark.nightly
NODE = "vm1"
# Takes as long as the subnet manager needs for the new port. A faulty driver may never succeed.
SEND = "timeout 30 sh -c 'until saquery >/dev/null 2>&1; do sleep 0.3; done'; true"


@pytest.fixture(scope="module", name="bench")
def guests_with_strict_devices():
    with booted("test-misuse", 2, hca="strict=on") as running:
        yield running


@pytest.fixture(scope="module", name="copy")
def copy_of_our_driver(tmp_path_factory):
    """One for all faults: then only files that differ are compiled."""
    return misuse.copy(tmp_path_factory.mktemp("driver"))


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
    """Exchanges the driver of the guest; adds the error, if there is one, to what was said."""
    try:
        commands.exchange_driver(lab, source, [NODE])
    except ui.LabError as error:
        said.append(str(error))


def take_our_driver_back(lab, said):
    """By an exchange, or with the guest started anew if the faulty driver prevents that."""
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


@pytest.mark.parametrize("fault", misuse.load(), ids=lambda fault: fault.name)
def test_the_rule_of_a_faulty_driver_is_named(bench, copy, fault):
    """At its start, when it sends, or at its end."""
    named, said = Named(bench), []
    try:
        with patches.applied(copy, fault):
            exchange(bench, copy / kernel_module.DRIVER, said)
        if bench.alive(NODE) and fault.rule not in named.look():
            sh(bench.node(NODE), SEND)
            named.look()
    finally:
        take_our_driver_back(bench, said)
    sh(bench.node(NODE), "dmesg --clear")      # the kernel may complain about a faulty driver
    assert fault.rule in named.look(), f"{fault.title} Named: {sorted(named.rules)}\n" + "\n".join(said)
