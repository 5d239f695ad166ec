# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes SIGTERM and SIGHUP end a command as Ctrl-C does, with cleaning up."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Raised by a signal. number: that of the signal."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


def _stop(number: int, _frame) -> None:
    raise Stopped(number)


def taken() -> list[int]:
    """The ending signals that this command does not ignore. Ignored signals stay ignored: nohup ignores SIGHUP."""
    return [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]


def raise_on_end() -> None:
    """Installs the handlers of SIGTERM and SIGHUP."""
    for number in taken():
        if number != signal.SIGINT:
            signal.signal(number, _stop)


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, object], None] | signal.Handlers) -> Iterator[None]:
    """Installs a handler for these signals during the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Delays signals until the end of the block."""
    if threading.current_thread() is not threading.main_thread():   # only the main thread handles signals
        yield
        return
    came: list[int] = []
    try:
        with handled(taken(), lambda got, _frame: came.append(got)):
            yield
    finally:
        for got in came:
            signal.raise_signal(got)


def held_off() -> contextlib.AbstractContextManager[None]:
    """Ignores ending signals during the block, which cleans up."""
    return handled(ENDING, signal.SIG_IGN)
