# SPDX-License-Identifier: GPL-2.0-or-later
"""Things that go wrong in two guests: unloading, killing, losing packets, losing the switch."""
import re
import signal
import subprocess
import time

import pytest

from rdma import (DEVICE, PATIENCE_S, kernel_complaints, pair, perftest_rows, port_state, put_program, resources, sh,
                  switch_port, wait_active, wait_until)


@pytest.fixture
def lossy_wire(lab, vm0, vm1):
    """Each packet between a guest and the switch is lost with a probability of 1 %, both ways."""
    ports = [switch_port(lab, node) for node in (vm0, vm1)]
    for port in ports:
        assert lab.switch().ctl("fault", port, "--direction", "both", "--drop", "0.01", "--seed", "1")
    yield
    lost = 0
    for port in ports:
        shown = lab.switch().ctl("fault", port)
        lost += sum(int(number) for number in re.findall(r"dropped\D*(\d+)", shown))
        lab.switch().ctl("fault", port, "--clear")
    assert lost > 5000, "the wire was not lossy"


def test_a_gigabyte_over_a_lossy_wire_is_bit_exact(vm0, vm1, lossy_wire):
    line = f"timeout {PATIENCE_S * 4} python3 /tmp/random_traffic.py {DEVICE} 1024 7"
    for node in (vm0, vm1):
        put_program(node, "random_traffic.py")
    server = vm0.start([line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = sh(vm1, f"{line} vm0", timeout=PATIENCE_S * 5)
    heard = server.communicate(timeout=PATIENCE_S)[0].decode()
    assert "the same at both ends" in said and said == heard, said + heard


@pytest.fixture
def transfer(vm0, vm1):
    """ib_write_bw between the guests for a minute; vm1 is the sender. Ends with the test."""
    def run(node, line):
        return node.start([line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    before = resources(vm1)
    server = run(vm0, f"exec timeout 120 ib_write_bw -D 60 -d {DEVICE} -F")
    client = run(vm1, f"until ib_write_bw -D 60 -d {DEVICE} -F vm0; do sleep 0.3; done")
    try:
        wait_until(lambda: resources(vm1)["qp"] > before["qp"], "the program's QP")
        time.sleep(2)
        client.kill()
        yield before
    finally:
        for node in (vm0, vm1):
            sh(node, "pkill -f 'until ib_write_bw'; pkill -9 -x ib_write_bw", check=False)
        server.kill()


def test_killed_program_leaves_no_object(vm1, transfer):
    sh(vm1, "pkill -f 'until ib_write_bw'; pkill -9 -x ib_write_bw", check=False)
    wait_until(lambda: resources(vm1) == transfer, "the killed program's objects to be freed")


def test_driver_is_unbound_under_a_program(vm0, vm1, transfer):
    """The program is cut off and its objects are gone; nothing else minds, and the device comes back."""
    where = sh(vm1, f"readlink -f /sys/class/infiniband/{DEVICE}/device").strip()
    slot = where.rsplit("/", 1)[1]
    sh(vm1, f"echo {slot} >{where}/driver/unbind")
    assert DEVICE not in sh(vm1, "ls /sys/class/infiniband")
    sh(vm1, "pkill -f 'until ib_write_bw'; pkill -9 -x ib_write_bw", check=False)
    sh(vm1, f"echo {slot} >/sys/bus/pci/drivers/pib_hca/bind")
    wait_until(lambda: DEVICE in sh(vm1, "ls /sys/class/infiniband"), "the device to come back")
    wait_active(vm1)
    sh(vm0, "pkill -9 -x ib_write_bw", check=False)
    line = f"ib_write_bw -s 65536 -n 200 -d {DEVICE} -F"
    assert perftest_rows(pair(vm0, vm1, line, f"{line} vm0")[0])


def test_reload_the_driver_twenty_times(vm1):
    module = sh(vm1, "modinfo -n pib_hca 2>/dev/null || find / -xdev -name pib_hca.ko | head -1").strip()
    assert module
    for _ in range(20):
        sh(vm1, "modprobe -r ib_ipoib ib_umad rdma_ucm 2>/dev/null; rmmod -v pib_hca || "
                "{ cd /sys/module/pib_hca; grep . initstate refcnt; ls holders; lsmod; ps ax; exit 1; }")
        assert DEVICE not in sh(vm1, "ls /sys/class/infiniband 2>/dev/null; true")
        sh(vm1, f"modprobe -a ib_umad ib_uverbs; modprobe pib_hca || insmod {module}")
        wait_until(lambda: DEVICE in sh(vm1, "ls /sys/class/infiniband"), "the device to come back")
    wait_active(vm1)
    assert kernel_complaints(vm1) == []


def loses_a_path(lab, vm0, program):
    """Runs a program with QPs at both ports, and takes port 1's path away when it is ready."""
    wait_until(lambda: sh(vm0, f"grep -l ACTIVE /sys/class/infiniband/{DEVICE}/ports/*/state").count("\n") == 2,
               "both ports to be ACTIVE")
    for name in {"path_failure.py", program}:
        put_program(vm0, name)
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


def test_a_path_that_fails_is_left_for_the_other(lab, vm0):
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
