# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a program with this process's standard streams, and ends it when the reader of its output has gone."""

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys

from lab.base import signals

NOT_READ = 128 + signal.SIGPIPE     # exit status of shells for SIGPIPE


def in_background() -> bool:
    """Whether standard input is a terminal whose keys are for another job of the shell. False under sudo, which keeps a
    command whose output is a pipe in the background until the command reads."""
    try:
        behind = sys.stdin is not None and os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp()
        return behind and pathlib.Path(f"/proc/{os.getsid(0)}/comm").read_text(errors="replace") != "sudo\n"
    except (OSError, ValueError):       # no terminal of this session
        return False


def run(argv: list[str]) -> int:
    """Runs the program; returns its exit status, or NOT_READ. An exception ends the program. In the background it gets
    no input: ssh would take keys that are for the job in the foreground."""
    with contextlib.ExitStack() as stack:
        with signals.deferred():        # a signal before _end is pushed would leave the program, or wait for its end
            child = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.DEVNULL if in_background() else None))
            stack.callback(_end, child)
        code = status(child.wait()) if _output_is_read(child) else NOT_READ
    return code


def _end(child: subprocess.Popen) -> None:
    if child.poll() is None:
        child.terminate()


def status(code: int) -> int:
    """Converts an exit status of subprocess to the shell's."""
    return 128 - code if code < 0 else code


def _output_is_read(child: subprocess.Popen) -> bool:
    """Waits until the child or the reader of standard output ends. Returns False if the reader went first."""
    ended, events = os.pidfd_open(child.pid), select.poll()
    try:
        events.register(ended, select.POLLIN)
        if sys.stdout is not None:
            events.register(1, 0)       # reports errors only: a pipe without a reader, a closed terminal
        return any(descriptor == ended for descriptor, _ in events.poll())
    finally:
        os.close(ended)
