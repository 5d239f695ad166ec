# SPDX-License-Identifier: GPL-2.0-or-later
"""The failures in a device's journal, which also has the changes of a port that comes up."""

from collections.abc import Iterator

from lab.fabric.causes import EVENTS
from lab.fabric.evidence import Json

ACTIVE, ERROR, LID_CHANGE = "IBV_EVENT_PORT_ACTIVE", "IBV_EVENT_PORT_ERR", "IBV_EVENT_LID_CHANGE"


def _is_of_port(entry: Json) -> bool:
    return entry["kind"] == "event" and entry["event"] not in EVENTS


def _failed_changes(names: list[str], was_active: bool) -> list[str]:
    """The changes of a port that end or break connections: it has left Active, or its LID has changed."""
    return [name for name in names if name == ERROR or name == LID_CHANGE and was_active]


def of_device(hca: Json) -> list[Json]:
    """The failures of a device, as entries of its journal. A port's changes are left out unless they break connections:
    the subnet manager also sets up each port that comes up. hca: as in Evidence."""
    return list(_failures(hca["journal"], hca.get("lost", 0) > 0))


def _failures(journal: list[Json], has_lost: bool) -> Iterator[Json]:
    """has_lost: the ports may have become Active in entries that are lost."""
    active: dict[int, bool] = {}
    for entry in journal:
        if not _is_of_port(entry):
            yield entry
            continue
        names, port = entry["event"].split(), entry["port"]
        failed = _failed_changes(names, active.get(port, has_lost))
        active[port] = ACTIVE in names or (active.get(port, has_lost) and ERROR not in names)
        if failed:
            yield {**entry, "event": " ".join(failed)}


def was_never_active(hca: Json, port: int, until: float) -> bool:
    """Whether a port had not been Active since the start of its QEMU until a time: its guest was booting then, or QEMU
    had not started."""
    return not hca.get("lost", 0) and not any(
        _is_of_port(entry) and entry["port"] == port and entry["at"] <= until
        and ACTIVE in entry["event"].split() for entry in hca["journal"])
