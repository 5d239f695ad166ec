# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories that take a long time to make and depend only on their recipe, which is a part of their name.

An entry is made under a temporary name beside its place, under a lock of its own, and renamed when it is complete.
Leftovers of a killed maker are removed when the next entry is made. A directory's modification time is the time of its
last use.
"""

import contextlib
import fcntl
import os
import pathlib
import secrets
from typing import Callable, Iterator

from lab.base import lock, paths, process, ui
from lab.build import user_namespace

PART = ".part"
LOCKS = "locks"
BUILD_LOCK = ".lock"            # lock file in an entry in which builds write


def lock_of(name: str) -> pathlib.Path:
    return paths.cache() / LOCKS / name


@contextlib.contextmanager
def _taken(*locks: pathlib.Path) -> Iterator[bool]:
    """Holds the locks during the block, without waiting for them. Yields False if another command holds one."""
    with contextlib.ExitStack() as files:
        try:
            for path in locks:
                file = files.enter_context(lock.opened(path))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.sign(file)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_locked(entry_: pathlib.Path) -> bool:
    """Whether a command makes or changes an entry. entry_: complete or not."""
    path = lock_of(entry_.name.removesuffix(PART))
    if not path.exists():
        return False
    with _taken(path) as free:
        return not free


def sweep() -> None:
    """Removes incomplete entries whose maker has ended."""
    for part in paths.cache().glob(f"*{PART}"):
        with _taken(lock_of(part.name.removesuffix(PART))) as free:
            if free:
                user_namespace.remove(part)


def entry(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The entry's directory. make() fills it if it is missing."""
    final = paths.cache() / name
    if final.is_dir():
        note_use(final)
        return final
    lock_of(name).parent.mkdir(parents=True, exist_ok=True)
    sweep()
    with lock.held(lock_of(name)):
        if not final.is_dir():
            _make(final, make)
    return final


@contextlib.contextmanager
def changing(name: str) -> Iterator[pathlib.Path]:
    """The directory of an entry that one command at a time may change. The entry is locked during the block, so that
    nothing frees it."""
    with lock.held(lock_of(name)):
        final = paths.cache() / name
        final.mkdir(parents=True, exist_ok=True)
        note_use(final)
        yield final


@contextlib.contextmanager
def scratch(name: str) -> Iterator[pathlib.Path]:
    """A new directory in the cache that only this command uses, and that is removed at the end of the block. It is
    locked during the block, as an entry that is being made."""
    own = f"{name}-{secrets.token_hex(4)}"
    try:
        with lock.held(lock_of(own)):
            part = paths.cache() / f"{own}{PART}"
            part.mkdir()
            try:
                yield part
            finally:
                user_namespace.remove(part)
    finally:
        lock_of(own).unlink(missing_ok=True)


def note_use(final: pathlib.Path) -> None:
    with contextlib.suppress(OSError):      # the cache may be read-only for this user
        os.utime(final)


def _make(final: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    part = final.with_name(final.name + PART)
    user_namespace.remove(part)     # a maker may have been killed after the sweep
    part.mkdir()
    part.chmod(0o755)               # root of a user namespace must be able to enter it
    try:
        make(part)
        if final.is_symlink():      # to the image of another container, which uses the same volume
            final.unlink()
        part.rename(final)
    except BaseException:
        user_namespace.remove(part)
        raise


def last_use(entry_: pathlib.Path) -> float:
    """Time of an entry's last use; 0 if another command has removed the entry."""
    try:
        return entry_.stat().st_mtime
    except FileNotFoundError:
        return 0


def entries() -> list[pathlib.Path]:
    """All entries' directories, the most recently used one last. Links lead to images of containers, and take no space.
    """
    found = [path for path in paths.cache().glob("*")
             if path.is_dir() and not path.is_symlink() and path.name != LOCKS]
    return sorted(found, key=last_use)


def users(entry_: pathlib.Path) -> list[str]:
    """Processes of this user's labs, in any checkout, whose command lines name files of an entry. Some of QEMU's
    options have two commas for each comma of a path."""
    names = (f"{entry_}/", f"{entry_}/".replace(",", ",,"))
    return [f"{name} of {directory}" for directory, name, running in process.marked()
            if any(one in _command_line(running) for one in names)]


def _command_line(running: process.Process) -> str:
    try:
        return os.fsdecode(pathlib.Path(f"/proc/{running.pid}/cmdline").read_bytes())
    except OSError:
        return ""


def remove(entry_: pathlib.Path) -> None:
    """Removes an entry of the cache, if no other command has removed it meanwhile. An entry in use is an error."""
    lock_of(entry_.name).parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        free = held.enter_context(_taken(lock_of(entry_.name.removesuffix(PART))))
        if free and not entry_.exists():
            return
        builds = [*entry_.glob("builder/work/*/.lock"), *entry_.glob(BUILD_LOCK)]
        if not free or not held.enter_context(_taken(*builds)):
            raise ui.LabError(f"{entry_.name}: another ./pib command uses it. Try again when that has ended")
        if busy := users(entry_):
            raise ui.LabError(f"{entry_.name}: {', '.join(busy)} runs from it. End that first:  ./pib down")
        part = entry_.with_name(entry_.name.removesuffix(PART) + PART)
        if part != entry_:
            user_namespace.remove(part)     # another removal may have been stopped
        entry_.rename(part)                 # entry() does not find it any more
        user_namespace.remove(part)
