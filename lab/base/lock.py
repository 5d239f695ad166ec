# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks between ./pib commands. A lock's file names the command that holds it."""

import contextlib
import fcntl
import os
import pathlib
import shlex
import sys
import time
from typing import Iterator, TextIO

from lab.base import groups, ui

POLL_S = 0.2
MODE = 0o600


def opened(path: pathlib.Path) -> TextIO:
    """Opens the file of a lock, for appending. Only its user can open it: another user who may read it could hold the
    lock for ever."""
    file = open(path, "a+", encoding="utf-8", errors="replace", opener=lambda name, flags: os.open(name, flags, MODE))
    with contextlib.suppress(OSError):      # the file system may have no modes; an earlier version left files readable
        os.fchmod(file.fileno(), MODE)
    return file


@contextlib.contextmanager
def held(path: pathlib.Path) -> Iterator[None]:
    """Holds the lock during the block. If another command holds it, says so and waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path) as file:
        _take(file)
        sign(file)
        yield


@contextlib.contextmanager
def alone(path: pathlib.Path, reason: str) -> Iterator[None]:
    """Holds the lock during the block; an error if another command holds it. reason: why there is one command at a
    time, for the error."""
    with opened(path) as file:
        if not _free(file):
            raise ui.LabError(f"{reason}. Wait for the other one's end:  {_holder(file)}")
        sign(file)
        yield


def _holder(file: TextIO) -> str:
    """The name of the command that holds the lock."""
    file.seek(0)
    return ui.printable(file.read(200)) or "it does not say which"


def sign(file: TextIO) -> None:
    """Writes this command's name into the file of a lock that it holds. The file is opened for appending."""
    name = f"process {os.getpid()}, {shlex.join(['./pib', *sys.argv[1:]])}"
    with contextlib.suppress(OSError):      # on a full disk the lock works without a name: down and clean free space
        os.truncate(file.fileno(), 0)
        os.write(file.fileno(), name.encode(errors="replace"))


def _free(file: TextIO) -> bool:
    """Takes the lock unless another command holds it; returns whether it has the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _take(file: TextIO) -> None:
    if not _free(file):
        ui.say(f"waiting for another command to finish: {_holder(file)}")
        while not _free(file):
            groups.RUNNING.check()
            time.sleep(POLL_S)
