# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures of QPs that stay open while a page asks for their packets."""

import pathlib
import time

import pytest

import simulated_fabric
from lab.base import paths, ui
from lab.fabric import topology
from lab.web import recording

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
PATIENCE_S = 60
RULES = [{"dlid": 1, "qp": 0x41}]
KEY = ("0x1", 0x41)


def wait(ready):
    """Polls until the result is true, and returns it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := ready()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@pytest.fixture(name="switch")
def switch_process(tmp_path):
    running = simulated_fabric.Process(tmp_path / "control", simulated_fabric.Fabric(topology.load(FILE)))
    yield running
    running.end()


@pytest.fixture(name="recordings")
def all_recordings():
    made = recording.Recordings()
    yield made
    made.stop()


def add(switch: simulated_fabric.Process, *psns: int) -> None:
    switch.fabric.packets += [(float(psn), simulated_fabric.packet(1, 2, 0x51, 4, psn)) for psn in psns]


def psns(answer: dict) -> list[int]:
    return [one["psn"] for one in answer["messages"]]


def test_packets_between_two_answers_are_kept(switch, recordings):
    """One capture serves both answers."""
    add(switch, 5)
    one = recordings.ask(KEY, switch.path, RULES)
    first = wait(lambda: one.answer(0, 0)["next"] == 1) and one.answer(0, 0)
    add(switch, 6, 7)
    wait(lambda: one.next == 3)
    assert recordings.ask(KEY, switch.path, RULES) is one
    more = one.answer(first["began"], first["next"])
    assert (psns(first), psns(more), more["missed"], more["lost"]) == ([5], [6, 7], 0, 0)
    assert [one["number"] for one in more["messages"]] == [1, 2]
    assert sum(asked["command"] == "capture" for asked in switch.fabric.requests) == 1


def test_packets_that_are_not_kept_are_counted(switch, recordings, monkeypatch):
    monkeypatch.setattr(recording, "MOST_KEPT", 10)
    one = recordings.ask(KEY, switch.path, RULES)
    add(switch, *range(25))
    wait(lambda: one.next == 25)
    found = one.answer(one.began, 3)
    assert (psns(found), found["missed"], found["next"]) == (list(range(15, 25)), 12, 25)
    other = one.answer(one.began - 1, 3)            # the number is one of an earlier recording
    assert (psns(other), other["missed"]) == (list(range(15, 25)), 0)


def test_a_recording_ends_when_no_page_asks(switch, recordings, monkeypatch):
    monkeypatch.setattr(recording, "IDLE_S", 0.0)
    monkeypatch.setattr(recording, "WAIT_S", 0.05)
    one = recordings.ask(KEY, switch.path, RULES)
    wait(lambda: one.ended and not switch.fabric.captures)
    assert recordings.ask(KEY, switch.path, RULES) is not one


def test_another_peer_is_another_recording(switch, recordings):
    one = recordings.ask(KEY, switch.path, RULES)
    other = recordings.ask(KEY, switch.path, [{"dlid": 1, "qp": 0x41}, {"slid": 1, "dlid": 9, "qp": 0x99}])
    assert one is not other and one.ended
    wait(lambda: switch.fabric.captures == 1)


def test_a_switch_that_ends_ends_its_recordings(switch, recordings):
    one = recordings.ask(KEY, switch.path, RULES)
    switch.hang_up()
    wait(lambda: one.ended)
    assert recordings.ask(KEY, switch.path, RULES) is not one


def test_a_switch_without_room_for_a_capture_is_reported(switch, recordings):
    switch.fabric.most_captures = 1
    recordings.ask(KEY, switch.path, RULES)
    with pytest.raises(ui.LabError, match="4 captures run"):
        recordings.ask(("0x2", 0x42), switch.path, RULES)
    with pytest.raises(ui.LabError, match="no switch answers"):
        recordings.ask(("0x3", 0x43), pathlib.Path("/nonexistent"), RULES)
