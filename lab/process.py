# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that outlive the command that started them."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import time

from lab import paths, ui

STOP_S = 10


@dataclasses.dataclass
class Process:
    """A process by number and start time, because numbers are reused."""
    pid: int
    started: int                # clock ticks since boot, as in /proc/PID/stat

    def alive(self) -> bool:
        return self.started != 0 and _start_time(self.pid) == self.started

    def stop(self, first: int = signal.SIGTERM) -> None:
        for number in (first, signal.SIGKILL):
            if not self.alive():
                return
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return
            self._wait_gone()

    def _wait_gone(self) -> None:
        end = time.monotonic() + STOP_S
        while self.alive() and time.monotonic() < end:
            _reap(self.pid)
            time.sleep(0.02)


def _start_time(pid: int) -> int:
    """0 if there is no such process, or only a zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = text.rsplit(")", 1)[1].split()     # the name may hold anything
    return 0 if fields[0] == "Z" else int(fields[19])


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def start(argv: list[str], log: pathlib.Path, extra_env: dict[str, str] | None = None) -> Process:
    """Starts a process in a session of its own, with its output in a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        child = subprocess.Popen([str(arg) for arg in argv], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=out, cwd=paths.ROOT, start_new_session=True,
                                 env={**os.environ, **(extra_env or {})})
    return Process(child.pid, _start_time(child.pid))


def wait_for(what: str, ready, process: Process, log: pathlib.Path, limit_s: float) -> None:
    """Polls until ready() is true; a process that ended or takes too long is an error."""
    end = time.monotonic() + limit_s
    while not ready():
        _reap(process.pid)
        if not process.alive():
            raise ui.LabError(f"{what} ended at once:\n{ui.tail(log)}")
        if time.monotonic() > end:
            raise ui.LabError(f"{what} was not ready after {limit_s:.0f} s:\n{ui.tail(log)}")
        time.sleep(0.05)
