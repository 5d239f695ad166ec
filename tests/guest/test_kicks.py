# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose doorbells are bits in a page of memory and kicks by eventfd. See docs/device-spec.md, "Kicks"."""
import pytest

from labs import booted
from rdma import DEVICE, kernel_complaints, pair, perftest_rows, sh, wait_active

MESSAGES = 20000


@pytest.fixture(scope="module")
def guests():
    with booted("test-kicks", 2, hca="doorbells=eventfd") as running:
        nodes = running.node("vm0"), running.node("vm1")
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
