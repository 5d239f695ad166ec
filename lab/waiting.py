# SPDX-License-Identifier: GPL-2.0-or-later
"""The loop in which the lab waits; it reports from time to time what it waits for."""

import time
from typing import Callable, TypeVar

from lab import ui

POLL_S = 0.05
Value = TypeVar("Value")


class TooLate(ui.LabError):
    """The limit has passed."""


def _nothing() -> None:
    pass


def _silent() -> str:
    return ""


def poll(what: str, ready: Callable[[], Value | None], limit_s: float, *, check: Callable[[], None] = _nothing,
         doing: Callable[[], str] = _silent, every_s: float = POLL_S) -> Value:
    """The first true value of ready(). check: raises if waiting is in vain; doing: shows the present state."""
    begun = told = time.monotonic()
    while not (value := ready()):
        check()
        now = time.monotonic()
        if now - begun > limit_s:
            raise TooLate(f"{what}: not ready after {limit_s:.0f} s. {doing()}".rstrip())
        if now - told >= ui.HEARTBEAT_S:
            ui.beat(what, now - begun, doing())
            told = now
        time.sleep(every_s)
    return value
