# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits until a file of a source directory is saved, which every file system and editor shows by its state."""

import pathlib
import time

from lab.build import builder

POLL_S = 0.3

Look = dict[pathlib.Path, tuple[int, int]]


def look(directory: pathlib.Path) -> Look:
    """Time of change and size of each file that a build takes."""
    found = {}
    for path in builder.wanted(directory):
        try:
            state = (directory / path).stat()
            found[path] = (state.st_mtime_ns, state.st_size)
        except FileNotFoundError:   # an editor renames a new file over the old one
            continue
    return found


def wait(directory: pathlib.Path, before: Look) -> Look:
    """Returns the directory's new look when it is not the one before, and does not change any more."""
    now = before
    while now == before:
        time.sleep(POLL_S)
        now = look(directory)
    while (later := look(directory)) != now:
        now = later
        time.sleep(POLL_S)
    return now
