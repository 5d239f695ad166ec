# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes SIGTERM and SIGHUP end a command as Ctrl-C does, with cleaning up."""

import contextlib
import signal
import threading
from typing import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """number: of the signal."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


def _stop(number: int, _frame) -> None:
    raise Stopped(number)


def raise_on_end() -> None:
    """Installs the handlers, except for ignored signals: nohup starts programs with SIGHUP ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Delays signals until the end of the block."""
    if threading.current_thread() is not threading.main_thread():   # which alone handles signals
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        if before[number] != signal.SIG_IGN:        # a started program inherits this
            signal.signal(number, lambda got, _frame: came.append(got))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for got in came:
            signal.raise_signal(got)


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """Signals do not interrupt cleaning up."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
