# SPDX-License-Identifier: GPL-2.0-or-later
"""Collects the state and the journals of a running fabric, as JSON data, for `./pib why`.

Times are the host's, in seconds since 1970. A virtual machine's clock stops while the machine is stopped, so journal
entries from before a stop appear later than they were."""

import concurrent.futures
import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from lab.base import ui
from lab.fabric import cluster, control, report, switch_process
from lab.guests import vm

NS = 1e9
CLEARED = "counters-cleared"    # a file in the lab's directory; its time is that of the last clear

Json = dict[str, Any]


class Table(Protocol):
    """A forwarding table: output ports by LID."""
    def get(self, lid: int, /) -> int | None: ...


@dataclasses.dataclass
class Evidence:
    """Everything that was read. switches: by id: "status", "lft", "journal", "began" (the start of its process),
    "counters", "faults" (by number of a port with faults). guests: by name: "state", and a list "hcas" with "objects",
    "journal", "lost" (number of overwritten journal entries) and "refusals". Each entry of a journal or of refusals has
    a time "at"."""
    at: float
    switches: dict[str, Json]
    guests: dict[str, Json]
    silent: list[str] = dataclasses.field(default_factory=list)     # guests whose QEMU did not answer
    faulty: dict[str, str] = dataclasses.field(default_factory=dict)    # by guest: its kernel's fatal fault, one line
    ended: dict[str, list[str]] = dataclasses.field(default_factory=dict)   # see ended_switches()
    gone: dict[str, str] = dataclasses.field(default_factory=dict)  # guests whose QEMU has ended, with its last line
    # Returns the known forwarding tables of an earlier time, by GUID of the switch; None: no earlier tables are known.
    tables_at: Callable[[float], dict[str, Table]] | None = None
    cleared: float = 0.0        # time at which the lab has cleared the error counters last; 0: it has not


def _dated(entries: list[Json], now: float, age_s: Callable[[Json], float]) -> list[Json]:
    """Adds "at" to entries. now: the time to which the ages refer. On a busy host that is inexact: callers give the
    time before the query for switches' changes, and the time after it for devices' failures, so that a cause precedes
    its effect."""
    return [{**entry, "at": now - age_s(entry)} for entry in entries]


def _switch(asked: control.Control, name: str) -> Json:
    status = asked.ask("status", switch=name)
    before = time.time()
    journal = asked.ask("journal", switch=name)
    return {"status": status, "lft": asked.ask("lft", switch=name),
            "journal": _dated(journal["entries"], before, lambda entry: entry["age_ns"] / NS),
            "began": int(journal["instance"], 16) / NS,
            "counters": asked.ask("counters", switch=name)["ports"],
            "faults": {str(port["port"]): asked.ask("fault", switch=name, port=port["port"])
                       for port in status["ports"] if port["faults"]}}


def switches(controls: list[pathlib.Path]) -> dict[str, Json]:
    """State and journal of each switch, by id, or by GUID if another one has the id: processes without a topology file
    have one id. controls: control sockets of the fabric's processes."""
    found: dict[str, Json] = {}
    for asked, name in control.every_switch(controls):
        one = _switch(asked, name)
        found[one["status"]["switch"]["guid"] if name in found else name] = one
    return found


def _slots(monitor: pathlib.Path) -> range:
    """Numbers of the HCAs of a virtual machine."""
    # pylint: disable-next=positional-only-arguments-expected,redundant-keyword-arg
    listed = vm.monitor_command(monitor, "qom-list", path="/machine/peripheral")
    return range(sum(entry["name"].startswith("hca") for entry in listed))


def objects(monitor: pathlib.Path) -> list[Json]:
    """The objects of each HCA of a virtual machine; empty if QEMU does not answer."""
    try:
        return [vm.device_property(monitor, "objects", slot) for slot in _slots(monitor)]
    except ui.LabError:
        return []


def refusals(state: Json, now: float) -> list[Json]:
    """The device's last refusals, from its property `objects`, with times."""
    return _dated(state.get("refusals", {}).get("entries", []), now,
                  lambda entry: (state["now_ns"] - entry["time_ns"]) / NS)


def _hca(monitor: pathlib.Path, slot: int) -> Json:
    """State and failures of a device. The device clock and the wall clock are read once for all
    failures, so that their dates have the same order."""
    journal = vm.device_property(monitor, "journal", slot)
    now, now_ns = time.time(), journal.get("now_ns", 0)
    dated = _dated(journal.get("entries", []), now, lambda entry: (now_ns - entry["time_ns"]) / NS)
    state = vm.device_property(monitor, "objects", slot)
    return {"objects": state, "journal": dated, "lost": journal.get("lost", 0),
            "refusals": refusals({**state, "now_ns": now_ns}, now)}


def _guest(monitor: pathlib.Path) -> Json | None:
    """State and HCAs of a guest; None: QEMU does not answer."""
    try:
        return {"state": vm.monitor_command(monitor, "query-status")["status"],
                "hcas": [_hca(monitor, slot) for slot in _slots(monitor)]}
    except ui.LabError:
        return None


def guests(lab: cluster.Cluster) -> dict[str, Json | None]:
    """State, objects and journals of each guest, asked in parallel. None: QEMU does not answer."""
    names = lab.nodes()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(len(names), 1)) as askers:
        return dict(zip(names, askers.map(lambda name: _guest(lab.monitor(name)), names)))


def ended_switches(lab: cluster.Cluster) -> dict[str, list[str]]:
    """Names of the processes of the fabric that do not run but should, with the names of their switches if the fabric
    has several processes. Those on other hosts are not known."""
    if not lab.state or lab.state.hosts:
        return {}
    return {switch_process.Switch(lab.sockets(), number=number).name: names
            for number, names in enumerate(lab.state.parts or [[]]) if not lab.switch(number)}


def without_guests(controls: list[pathlib.Path]) -> Evidence:
    return Evidence(time.time(), switches(controls), {})


def faulty_kernels(lab: cluster.Cluster) -> dict[str, str]:
    found = {name: report.fatal_line(vm.Files(name, lab.sockets()).console)
             for name in (*lab.nodes(), *lab.ended_nodes())}
    return {name: line for name, line in found.items() if line}


def note_cleared(lab: cluster.Cluster) -> None:
    """Notes that the error counters are zero now. On a full disk `why` takes the switch's start instead."""
    with contextlib.suppress(OSError):
        (lab.directory / CLEARED).touch()


def _cleared(lab: cluster.Cluster) -> float:
    try:
        return (lab.directory / CLEARED).stat().st_mtime
    except OSError:
        return 0.0


def collect(lab: cluster.Cluster) -> Evidence:
    answers = guests(lab)
    gone = {name: ui.tail(lab.log(name), 1).strip() for name in lab.ended_nodes()}
    return Evidence(time.time(), switches([switch.control for switch in lab.switches()]),
                    {name: found for name, found in answers.items() if found is not None},
                    silent=[name for name, found in answers.items() if found is None and name not in gone],
                    faulty=faulty_kernels(lab), ended=ended_switches(lab), gone=gone,
                    cleared=_cleared(lab))
