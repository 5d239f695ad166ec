# SPDX-License-Identifier: GPL-2.0-or-later
"""The control socket of a switch."""

import pathlib

import pytest

from lab import ui
from lab.fabric import control


@pytest.mark.parametrize("path, said", [("/nowhere/control", "No such file"), ("/" + "x" * 200, "too long")])
def test_a_socket_without_a_switch_is_reported_with_the_reason(path, said):
    with pytest.raises(ui.LabError, match=f"no switch answers there .*{said}"):
        control.Control(pathlib.Path(path))
