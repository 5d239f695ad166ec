# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib up waits until IP over InfiniBand works, up to a limit."""

import dataclasses
import subprocess
import types

import pytest

from lab.base import paths, ui, waiting
from lab.fabric import ipoib, subnet

PORT = subnet.Port("vm0", "pib_0", 1, "0x1", 1, 1, "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)")


class Lab:
    """Guests that get a carrier after a number of queries."""

    def __init__(self, **carriers):
        self.carriers = carriers
        self.looks = []
        self.record = types.SimpleNamespace(topology="")

    def node(self, name):
        return Node(self, name)

    def check(self):
        pass


@dataclasses.dataclass
class Node:
    lab: Lab
    name: str

    def run(self, _command):
        self.lab.looks.append(self.name)
        up = self.lab.looks.count(self.name) > self.lab.carriers[self.name]
        return subprocess.CompletedProcess([], 0, b"1\n" if up else b"0\n")


def test_up_asks_each_guest_until_it_has_joined():
    lab = Lab(vm0=0, vm1=3)
    ipoib.wait_joined(lab, [PORT, dataclasses.replace(PORT, node="vm1")])
    assert lab.looks.count("vm0") == 1 and lab.looks.count("vm1") == 4


@pytest.mark.parametrize("change", [{"number": 2}, {"state": "Down"}, {"lid": 0}, {"rate": "2.5 Gb/sec (1X SDR)"}])
def test_up_does_not_wait_for_a_port_that_cannot_join(change):
    lab = Lab(vm0=0)
    ipoib.wait_joined(lab, [dataclasses.replace(PORT, **change)])
    assert not lab.looks


def test_a_guest_that_does_not_join_is_reported(monkeypatch, capfd):
    monkeypatch.setattr(ipoib, "JOIN_S", 0.1)
    ipoib.wait_joined(Lab(vm0=0, vm1=10**9), [PORT, dataclasses.replace(PORT, node="vm1")])
    assert "ib0 of vm1 has not joined" in capfd.readouterr().err


@pytest.fixture(name="clock")
def _clock(monkeypatch):
    """Time passes by sleeping only."""
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_the_limit_counts_from_the_last_guest_that_has_joined(clock, capfd):
    """Each guest joins 80 s after the one before, so that all of them together need longer than the limit."""
    step = int(80 / ipoib.POLL_S)
    lab = Lab(vm0=step, vm1=2 * step, vm2=3 * step, vm3=10**9)
    ipoib.wait_joined(lab, [dataclasses.replace(PORT, node=name) for name in lab.carriers])
    said = capfd.readouterr().err
    assert clock[0] > 3 * 80 + ipoib.JOIN_S - ui.HEARTBEAT_S
    assert "1 of 4 guests have joined, not yet vm1, vm2, vm3" in said and "ib0 of vm3 has not joined" in said


def test_the_limit_grows_with_the_fabric(monkeypatch):
    limits = []
    monkeypatch.setattr(waiting, "poll", lambda what, ready, limit_s, **others: limits.append(limit_s))
    for file in ("", paths.ROOT / "examples" / "topologies" / "fat-tree-648.topo"):
        lab = Lab(vm0=0)
        lab.record.topology = str(file)
        ipoib.wait_joined(lab, [PORT])
    assert limits[1] - limits[0] == pytest.approx(subnet.NODE_S * 738)


def test_a_lab_that_has_ended_is_an_error(monkeypatch):
    lab = Lab(vm0=10**9)

    def check():
        raise ui.LabError("vm0 has ended")
    monkeypatch.setattr(lab, "check", check)
    with pytest.raises(ui.LabError, match="has ended"):
        ipoib.wait_joined(lab, [PORT])
