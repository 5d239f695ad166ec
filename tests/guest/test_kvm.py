# SPDX-License-Identifier: GPL-2.0-or-later
"""Interrupts that KVM sends through irqfds, without QEMU. `./pib test kvm` runs this on any host."""
import pytest

from lab.guests import vm
from rdma import pair, wait_active, wait_until
from traffic import unbind_and_bind

MESSAGES = 200


@pytest.fixture(scope="module")
def guests(lab, vm0, vm1):
    if lab.state.accel != "kvm":
        pytest.skip("the guests are emulated: ./pib test kvm has an emulated host with KVM")
    return vm0, vm1


def interrupts(lab, node):
    return vm.device_property(lab.monitor(node.name), "interrupts")


def test_completion_events_go_by_irqfd(lab, guests):
    before = [interrupts(lab, node) for node in guests]
    line = f"ib_send_lat -e -s 8 -n {MESSAGES}"
    pair(*guests, line, f"{line} vm0")
    for node, then in zip(guests, before):
        now = interrupts(lab, node)
        assert now["irqfds"] > 0
        assert now["by_irqfd"] - then["by_irqfd"] >= MESSAGES // 2   # each message of the guest waits for an event
        assert now["by_qemu"] - then["by_qemu"] < MESSAGES // 10     # interrupts of masked vectors


def test_without_a_driver_there_is_no_irqfd(lab, guests):
    node = guests[1]
    unbind_and_bind(node, lambda: wait_until(lambda: interrupts(lab, node)["irqfds"] == 0, "the irqfds to go"))
    wait_active(*guests)
    wait_until(lambda: interrupts(lab, node)["irqfds"] > 0, "irqfds")
