# SPDX-License-Identifier: GPL-2.0-or-later
"""Failures in two guests: unloading, killing, lost packets, a lost switch."""
import signal
import subprocess

import pytest

from rdma import (DEVICE, PATIENCE_S, kernel_complaints, pair, perftest_rows, port_state, put_program,
                  reload_the_driver, resources, sh, switch_port, wait_active, wait_until)
from traffic import lossy_wires, random_traffic, stop_transfer, transfer, unbind_and_bind


@pytest.mark.nightly
def test_a_gigabyte_over_a_lossy_wire_is_bit_exact(lab, vm0, vm1):
    with lossy_wires(lab, vm0, vm1, least_lost=5000):
        random_traffic(vm0, vm1, 1024, 7, PATIENCE_S * 4)


@pytest.fixture
def writing(vm0, vm1):
    """vm1 writes to vm0. Yields the number of objects that both had before."""
    before = resources(vm0), resources(vm1)
    with transfer(vm0, vm1):
        yield before


def test_killed_program_leaves_no_object(vm1, writing):
    stop_transfer(vm1)
    wait_until(lambda: resources(vm1) == writing[1], "the killed program's objects to be freed")


def test_driver_is_unbound_under_a_program(vm0, vm1, writing):
    """The program loses the device and its objects, nothing else is affected, and the device comes back."""
    unbind_and_bind(vm1, lambda: stop_transfer(vm1))
    wait_active(vm1)
    stop_transfer(vm0)
    line = f"ib_write_bw -s 65536 -n 200 -d {DEVICE} -F"
    assert perftest_rows(pair(vm0, vm1, line, f"{line} vm0")[0])


def test_reload_the_driver(vm1):
    reload_the_driver(vm1, 3)


@pytest.mark.nightly
def test_reload_the_driver_twenty_times(vm1):
    reload_the_driver(vm1, 20)


def loses_a_path(lab, vm0, program):
    """Runs a program with QPs at both ports, and cuts port 1's path when the program is ready."""
    wait_until(lambda: sh(vm0, f"grep -l ACTIVE /sys/class/infiniband/{DEVICE}/ports/*/state").count("\n") == 2,
               "both ports to be ACTIVE")
    put_program(vm0, program)
    cable = switch_port(lab, vm0)
    running = vm0.start([f"exec timeout {PATIENCE_S} python3 /tmp/{program} {DEVICE}"], text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = running.stdout.readline()
        assert said == "armed\n", said
        assert lab.switch().ctl("fault", cable, "--direction", "both", "--drop", "1")
        out, _ = running.communicate("go\n", timeout=PATIENCE_S)
        assert (running.returncode, out) == (0, "migrated\n"), out
    finally:
        running.kill()
        lab.switch().ctl("fault", cable, "--clear")


def test_a_qp_leaves_a_failed_path_for_the_other(lab, vm0):
    """Automatic path migration over the two ports of one HCA."""
    loses_a_path(lab, vm0, "path_failure.py")


def test_the_alternate_path_of_lap_and_apr_is_taken(lab, vm0):
    sh(vm0, "modprobe -r ib_ipoib rdma_ucm; modprobe -r ib_cm || { lsmod; exit 1; }")
    try:
        loses_a_path(lab, vm0, "alternate_path.py")
    finally:
        sh(vm0, "modprobe -a ib_ipoib rdma_ucm")


def test_killed_switch_comes_back(lab, vm0, vm1):
    lab.stop_switch(signal.SIGKILL)
    for node in (vm0, vm1):
        wait_until(lambda: "DOWN" in port_state(node), f"{node.name}'s port to go Down")
    lab.start_switch()
    wait_active(vm0, vm1)
    line = f"ib_write_bw -s 65536 -n 200 -d {DEVICE} -F"
    out, _ = pair(vm0, vm1, line, f"{line} vm0")
    assert perftest_rows(out), out


def test_kernel_logs_are_clean(vm0, vm1):
    for node in (vm0, vm1):
        assert kernel_complaints(node) == []
