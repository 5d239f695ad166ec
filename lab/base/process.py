# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that outlive the command that started them.

Each process has a mark in its environment that names its lab, so that it can be found if the lab's record is lost."""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import select
import signal
import subprocess
import time
from typing import Callable, Iterator, TypeVar

from lab.base import paths, ui, waiting

STOP_S = 30                     # limit until a process ends; ending a domain on another host takes seconds
Value = TypeVar("Value")
MARK = "PIB_LAB"                # environment variable: DIRECTORY:NAME
MARK_S = 5                      # limit until a mark can be read; the mark of a set-user-ID program never can


@dataclasses.dataclass
class Process:
    """A process, identified by PID and start time, because PIDs are reused."""
    pid: int
    started: int                # clock ticks since boot, as in /proc/PID/stat

    def alive(self) -> bool:
        return self.started != 0 and _start_time(self.pid) == self.started

    def stop(self, first: int = signal.SIGTERM) -> bool:
        """Ends the process; returns whether it is gone. first: the signal to send first."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:    # signals by the descriptor cannot reach a process that reuses the PID
            return not self.alive() or any(self._end(handle, number) for number in (first, signal.SIGKILL))
        finally:
            os.close(handle)

    def _end(self, handle: int, number: int) -> bool:
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        gone = select.poll()
        gone.register(handle, select.POLLIN)
        ended = bool(gone.poll(STOP_S * 1000))
        _reap(self.pid)
        return ended


def _fields(stat: str) -> list[str]:
    """The fields of a stat file in /proc from the third, the state, on. Empty if there is no such process."""
    try:
        text = pathlib.Path(stat).read_text(errors="replace")
    except OSError:
        return []
    return text.rsplit(")", 1)[1].split()       # the name in parentheses may contain any characters


def _start_time(pid: int) -> int:
    """Start time; 0 if there is no such process, or only a zombie."""
    fields = _fields(f"/proc/{pid}/stat")
    return 0 if not fields or fields[0] == "Z" else int(fields[19])


def _cpu_s(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def cpu_s(pid: int) -> float:
    """Processor time of a process, in seconds; 0 if it has ended."""
    return _cpu_s(_fields(f"/proc/{pid}/stat"))


def thread_cpu_s(thread: int) -> float:
    """Processor time of one thread, in seconds; 0 if it has ended."""
    return _cpu_s(_fields(f"/proc/{thread}/task/{thread}/stat"))


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def _open_new(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _kept(directory: pathlib.Path) -> int:
    """A descriptor of the directory with a shared lock. While a process has it open, systemd-tmpfiles, which removes
    old files in /tmp, skips the directory (tmpfiles.d(5), "Age")."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def start(argv: list[str], log: pathlib.Path, *, directory: pathlib.Path, name: str,
          extra_env: dict[str, str] | None = None) -> Process:
    """Starts a process of the lab in `directory`, in its own session. Its output goes to the file `log`. While the
    process runs, the log's directory is safe from systemd-tmpfiles."""
    env = {**os.environ, **(extra_env or {}), MARK: f"{directory}:{name}"}
    kept = _kept(log.parent)
    try:
        with open(log, "wb", opener=_open_new) as out:
            child = subprocess.Popen([str(arg) for arg in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                     cwd=paths.ROOT, start_new_session=True, env=env, pass_fds=(kept,))
    finally:
        os.close(kept)
    process = Process(child.pid, _start_time(child.pid))
    _await_mark(process)
    return process


def _await_mark(process: Process) -> None:
    """Waits until the mark of a new process can be read. Popen() may return before execve() has written the child's
    environment."""
    with contextlib.suppress(waiting.TooLate):
        waiting.poll("a process's mark", lambda: _mark(pathlib.Path(f"/proc/{process.pid}")) or not process.alive(),
                     MARK_S, every_s=0.001)


def wait_for(what: str, ready: Callable[[], Value | None], process: Process, log: pathlib.Path,
             limit_s: float) -> Value:
    """Waits until ready() returns a true value, and returns that. The end of the process is an error."""
    begun = time.monotonic()

    def check() -> None:
        _reap(process.pid)
        if not process.alive():
            raise ui.LabError(f"{what} ended after {time.monotonic() - begun:.0f} s:\n{ui.said(log)}")
    return waiting.poll(what, ready, limit_s, check=check, doing=lambda: ui.tail(log, 1))


# -- finding processes by their marks ---------------------------------------

def marked() -> Iterator[tuple[pathlib.Path, str, Process]]:
    """Processes of all labs of this user, as (directory of the lab, name, process)."""
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit() and (mark := _mark(path)):
            directory, _, name = mark.rpartition(":")
            pid = int(path.name)
            yield pathlib.Path(directory), name, Process(pid, _start_time(pid))


def _mark(path: pathlib.Path) -> str:
    """The mark of the process with this directory in /proc; "" if the process has none, or belongs to another user or
    PID namespace."""
    try:
        if path.stat().st_uid != os.getuid() or _namespace(path) != _namespace(pathlib.Path("/proc/self")):
            return ""
        environment = os.fsdecode((path / "environ").read_bytes())
    except OSError:
        return ""
    prefix = f"{MARK}="
    return next((word.removeprefix(prefix) for word in environment.split("\0") if word.startswith(prefix)), "")


def _namespace(path: pathlib.Path) -> str:
    return os.readlink(path / "ns" / "pid")
