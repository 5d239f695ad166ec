# SPDX-License-Identifier: GPL-2.0-or-later
"""The one loop that waits."""

import pytest

from lab import ui, waiting


def test_the_first_true_value_is_returned():
    values = iter([0, None, "", "here"])
    assert waiting.poll("it", lambda: next(values), 60, every_s=0) == "here"


def test_a_timeout_reports_the_last_value():
    with pytest.raises(ui.LabError, match="^it: not ready after 0 s. vm1 still boots$"):
        waiting.poll("it", lambda: False, 0, doing=lambda: "vm1 still boots", every_s=0)


def test_waiting_ends_when_its_check_fails():
    def gone():
        raise ui.LabError("gone")
    with pytest.raises(ui.LabError, match="gone"):
        waiting.poll("it", lambda: False, 60, check=gone)


def test_a_long_wait_prints_a_message(monkeypatch, capsys):
    monkeypatch.setattr(ui, "HEARTBEAT_S", 0)
    rounds = iter([False, False, True])
    waiting.poll("it", lambda: next(rounds), 60, doing=lambda: "first\n\x1b[31mlast line", every_s=0)
    assert capsys.readouterr().err.count("… it: 0 s —  [31mlast line") == 2
