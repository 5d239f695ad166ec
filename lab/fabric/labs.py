# SPDX-License-Identifier: GPL-2.0-or-later
"""All labs of this checkout: the user's lab, and those of tests and benchmarks in directories below it."""

import pathlib

from lab.base import errors, paths, process, ui
from lab.fabric import recorded, state


def running() -> dict[pathlib.Path, list[str]]:
    """Names of running processes, by directory of their lab. A lab without a readable record is found by its processes.
    """
    found: dict[pathlib.Path, list[str]] = {}
    for directory, name, _ in process.marked():
        if directory.is_relative_to(paths.RUN):
            found.setdefault(directory, []).append(name)
    return found


def title(directory: pathlib.Path) -> str:
    return "the lab" if directory == paths.RUN else str(directory.relative_to(paths.RUN))


def down(directory: pathlib.Path) -> list[str]:
    """Ends the lab in a directory; returns the names of the ended processes."""
    try:
        lab = recorded.Recorded(directory)
    except state.Unusable as error:
        ui.say(f"{error}. The record is removed")
        (directory / state.NAME).unlink(missing_ok=True)      # another command may have removed it
        lab = recorded.Recorded(directory)
    return lab.down()


def down_all() -> tuple[dict[pathlib.Path, list[str]], list[str]]:
    """Ends all labs; returns the names of the ended processes by directory, and the errors of labs that do not end,
    for example because an earlier sudo has made their files root's."""
    with_record = {file.parent for file in paths.RUN.rglob(state.NAME)}
    ended, failures = {}, []
    for directory in sorted({paths.RUN, *running(), *with_record}):
        try:
            ended[directory] = down(directory)
        except (OSError, ui.LabError) as error:
            failures.append(f"{title(directory)}: {errors.sentence(error)}")
    return ended, failures
