# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with peer copy (peer-copy=on): the right bytes arrive even if regions, drivers or the switch fail
meanwhile."""
import os
import signal
import time

import pytest

from lab.guests import vm
from labs import booted, hca_options
from rdma import DEVICE, kernel_complaints, perftest, perftest_rows, resources, wait_active, wait_until
from traffic import lossy_wires, random_traffic, stop_transfer, transfer, unbind_and_bind

MESSAGE = 1 << 20
pytestmark = pytest.mark.skipif("shared-memory=off" in hca_options(), reason="peer copy needs shared memory")


@pytest.fixture(scope="module")
def sharing():
    with booted("test-peer-copy", 2, hca=vm.PEER_COPY) as running:
        nodes = running.node("vm0"), running.node("vm1")
        wait_active(*nodes)
        yield running
        for node in nodes:
            assert kernel_complaints(node) == []


@pytest.fixture
def guests(sharing):
    """Both guests, once the switch copies from and to their memory."""
    nodes = sharing.node("vm0"), sharing.node("vm1")
    wait_active(*nodes)
    for node in nodes:
        wait_until(lambda: copies(sharing, node) == "one", "the memory to be shared")
    return nodes


def copies(sharing, node):
    return vm.device_property(sharing.monitor(node.name), "objects")["ports"]["entries"][0]["copies"]


def bandwidth(guests, program):
    line = f"{program} -s {MESSAGE} -n 500 -d {DEVICE} -F"
    rows = perftest_rows(perftest(*guests, line))
    assert len(rows) == 1 and rows[0][-1] > 0


def test_random_traffic_is_bit_exact(guests):
    random_traffic(*guests, 64, 11)


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_bw -c XRC",
                                     "ib_write_bw -c UC"])
def test_long_messages_arrive(guests, program):
    bandwidth(guests, program)


def test_random_traffic_over_a_lossy_wire(sharing, guests):
    with lossy_wires(sharing, *guests):
        random_traffic(*guests, 8, 12)


@pytest.fixture
def writing(guests):
    """Long messages from vm1 to vm0. Yields the numbers of objects that both had before."""
    before = [resources(node) for node in guests]
    with transfer(*guests, f"-s {MESSAGE}"):
        yield before


@pytest.mark.parametrize("end", [0, 1])
def test_regions_may_be_destroyed_during_a_transfer(guests, writing, end):
    """Regions of the receiver, to which the switch writes, and of the sender, from which it reads."""
    stop_transfer(guests[end])
    wait_until(lambda: resources(guests[end]) == writing[end], "the killed program's objects to be freed")
    stop_transfer(guests[1 - end])
    random_traffic(*guests, 16, 13)


def test_vms_may_be_stopped_during_a_transfer(sharing, guests, writing):
    for node in guests:
        vm.monitor_command(sharing.monitor(node.name), "stop")
        time.sleep(0.5)
        vm.monitor_command(sharing.monitor(node.name), "cont")
    stop_transfer(*guests)
    random_traffic(*guests, 16, 14)


def test_a_switch_may_stand_still_during_a_transfer(sharing, guests, writing):
    """Revocation of memory waits for the switch for a second, then closes the link; the link comes back."""
    pid = sharing.state.processes[sharing.switch().name].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        for end, node in enumerate(guests):
            stop_transfer(node)
            wait_until(lambda: resources(node) == writing[end], "the killed program's objects to be freed")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_active(*guests)
    random_traffic(*guests, 16, 15)


def test_a_switch_may_be_killed_during_a_transfer(sharing, guests, writing):
    sharing.stop_switch(signal.SIGKILL)
    stop_transfer(*guests)
    sharing.start_switch()
    wait_active(*guests)
    for node in guests:
        wait_until(lambda: copies(sharing, node) == "one", "the memory to be shared again")
    random_traffic(*guests, 16, 16)


def test_the_driver_is_unbound_during_a_transfer(guests, writing):
    unbind_and_bind(guests[1], lambda: stop_transfer(*guests))
    wait_active(*guests)
    random_traffic(*guests, 16, 17)
