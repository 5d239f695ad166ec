# SPDX-License-Identifier: GPL-2.0-or-later
"""A switch process of the lab."""

import os
import signal
import stat

import pytest

from lab import status
from lab.base import process, ui
from lab.fabric import switch_process

PATIENCE_S = 60


@pytest.fixture(name="running")
def _running(tmp_path):
    """A switch, and its process."""
    switch = switch_process.Switch(tmp_path)
    started = process.start(switch.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    try:
        process.wait_for("pib-switch", switch.answers, started, tmp_path / "log", PATIENCE_S)
        yield switch, started
    finally:
        started.stop()


def test_only_the_user_of_the_lab_may_join_its_fabric(running):
    """The sockets refuse others in an open directory, too."""
    switch, _ = running
    assert stat.S_IMODE(switch.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(switch.control.stat().st_mode) & 0o077 == 0


def test_status_does_not_wait_for_a_switch_that_stands_still(running, monkeypatch):
    switch, started = running
    assert "36 ports" in status.seen_by(switch)
    monkeypatch.setattr(status, "ANSWER_S", 0.5)
    os.kill(started.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ui.LabError, match=rf"does not answer. Its log: {switch.directory}/"):
            status.seen_by(switch)
    finally:
        os.kill(started.pid, signal.SIGCONT)
