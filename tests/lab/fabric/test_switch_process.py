# SPDX-License-Identifier: GPL-2.0-or-later
"""A switch process of the lab."""

import stat

from lab import process
from lab.fabric import switch_process

PATIENCE_S = 60


def test_only_the_user_of_the_lab_may_join_its_fabric(tmp_path):
    """The sockets refuse others in an open directory, too."""
    switch = switch_process.Switch(tmp_path)
    started = process.start(switch.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    try:
        process.wait_for("pib-switch", switch.answers, started, tmp_path / "log", PATIENCE_S)
        assert stat.S_IMODE(switch.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(switch.control.stat().st_mode) & 0o077 == 0
    finally:
        started.stop()
