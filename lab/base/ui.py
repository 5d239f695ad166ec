# SPDX-License-Identifier: GPL-2.0-or-later
"""Progress messages of the lab: a line for each step, heartbeats in long steps, and the end of a failed step's log."""

import contextlib
import os
import pathlib
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

from lab.base import groups, paths, signals

START = time.monotonic()
HEARTBEAT_S = 15
TAIL_LINES = 40
TAIL_BYTES = 64 << 10
# Terminal sequences (ECMA-48): CSI with its parameters, OSC and other strings up to their end, other escapes.
SEQUENCES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
                       r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
                       r"|\x1b[ -/]+[0-~]|\x1b[0-Z\\^-~]")
NAME = re.compile(r"(?<![\w./])\./pib(?![\w/-]|\.\w)")     # the command, not the start of a path
LOG_BYTES = 4 << 20             # limit; a longer log is renamed, and a new one begins


class LabError(Exception):
    """A failure whose text tells the user what to do."""


def named(text: str) -> str:
    """The text with the name of the command: `./pib` in a checkout, `pib` if installed."""
    return NAME.sub(paths.COMMAND, text) if "./pib" in text else text     # the page's answers may have megabytes


def say(text: str) -> None:
    # One print() with the newline in the text, because parallel steps print at the same time. A closed terminal is no
    # error.
    with contextlib.suppress(OSError):
        print(f"[{time.monotonic() - START:5.0f}s] {named(text)}\n", end="", file=sys.stderr, flush=True)


def log_path(name: str) -> pathlib.Path:
    directory = paths.RUN / "log"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.log"
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_suffix(".log.old"))
    return path


def beat(what: str, seconds: float, doing: str) -> None:
    """Prints a heartbeat in a long step. doing: untrusted text, whose last line is shown."""
    last = printable(doing.strip().rpartition("\n")[2])[:100]
    say(f"  … {what}: {seconds:.0f} s" + (f" — {last}" if last else ""))


def printable(text: str) -> str:
    """The text without terminal sequences, and with a space for each other control character."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in SEQUENCES.sub("", text))


def write(to: int, text: bytes) -> None:
    """Writes all of the text to a file descriptor, without Python's buffers. Threads print with it: Python aborts if it
    exits while a thread holds the lock of sys.stdout."""
    while text:
        try:
            text = text[os.write(to, text):]
        except BlockingIOError:         # another program has made `to` non-blocking, and its reader is slow
            select.select([], [to], [])


def tail(path: pathlib.Path, lines: int = TAIL_LINES, begin: int = 0) -> str:
    """The last lines of a file, read from its end; "" if there is no file. begin: octets at its start that are not
    read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - TAIL_BYTES, begin))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return printable("\n".join(text.splitlines()[-lines:]))


def said(path: pathlib.Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a file for an error message, or a note that it is empty."""
    return tail(path, lines) or f"(nothing is in {path})"


def run(title: str, argv: Sequence[object], log: str, *, cwd=None, env=None, stdin=None) -> None:
    """Runs a command and shows its output only if it fails."""
    say(title)
    path = log_path(log)
    with open(path, "ab") as out:
        out.write(f"\n$ {shlex.join(map(str, argv))}\n".encode(errors="surrogateescape"))
        out.flush()
        begin = out.tell()
        streams = {"stdin": stdin or subprocess.DEVNULL, "stdout": out, "stderr": out}
        code = (_ask if stdin else _wait)([str(arg) for arg in argv], title, path,
                                          {"cwd": cwd, "env": env, **streams})
    if code:
        raise LabError(f"{title}: failed (status {code})\n{tail(path, begin=begin)}\n"
                       f"(all of it in {os.path.relpath(path)})")


def _ask(argv: list[str], title: str, path: pathlib.Path, options: dict) -> int:
    """Runs a command that may use the terminal: sudo asks for the password there. So the command stays in this process
    group."""
    process = None
    try:
        with signals.deferred():        # a signal before the assignment would leave the program
            process = subprocess.Popen(argv, **options)
        return _outcome(process, title, path)
    except BaseException:
        if process:
            with contextlib.suppress(PermissionError):  # sudo's process is root's; it has received the same Ctrl-C
                process.terminate()
            process.wait()
        raise


def _wait(argv: list[str], title: str, path: pathlib.Path, options: dict) -> int:
    process = None
    try:
        with signals.deferred():        # a signal before the assignment would leave the program and its children
            process = groups.RUNNING.start(argv, **options)
        return _outcome(process, title, path)
    except BaseException:
        if process:
            groups.stop(process)
        raise
    finally:
        if process:
            groups.RUNNING.forget(process)
        groups.RUNNING.check()


def _outcome(process: subprocess.Popen, title: str, path: pathlib.Path) -> int:
    began = time.monotonic()
    while True:
        try:
            return process.wait(HEARTBEAT_S)
        except subprocess.TimeoutExpired:
            beat(title, time.monotonic() - began, tail(path, 1))
