# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose doorbells are bits in a page of memory and kicks by eventfd. See docs/device-spec.md, "Kicks". Their
devices are strict: they stop when driver or provider breaks a rule."""
import re

import pytest

from lab.guests import vm
from labs import booted
from rdma import DEVICE, debugfs, kernel_complaints, pair, perftest_rows, reload_the_driver, sh, wait_active

MESSAGES = 20000


@pytest.fixture(scope="module", name="kicking")
def lab_with_kicks():
    with booted("test-kicks", 2, hca="doorbells=eventfd,strict=fatal") as running:
        yield running


@pytest.fixture(scope="module")
def guests(kicking):
    nodes = kicking.node("vm0"), kicking.node("vm1")
    wait_active(*nodes)
    yield nodes
    for node in nodes:
        assert kernel_complaints(node) == []


def counter(node, name):
    return int(sh(node, f"cat /sys/class/infiniband/{DEVICE}/hw_counters/{name}"))


@pytest.mark.parametrize("program", ["ib_write_bw -s 64", "ib_send_bw -s 64 -r 256", "ib_write_bw -s 64 -q 8"])
def test_many_small_messages(guests, program):
    """The device reads the header of each QP, mostly without a kick. A missed QP would end the program's progress."""
    line = f"{program} -n {MESSAGES} -t 128 -d {DEVICE} -F"
    before = counter(guests[1], "send_doorbells")
    out, _ = pair(*guests, line, f"{line} vm0")
    rows = perftest_rows(out)
    assert rows and rows[0][1] >= MESSAGES, out
    assert counter(guests[1], "send_doorbells") - before < MESSAGES
    assert counter(guests[1], "foreign_doorbell") == 0


def test_one_message_at_a_time(guests):
    line = f"ib_write_lat -s 8 -n 1000 -d {DEVICE} -F"
    out, _ = pair(*guests, line, f"{line} vm0")
    assert perftest_rows(out), out


def broken_rules(running, node):
    """The misuse that a strict device has named. Refused commands are not misuse."""
    refusals = vm.device_property(running.monitor(node.name), "objects")["refusals"]
    return [entry["text"] for entry in refusals["entries"] if "command" not in entry]


def test_driver_and_provider_break_no_rule(kicking, guests):
    """Runs RC, UD and XRC QPs, with and without events, before and after a reload of the driver."""
    for reload in (True, False):
        for line in (f"ibv_rc_pingpong -e -d {DEVICE} -n 200", f"ibv_srq_pingpong -d {DEVICE} -n 200",
                     f"ibv_ud_pingpong -d {DEVICE} -n 200", f"ibv_xsrq_pingpong -d {DEVICE}"):
            pair(*guests, line, f"{line} vm0")
        if reload:
            reload_the_driver(guests[1], 1)
    assert {node.name: broken_rules(kicking, node) for node in guests} == {"vm0": [], "vm1": []}


def test_provider_checks(guests):
    """Contexts have a second mapping here, the page with the bits of their doorbells."""
    code, out, err = sh(guests[0], f"provider-checks {DEVICE}", check=False)
    failed = re.findall("^not ok (.*)$", out, re.M)
    assert set(failed) <= {"dma_bufs_are_memory"} and code == len(failed), out + err
    assert "ok closed_contexts_leave_no_mapping" in out, out


def test_no_event_is_injected_where_the_device_does_not_allow_it(guests):
    debugfs(guests[0], "test -e qps && test ! -e inject")
