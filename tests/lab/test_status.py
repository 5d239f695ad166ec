# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib status shows what runs, and does not wait long for what does not answer."""

import signal

from lab import status
from lab.fabric import cluster
from lab.fabric.wanted import Wanted


def test_what_runs_is_shown(lab, capsys):
    assert status.status(lab) == 1 and "Nothing runs" in capsys.readouterr().out
    lab.up(Wanted(1), [])
    assert status.status(cluster.Cluster()) == 0
    shown = capsys.readouterr().out
    assert shown.count("running") == 2 and "hub" in shown and "vm0" in shown and lab.state.sockets in shown


def test_a_guest_that_does_not_answer_is_named_and_the_others_are_shown(lab, capsys, monkeypatch):
    lab.up(Wanted(2), [])
    monkeypatch.setattr(status, "ANSWER_S", 1)
    monkeypatch.setenv("FAKE_SSH", "hangs")
    assert status.status(cluster.Cluster()) == 1
    assert "vm0, vm1: does not answer within 1 s" in capsys.readouterr().out


def test_what_has_ended_is_shown(lab, capsys):
    lab.up(Wanted(1), [])
    lab.state.processes["vm0"].stop(signal.SIGKILL)
    assert status.status(cluster.Cluster()) == 1
    assert "vm0      ended" in capsys.readouterr().out


def test_down_says_what_it_has_ended(lab, capsys):
    lab.up(Wanted(1), [])
    assert status.down(False) == 0
    assert capsys.readouterr().out == "ended: hub, vm0\n"
    assert status.down(True) == 0
    assert capsys.readouterr().out == "nothing ran\n"
