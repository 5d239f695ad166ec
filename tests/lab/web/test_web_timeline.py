# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of journals in the time line of ./pib web."""

import pytest

from lab.web import model
from lab.web.timeline import Timeline


def test_a_repeated_change_is_another_event():
    """A switch adds no entry for a repeated change, but counts it in the last one."""
    leaf, line = model.Node("0x1", "leaf1", "switch"), Timeline()
    made = model.Fabric({leaf.id: leaf})
    errors = {"age_ns": 0, "port": 3, "change": "link error", "times": 1, "detail": ""}
    for entries in ([errors], [errors], [{**errors, "times": 4}], [{**errors, "times": 4}],
                    [{**errors, "times": 5}, {**errors, "change": "down"}], [{**errors, "change": "up"}]):
        line.read_switch(made, leaf, {"lost": 0, "entries": entries}, 1000.0)
    assert [event.text.removeprefix("leaf1[3]: ") for event in line.events] == [
        "link error", "link error (4 times)", "link error (5 times)", "went down", "went up"]


def test_a_switch_that_restarted_with_as_many_entries_is_read_again():
    leaf, line = model.Node("0x1", "leaf1", "switch"), Timeline()
    made = model.Fabric({leaf.id: leaf})
    for number, (instance, change) in enumerate((("0x1", "up"), ("0x1", "up"), ("0x2", "down"), ("0x2", "down")), 1):
        entry = {"age_ns": 0, "port": 3, "change": change, "times": 1, "detail": ""}
        line.read_switch(made, leaf, {"instance": instance, "lost": 0, "entries": [entry]}, 1000.0 * number)
    assert [(event.at, event.text) for event in line.events] == [
        (1000.0, "leaf1[3]: went up"), (3000.0, "leaf1[3]: went down")]


def test_a_guest_that_restarted_with_as_many_failures_is_read_again():
    """The clock of a device begins anew with its QEMU."""
    line = Timeline()
    for time_ns in (70, 70, 60, 60):
        line.read_hca("vm0", 0, {"lost": 0, "refusals": [], "objects": {}, "journal": [
            {"time_ns": time_ns, "kind": "completion", "at": 1.0, "qpn": time_ns, "queue": "send",
             "status": "IBV_WC_RETRY_EXC_ERR"}]})
    assert [event.qpn for event in line.events] == [70, 60]


@pytest.mark.parametrize(("text", "qpn", "about"), [
    ("QP 0x41 misused: sq_producer 2 is behind an earlier one: 3", 0x41, "vm0:0x41"),
    ("CQ 0x1 misused: consumer 5 is ahead of the CQEs written: 0", 0, "vm0"),
    ("QP 0x41 misused: its memory is QP 0x42's", 0, "vm0")])
def test_a_refusal_that_names_one_queue_pair_is_that_ones(text, qpn, about):
    line = Timeline()
    line.read_hca("vm0", 0, {"lost": 0, "journal": [], "objects": {}, "refusals": [
        {"time_ns": 1, "at": 1.0, "rule": "8.3.4", "kind": "misuse", "text": text}]})
    assert [(event.qpn, event.about) for event in line.events] == [(qpn, about)]
