# SPDX-License-Identifier: GPL-2.0-or-later
"""Things that go wrong in two guests: unloading, killing, losing packets, losing the switch."""
import signal
import subprocess
import time

from rdma import (DEVICE, kernel_complaints, pair, perftest_rows, port_state, resources, sh,
                  wait_active, wait_until)


def test_one_percent_loss_loses_nothing(lab, vm0, vm1):
    """RC traffic over a wire that drops 1 %: rc_pingpong checks each byte."""
    lab.switch().ctl("fault", "all", "--drop", "0.01", "--seed", "1")
    try:
        line = f"ibv_rc_pingpong -d {DEVICE} -c -s 262144 -n 500"
        out, _ = pair(vm0, vm1, line, f"{line} vm0", timeout=1500)
    finally:
        lab.switch().ctl("fault", "all", "--drop", "0")
    assert "500 iters in" in out


def test_killed_program_leaves_no_object(vm0, vm1):
    before = resources(vm1)
    server = vm0.start([f"exec timeout 120 ib_write_bw -D 60 -d {DEVICE} -F"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = vm1.start([f"until ib_write_bw -D 60 -d {DEVICE} -F vm0; do sleep 0.3; done"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: resources(vm1)["qp"] > before["qp"], "the program's QP")
        time.sleep(2)
    finally:
        client.kill()
    sh(vm1, "pkill -f 'until ib_write_bw'; pkill -9 -x ib_write_bw", check=False)
    wait_until(lambda: resources(vm1) == before, "the killed program's objects to be freed")
    server.kill()
    sh(vm0, "pkill -9 -x ib_write_bw", check=False)


def test_reload_the_driver_twenty_times(vm1):
    module = sh(vm1, "modinfo -n pib_hca 2>/dev/null || find / -xdev -name pib_hca.ko | head -1").strip()
    assert module
    for _ in range(20):
        sh(vm1, "modprobe -r ib_ipoib ib_umad rdma_ucm 2>/dev/null; rmmod pib_hca")
        assert DEVICE not in sh(vm1, "ls /sys/class/infiniband 2>/dev/null; true")
        sh(vm1, f"modprobe -a ib_umad ib_uverbs; modprobe pib_hca || insmod {module}")
        wait_until(lambda: DEVICE in sh(vm1, "ls /sys/class/infiniband"), "the device to come back")
    wait_active(vm1)
    assert kernel_complaints(vm1) == []


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
