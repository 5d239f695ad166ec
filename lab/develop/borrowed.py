# SPDX-License-Identifier: GPL-2.0-or-later
"""Properties of a device that several commands may change at the same time. The last of them restores the properties.

A file has the former values, and is locked while a command changes or restores properties. A lock of a second file is
shared by the commands. If all commands have been killed, the file still has the values for the next command."""

import contextlib
import fcntl
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from lab.base import ui
from lab.guests import vm

USERS = ".users"                # suffix of the second file


@contextlib.contextmanager
def _locked(file: TextIO) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _load(file: TextIO) -> dict[str, Any]:
    file.seek(0)
    try:
        return json.loads(file.read() or "{}")
    except ValueError:              # the disk was full
        return {}


def _store(file: TextIO, values: dict[str, Any]) -> None:
    file.truncate(0)
    file.write(json.dumps(values))
    file.flush()


def _is_last(users: TextIO) -> bool:
    """Whether no other command shares the lock. Gives up this command's share."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        fcntl.flock(users, fcntl.LOCK_UN)
        return False


def _restore(monitor: pathlib.Path, saved: TextIO) -> None:
    with contextlib.suppress(ui.LabError):      # the guest may have ended meanwhile
        for option, value in reversed(_load(saved).items()):
            vm.set_property(monitor, option, value)
    _store(saved, {})


@contextlib.contextmanager
def borrowed(monitor: pathlib.Path, file: pathlib.Path, needed: dict[str, Any],
             check: Callable[[list[str]], object]) -> Iterator[list[str]]:
    """Sets the needed properties that are off, and yields their names. The end of the block restores them, unless
    another command has borrowed properties: then that one restores them. file: for the former values. check: is called
    with the names of the properties that are off, and may refuse to set them."""
    with open(file, "a+", encoding="utf-8") as saved, open(f"{file}{USERS}", "a", encoding="utf-8") as users:
        try:
            with _locked(saved):
                before = {option: vm.get_property(monitor, option) for option in needed}
                missing = [option for option, value in before.items() if not value]
                check(missing)
                fcntl.flock(users, fcntl.LOCK_SH)
                _store(saved, {**{option: before[option] for option in missing}, **_load(saved)})
                for option in missing:
                    vm.set_property(monitor, option, needed[option])
            yield missing
        finally:
            with _locked(saved):
                if _is_last(users):
                    _restore(monitor, saved)
