# SPDX-License-Identifier: GPL-2.0-or-later
"""Common parts of the processes that a lab runs here for its hosts and for guests on them."""

import os
from collections.abc import Callable

from lab.base import errors, paths, process, signals

PYTHON = ["/usr/bin/python3", "-I", "-B", str(paths.ROOT / "lab" / "start.py")]


def words(module: str, *arguments: object) -> list[str]:
    """Command line of the process that runs a module of lab.hosts."""
    return [*PYTHON, module, *map(str, arguments)]


def run(serve: Callable[[], None]) -> int:
    """Runs serve(); returns an exit status. Removes the lab's mark from the environment: child processes, such as
    libvirt's ssh, end with this process and must not count as processes of the lab."""
    os.environ.pop(process.MARK, None)
    signals.raise_on_end()
    try:
        serve()
        return 0
    except (Exception, KeyboardInterrupt) as error:     # pylint: disable=broad-exception-caught
        return errors.status(error)
