# SPDX-License-Identifier: GPL-2.0-or-later
"""Error messages of commands, one sentence each, and exit statuses."""

import os
import pathlib
import pwd
import shlex
import subprocess
import sys
import traceback

from lab.base import paths, signals, ui

DEBUG = "PIB_DEBUG"
INTERRUPTED = 130               # exit status for SIGINT, as in shells
NOT_READ = 141                  # exit status for SIGPIPE, as in shells


def sentence(error: BaseException) -> str:
    if isinstance(error, ui.LabError):
        return str(error)
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{_program(error.cmd)} did not end within {error.timeout:.0f} s. What runs:  ./pib status"
    if isinstance(error, subprocess.CalledProcessError):
        return f"{_program(error.cmd)} failed (status {error.returncode}){_its_words(error)}"
    if isinstance(error, PermissionError):
        return f"{error.filename or 'permission'}: {error.strerror}{_owner(error.filename)}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    return f"this is a mistake in pib: {type(error).__name__}: {error}. Where it is:  {DEBUG}=1 ./pib …"


def _program(command) -> str:
    return shlex.split(command)[0] if isinstance(command, str) else str(command[0])


def _its_words(error: subprocess.CalledProcessError) -> str:
    said = error.stderr or b""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return f": {ui.printable(text.strip())}" if text.strip() else ""


def _owner(name) -> str:
    """Advice if a file of the lab belongs to another user, for example to root after an earlier sudo; else ""."""
    ours = [paths.RUN, paths.cache(), *([] if paths.INSTALLED else [paths.ROOT, paths.BUILD])]
    try:
        owner = os.stat(name).st_uid
        if owner == os.getuid() or not any(pathlib.Path(name).absolute().is_relative_to(place) for place in ours):
            return ""
        return (f". It is {pwd.getpwuid(owner).pw_name}'s, maybe after sudo ./pib: work as that user, or give it "
                f"back:  sudo chown -R $(id -un) {shlex.quote(str(name))}")
    except (OSError, TypeError, KeyError):
        return ""


def end_output() -> None:
    """Redirects standard output to /dev/null, because its reader has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def drop_unwritten() -> None:
    """Drops buffered output that cannot be written, for example to a full disk. Otherwise Python tries again at its
    exit and prints an error of its own."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        end_output()


def status(error: BaseException) -> int:
    """Prints the error's message; returns the exit status."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):
        end_output()
        return NOT_READ
    drop_unwritten()
    if isinstance(error, KeyboardInterrupt):
        print("pib: interrupted", file=sys.stderr)
        return 128 + error.number if isinstance(error, signals.Stopped) else INTERRUPTED
    print(f"pib: {ui.named(sentence(error))}", file=sys.stderr)
    return 1
