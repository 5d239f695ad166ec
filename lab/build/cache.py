# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories that take long to make and depend on their recipe alone, which is in their names.

An entry is made beside its place, under a lock of its own, and renamed when it is whole. What a maker that
was killed has left is removed by the next one that makes anything.
"""

import fcntl
import pathlib
from typing import Callable

from lab import lock, paths
from lab.build import user_namespace

PART = ".part"


def _lock(name: str) -> pathlib.Path:
    return paths.cache() / "locks" / name


def _sweep() -> None:
    """Removes unfinished entries that are not being made."""
    for part in paths.cache().glob(f"*{PART}"):
        with open(_lock(part.name.removesuffix(PART)), "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            user_namespace.remove(part)


def entry(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The entry's directory; make() fills it when it is not there."""
    final = paths.cache() / name
    if final.is_dir():
        return final
    _lock(name).parent.mkdir(parents=True, exist_ok=True)
    _sweep()
    with lock.held(_lock(name)):
        if not final.is_dir():
            _make(final, make)
    return final


def _make(final: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    part = final.with_name(final.name + PART)
    user_namespace.remove(part)     # a maker may have been killed after the sweep
    part.mkdir()
    part.chmod(0o755)               # trees in it are entered as root of a user namespace
    try:
        make(part)
        part.rename(final)
    except BaseException:
        user_namespace.remove(part)
        raise
