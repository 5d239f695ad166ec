# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks whether the host has enough memory for a command."""

import pathlib
import re
from collections.abc import Iterator

from lab.base import ui

MEMINFO = pathlib.Path("/proc/meminfo")
CONTROL_GROUP = pathlib.Path("/proc/self/cgroup")
CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")
# Files with a group's limit and use, in the unified hierarchy and in that of the memory controller (cgroups v1).
UNIFIED = ("memory.max", "memory.current")
OWN_HIERARCHY = ("memory.limit_in_bytes", "memory.usage_in_bytes")
# CACHED finds lines of memory.stat. In cgroups v1 the names without "total_" leave a group's children out.
CACHED = re.compile(r"^(total_)?(?:in)?active_file (\d+)$", re.MULTILINE)


def _number(path: pathlib.Path) -> int | None:
    """The number in a control group's file; None: no such file, or no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _cached(group: pathlib.Path) -> int:
    """Bytes of the page cache, which the kernel frees on demand. A group's use includes them."""
    try:
        found = CACHED.findall((group / "memory.stat").read_text())
    except OSError:
        return 0
    total = any(prefix for prefix, _ in found)
    return sum(int(size) for prefix, size in found if bool(prefix) == total)


def _groups() -> Iterator[tuple[pathlib.Path, tuple[str, str]]]:
    """This process's control groups and their parents, each with the names of its files. A container may see its own
    group as the root of the hierarchy."""
    for line in CONTROL_GROUP.read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, files = (CONTROL_GROUPS / "memory", OWN_HIERARCHY) if controllers else (CONTROL_GROUPS, UNIFIED)
        group = root / name.lstrip("/")
        yield from ((one, files) for one in [group, *group.parents] if one.is_relative_to(root))


def _group_mib() -> int | None:
    """Memory left in MiB below the limits of this process's control group and of its parents; None: no limit."""
    left = []
    try:
        for group, files in _groups():
            most, used = (_number(group / name) for name in files)
            if most is not None and used is not None:
                left.append((most - used + _cached(group)) >> 20)
    except (OSError, ValueError):
        return None
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
