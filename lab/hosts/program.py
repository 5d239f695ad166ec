# SPDX-License-Identifier: GPL-2.0-or-later
"""The frame of the processes that a lab runs here for its hosts and guests elsewhere."""

import os
from collections.abc import Callable

from lab import errors, paths, process, signals

PYTHON = ["/usr/bin/python3", "-I", "-B", str(paths.ROOT / "lab" / "start.py")]


def words(module: str, *arguments: object) -> list[str]:
    """The command line of such a process."""
    return [*PYTHON, module, *map(str, arguments)]


def run(serve: Callable[[], None]) -> int:
    """Exit status. What this process starts, such as libvirt's ssh, ends with it, and has no mark of its own."""
    os.environ.pop(process.MARK, None)
    signals.raise_on_end()
    try:
        serve()
        return 0
    except (Exception, KeyboardInterrupt) as error:     # pylint: disable=broad-exception-caught
        return errors.status(error)
