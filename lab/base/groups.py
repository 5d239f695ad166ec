# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs of a command's steps. Each has its own process group, so that it can be ended with all its children."""

import contextlib
import os
import signal
import subprocess
import threading
from typing import Iterator

STOP_S = 10
# Makes the kernel end the program if this command is killed.
WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")


class Ended(Exception):
    """Ends a step because another step has failed, or because the command is interrupted."""


class Groups:
    """The running programs. After end() no program can be started until the outermost block() is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._ended = False
        self._blocks = 0

    def start(self, argv: list[str], **options) -> subprocess.Popen:
        with self._lock:
            self._check()
            process = subprocess.Popen([*WITH_US, *argv], process_group=0, **options)
            self._running.add(process)
            return process

    def forget(self, process: subprocess.Popen) -> None:
        with self._lock:
            self._running.discard(process)

    def check(self) -> None:
        """Raises Ended after end()."""
        with self._lock:
            self._check()

    def _check(self) -> None:
        if self._ended:
            raise Ended

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                _signal(process, signal.SIGTERM)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        with self._lock:
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                self._ended = self._ended and self._blocks > 0


def _signal(process: subprocess.Popen, number: int) -> None:
    """Signals a program's group. Ignores a group that has gone, and a group of root's (sudo), which ends by itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def stop(process: subprocess.Popen) -> None:
    """Ends a program and all its children."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    _signal(process, signal.SIGKILL)
    process.wait()


RUNNING = Groups()
