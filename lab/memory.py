# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks whether the host has enough memory for a command."""

import pathlib
import re

from lab import ui

MEMINFO = pathlib.Path("/proc/meminfo")
CONTROL_GROUP = pathlib.Path("/proc/self/cgroup")
CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")
CACHED = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)    # in memory.stat


def _number(path: pathlib.Path) -> int | None:
    """The number in a control group's file; None: no such file, or no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _cached(group: pathlib.Path) -> int:
    """Bytes of the page cache, which the kernel frees on demand. memory.current includes them."""
    try:
        return sum(map(int, CACHED.findall((group / "memory.stat").read_text())))
    except OSError:
        return 0


def _group_mib() -> int | None:
    """Memory left in MiB below the limits of this process's control group and of its parents; None: no limit."""
    try:
        name = CONTROL_GROUP.read_text().strip().rpartition("::")[2].lstrip("/")
    except OSError:
        return None
    left = []
    for group in [CONTROL_GROUPS / name, *(CONTROL_GROUPS / name).parents]:
        most, used = _number(group / "memory.max"), _number(group / "memory.current")
        if most is not None and used is not None:
            left.append((most - used + _cached(group)) >> 20)
    return min(left, default=None)


def available_mib() -> int:
    line = next(line for line in MEMINFO.read_text().splitlines() if line.startswith("MemAvailable:"))
    free = int(line.split()[1]) >> 10
    group = _group_mib()
    return free if group is None else min(free, group)


def check(what: str, least_mib: int, most_mib: int, advice: str) -> None:
    """Warns if memory may become scarce; fails if it cannot suffice. least_mib: needed at the start; most_mib: needed
    later at most."""
    free = available_mib()
    if least_mib > free:
        raise ui.LabError(f"{what}: at least {least_mib} MiB of memory are needed, {free} MiB are free. {advice}")
    if most_mib > free:
        ui.say(f"{what}: up to {most_mib} MiB of memory may be used, {free} MiB are free; when memory runs out the "
               f"kernel kills processes. {advice}")
