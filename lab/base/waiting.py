# SPDX-License-Identifier: GPL-2.0-or-later
"""The loop in which the lab waits. It reports periodically what it waits for."""

import time
from typing import Callable, TypeVar

from lab.base import ui

POLL_S = 0.05
Value = TypeVar("Value")


class TooLate(ui.LabError):
    """The time limit has passed."""


def _nothing() -> None:
    pass


def _silent() -> str:
    return ""


def same() -> object:
    return None


def poll(what: str, ready: Callable[[], Value | None], limit_s: float, *, check: Callable[[], None] = _nothing,
         doing: Callable[[], str] = _silent, progress: Callable[[], object] = same,
         every_s: float = POLL_S) -> Value:
    """Polls ready() until it returns a true value; returns that. check: raises if waiting is pointless. doing:
    describes the present state. progress: returns a value that changes while there is progress; the limit counts from
    its last change."""
    begun = told = moved = time.monotonic()
    last = None
    while not (value := ready()):
        check()
        now = time.monotonic()
        heartbeat = now - told >= ui.HEARTBEAT_S
        if (heartbeat or now - moved > limit_s) and (seen := progress()) != last:
            last, moved = seen, now
        if now - moved > limit_s:
            since = "not ready after" if last is None else "no progress for"
            raise TooLate(f"{what}: {since} {limit_s:.0f} s. {doing()}".rstrip())
        if heartbeat:
            ui.beat(what, now - begun, doing())
            told = now
        time.sleep(every_s)
    return value
