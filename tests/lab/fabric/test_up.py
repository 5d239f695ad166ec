# SPDX-License-Identifier: GPL-2.0-or-later
"""The beginning of ./pib up, and its last messages."""

import errno
import os
import pathlib

import pytest

from lab.base import ui
from lab.build import deps, preflight
from lab.fabric import counters, evidence, measure, subnet, up
from lab.fabric.wanted import Wanted
from lab.guests import guest_kernel


@pytest.fixture(name="subnet_of_two")
def _subnet_of_two(fabric, monkeypatch):
    ports = [subnet.Port(name, "pib_0", 1, "0x1", 1, 1, "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)")
             for name in ("vm0", "vm1")]
    monkeypatch.setattr(up, "make_subnet", lambda _lab: ports)
    monkeypatch.setattr(subnet, "ports", lambda _lab: ports)
    monkeypatch.setattr(counters, "clear_errors", lambda _node, _nodes, _quiet_s: None)
    return fabric


@pytest.fixture(name="cleared")
def _cleared(monkeypatch):
    """Names of the guests that were asked to clear error counters, one for each time."""
    asked = []
    monkeypatch.setattr(counters, "clear_errors", lambda node, _nodes, _quiet_s: asked.append(node.name))
    monkeypatch.setattr(measure, "measure", lambda *_nodes: measure.Result(123.4, 5.6))
    return asked


@pytest.mark.parametrize("kernel, said", [("wrong", "PIB_KERNEL=wrong: expected one of debian"),
                                          ("/nothing/there", "/nothing/there has no include/config/kernel.release")])
def test_an_unknown_kernel_is_refused_before_packages_are_installed(monkeypatch, kernel, said):
    monkeypatch.setenv(guest_kernel.VARIABLE, kernel)
    monkeypatch.setattr(preflight, "check", lambda *_: None)
    monkeypatch.setattr(deps, "install", lambda *_: pytest.fail("packages were installed"))
    with pytest.raises(ui.LabError, match=said):
        up.prepare()


def test_a_failed_measurement_is_reported_and_the_table_is_shown(subnet_of_two, monkeypatch, capsys):
    def fail(*_nodes):
        raise ui.LabError("ib_write_bw vm0 -> vm1 failed")
    monkeypatch.setattr(measure, "measure", fail)
    assert up.up(Wanted(2)) == 1 and subnet_of_two
    shown = capsys.readouterr()
    assert shown.out.count("ACTIVE") == 2 and "The guests keep running" in shown.out
    assert "the measurement failed: ib_write_bw vm0 -> vm1 failed" in shown.err


def test_measurement_and_clearing_of_counters_get_the_number_of_nodes(subnet_of_two, monkeypatch):
    sizes = []
    monkeypatch.setattr(subnet, "topology_nodes", lambda _lab: 738)
    monkeypatch.setattr(measure, "measure", lambda *words: sizes.append(words[-1]) or measure.Result(123.4, 5.6))
    monkeypatch.setattr(counters, "clear_errors", lambda _node, nodes, _quiet_s: sizes.append(nodes))
    assert up.up(Wanted(2)) == 0 and subnet_of_two
    assert sizes == [738, 738]


def test_results_are_shown_with_the_ports(subnet_of_two, monkeypatch, capsys):
    monkeypatch.setattr(measure, "measure", lambda *_nodes: measure.Result(123.4, 5.6))
    assert up.up(Wanted(2)) == 0 and subnet_of_two
    assert capsys.readouterr().out.count("123.4 MiB/s") == 2


@pytest.mark.parametrize("success", [False, True])
def test_the_time_of_a_clear_is_noted_if_it_succeeds(subnet_of_two, monkeypatch, success):
    monkeypatch.setattr(counters, "clear_errors", lambda *_: success)
    monkeypatch.setattr(measure, "measure", lambda *_nodes: measure.Result(123.4, 5.6))
    assert up.up(Wanted(2)) == 0
    assert (evidence.collect(subnet_of_two).cleared > 0) is success


def test_a_full_disk_does_not_fail_the_end_of_up(subnet_of_two, monkeypatch):
    def full(_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(pathlib.Path, "touch", full)
    evidence.note_cleared(subnet_of_two)


@pytest.mark.parametrize("ended, count, times", [("", 2, 1), ("", 3, 2), ("vm1", 2, 2), ("switch", 2, 2),
                                                 ("hub", 2, 1)])
def test_error_counters_are_cleared_when_a_switch_or_a_guest_has_started(subnet_of_two, cleared, ended, count, times):
    """ended: a program that ends between two commands. count: number of guests that the second command asks for."""
    assert up.up(Wanted(2)) == 0
    with subnet_of_two.locked():
        subnet_of_two.end(*filter(None, [ended]))
    assert up.up(Wanted(count)) == 0 and cleared == ["vm0"] * times


def test_error_counters_of_guests_without_ports_are_left_alone(subnet_of_two, cleared, monkeypatch):
    monkeypatch.setattr(subnet, "ports", lambda _lab: [])
    assert up.up(Wanted(2)) == 0 and subnet_of_two and not cleared
