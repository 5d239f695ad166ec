# SPDX-License-Identifier: GPL-2.0-or-later
"""Clearing of error counters: its limit follows the size of the fabric, and a failure is reported."""

import pytest

from lab.base import waiting
from lab.fabric import counters


class Clearing:
    """A guest in which ibqueryerrors ends with a status after a number of polls."""
    name = "vm0"

    def __init__(self, status, looks=0):
        self.returncode, self.looks, self.ended = status, looks, 0

    def start(self, command, **_):
        assert counters.CLEAR in command[0]
        return self

    def poll(self):
        self.looks -= 1
        return None if self.looks >= 0 else self.returncode

    def end(self):
        self.ended += 1


@pytest.fixture(name="clock", autouse=True)
def _clock(monkeypatch):
    """Time passes by sleeping only."""
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_a_large_fabric_has_more_time(clock, capfd):
    nodes = 10000
    guest = Clearing(0, int((counters.LIMIT_S + counters.NODE_S * nodes / 2) / counters.POLL_S))
    assert counters.clear_errors(guest, nodes)
    said = capfd.readouterr().err
    assert clock[0] > counters.LIMIT_S and guest.ended == 1
    assert "of 10,000 nodes" in said and "not every error counter" not in said


@pytest.mark.parametrize("guest", [Clearing(1), Clearing(0, 10**9)])
def test_counters_that_are_not_zero_are_reported(guest, capfd):
    assert not counters.clear_errors(guest, 0)
    assert "not every error counter is zero yet" in capfd.readouterr().err and guest.ended == 1
