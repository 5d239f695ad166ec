# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests between which the switch copies (zero-copy=switch): the same bytes arrive, whatever goes away meanwhile."""
import subprocess
import time

import pytest

from lab import vm
from rdma import (DEVICE, PATIENCE_S, booted, kernel_complaints, pair, perftest_rows, put_program, resources, sh,
                  switch_port, wait_active, wait_until)

MESSAGE = 1 << 20


@pytest.fixture(scope="module")
def sharing():
    with booted("test-zero-copy", 2, hca_options=vm.ZERO_COPY) as running:
        nodes = running.node("vm0"), running.node("vm1")
        wait_active(*nodes)
        for node in nodes:
            put_program(node, "random_traffic.py")
        yield running
        for node in nodes:
            assert kernel_complaints(node) == []


@pytest.fixture
def guests(sharing):
    """Both of them, at work with one copy."""
    nodes = sharing.node("vm0"), sharing.node("vm1")
    wait_active(*nodes)
    for node in nodes:
        wait_until(lambda: copies(sharing, node) == "one", "the memory to be shared")
    return nodes


def copies(sharing, node):
    return vm.device_property(sharing.monitor(node.name), "objects")["ports"]["entries"][0]["copies"]


def random_traffic(guests, mib, seed):
    vm0, vm1 = guests
    line = f"timeout {PATIENCE_S} python3 /tmp/random_traffic.py {DEVICE} {mib} {seed}"
    server = vm0.start([line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = sh(vm1, f"{line} vm0", timeout=PATIENCE_S + 60)
    heard = server.communicate(timeout=PATIENCE_S)[0].decode()
    assert "the same at both ends" in said and said == heard, said + heard


def bandwidth(guests, program):
    line = f"{program} -s {MESSAGE} -n 500 -d {DEVICE} -F"
    rows = perftest_rows(pair(*guests, line, f"{line} vm0")[0])
    assert len(rows) == 1 and rows[0][-1] > 0


def test_random_traffic_is_bit_exact(guests):
    random_traffic(guests, 64, 11)


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_bw -c XRC", "ib_write_bw -c UC"])
def test_long_messages(guests, program):
    bandwidth(guests, program)


def test_random_traffic_over_a_lossy_wire(sharing, guests):
    ports = [switch_port(sharing, node) for node in guests]
    for port in ports:
        sharing.switch().ctl("fault", port, "--drop", "0.01")
    try:
        random_traffic(guests, 8, 12)
    finally:
        for port in ports:
            sharing.switch().ctl("fault", port, "--clear")


@pytest.fixture
def transfer(guests):
    """ib_write_bw of long messages for a minute, vm1 to vm0. Yields what vm1 had before."""
    def run(node, line):
        return node.start([line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    vm0, vm1 = guests
    before = resources(vm0), resources(vm1)
    line = f"ib_write_bw -s {MESSAGE} -D 60 -d {DEVICE} -F"
    server = run(vm0, f"exec timeout 120 {line}")
    client = run(vm1, f"until {line} vm0; do sleep 0.3; done")
    try:
        wait_until(lambda: resources(vm1)["qp"] > before[1]["qp"], "the program's QP")
        time.sleep(2)
        client.kill()
        yield before
    finally:
        for node in guests:
            sh(node, "pkill -f 'until ib_write_bw'; pkill -9 -x ib_write_bw", check=False)
        server.kill()


def kill(node):
    sh(node, "pkill -f 'until ib_write_bw'; pkill -9 -x ib_write_bw", check=False)


@pytest.mark.parametrize("end", [0, 1])
def test_regions_that_go_during_a_transfer(guests, transfer, end):
    """The receiver's, into which the switch writes; and the sender's, from which it reads."""
    kill(guests[end])
    wait_until(lambda: resources(guests[end]) == transfer[end], "the killed program's objects to be freed")
    kill(guests[1 - end])
    random_traffic(guests, 16, 13)
