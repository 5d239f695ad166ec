# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits until a file of source directories is saved. It polls times and sizes: that works with every file system and
editor."""

import pathlib
import time

from lab.build import builder

POLL_S = 0.3
BEGINS, ENDS = (".", "#"), ("~",)       # names of editors' own files, which change while nothing is saved

Look = dict[pathlib.Path, tuple[int, int]]


def look(*directories: pathlib.Path) -> Look:
    """Modification time and size of each file that a build takes."""
    found = {}
    for path in _files(directories):
        try:
            state = path.stat()
            found[path] = (state.st_mtime_ns, state.st_size)
        except FileNotFoundError:   # an editor is replacing the file by a new one
            continue
    return found


def _files(directories: tuple[pathlib.Path, ...]) -> list[pathlib.Path]:
    while True:
        try:
            return [directory / file for directory in directories for file in builder.wanted(directory)
                    if not _is_editors(file)]
        except FileNotFoundError:       # a folder was removed meanwhile
            time.sleep(POLL_S)


def _is_editors(file: pathlib.Path) -> bool:
    """Whether a file is a swap file, a backup or the like, or lies in a directory of an editor's."""
    return any(part.startswith(BEGINS) for part in file.parts) or file.name.endswith(ENDS)


def wait(before: Look, *directories: pathlib.Path) -> Look:
    """Waits until the directories differ from the look `before` and are stable; returns the new look."""
    now = before
    while now == before:
        time.sleep(POLL_S)
        now = look(*directories)
    while (later := look(*directories)) != now:
        now = later
        time.sleep(POLL_S)
    return now
