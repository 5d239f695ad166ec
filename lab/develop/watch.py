# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits until a file of a source directory is saved. It polls times and sizes: that works with every file system and
editor."""

import pathlib
import time

from lab.build import builder

POLL_S = 0.3

Look = dict[pathlib.Path, tuple[int, int]]


def look(directory: pathlib.Path) -> Look:
    """Modification time and size of each file that a build takes."""
    found = {}
    for path in builder.wanted(directory):
        try:
            state = (directory / path).stat()
            found[path] = (state.st_mtime_ns, state.st_size)
        except FileNotFoundError:   # an editor is replacing the file by a new one
            continue
    return found


def wait(directory: pathlib.Path, before: Look) -> Look:
    """Waits until the directory's look differs from `before` and is stable; returns the new look."""
    now = before
    while now == before:
        time.sleep(POLL_S)
        now = look(directory)
    while (later := look(directory)) != now:
        now = later
        time.sleep(POLL_S)
    return now
