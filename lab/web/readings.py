# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the switches of a fabric repeatedly: each time the traffic rows of all ports, and the status of switches that
have changed."""

import dataclasses
from collections.abc import Sequence

from lab.fabric import control
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort
from lab.web import model, runs, traffic

MOST_CHANGED = 32               # limit of statuses read per reading: a sweep of opensm may change thousands of switches
PASSING = ("queued_packets",)   # members of a port's status that are left out because they change constantly


@dataclasses.dataclass
class Known:
    """A switch and its last status. changes: the switch's number of changes at that time. conditions: (state,
    conditions) of ports in the last rows."""
    process: int
    name: str
    status: Json = dataclasses.field(default_factory=dict)
    changes: int = -1
    conditions: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def is_old(self, answer: Json) -> bool:
        about = self.status["switch"]
        return (answer["changes"], answer["lid"], answer["sm_lid"]) != (self.changes, about["lid"], about["sm_lid"])

    def refresh(self, rows: dict[int, traffic.Row]) -> bool:
        """Updates the status from the traffic rows; returns whether it changed."""
        now = {port: (row[traffic.STATE], row[traffic.CONDITIONS]) for port, row in rows.items()}
        if now == self.conditions:
            return False
        self.conditions = now
        for port in self.status["ports"]:
            if found := now.get(port["port"]):
                state, bits = found
                port |= {"state": traffic.STATES[state], "cable": bool(bits & traffic.PLUGGED),
                         "faults": bool(bits & traffic.FAULTS), "peer_copy": bool(bits & traffic.COPIES)}
        return True


class Readings:
    """Reads the switches of the processes with these connections."""

    def __init__(self, connections: Sequence[control.Control]):
        self._connections = connections
        self.instances: set[str] = set()                # one of each process
        self._known: dict[str, Known] = {}              # by GUID
        self._names: list[dict[str, str]] = []          # by process: GUID of each switch by name
        self._phantoms: list[set[str]] = []
        for connection in connections:
            self._names.append({})
            self._phantoms.append(set())
            self._read_nodes(connection, len(self._names) - 1)
            self.instances |= runs.instances(connection, list(self._names[-1]))

    def _read_nodes(self, asked: control.Control, process: int) -> None:
        nodes = asked.ask("nodes")["nodes"]
        self._names[process] = {node["id"]: node["guid"] for node in nodes if node["type"] == "switch"}
        self._phantoms[process] = {node["guid"] for node in nodes if node["type"] == "phantom"}

    def take(self, guests: dict[int, HcaPort]) -> tuple[model.Reading, bool]:
        """Takes a reading; returns it, and whether anything except traffic counters may have changed since the last."""
        answers = {guid: asked.ask("traffic", switch=name) for process, asked in enumerate(self._connections)
                   for name, guid in self._names[process].items()}
        rows = {guid: {row[traffic.PORT]: row for row in answer["rows"]} for guid, answer in answers.items()}
        moved = [known.refresh(rows[guid]) for guid, known in self._known.items()]
        old = self._update(answers, rows)
        switches = {guid: {**known.status, "name": known.name, "process": known.process}
                    for guid, known in self._known.items()}
        changes = {guid: answer["changes"] for guid, answer in answers.items()}
        return model.Reading(switches, rows, changes, set().union(*self._phantoms), guests), any(moved) or old

    def _update(self, answers: dict[str, Json], rows: traffic.Rows) -> bool:
        """Reads the status of new switches, and of up to MOST_CHANGED that changed; returns whether there were any."""
        new = [Known(process, name) for process, names in enumerate(self._names)
               for name, guid in names.items() if guid not in self._known]
        old = [known for guid, known in self._known.items() if known.is_old(answers[guid])]
        for process in {known.process for known in old}:        # a device may have taken a phantom's place
            self._read_nodes(self._connections[process], process)
        for known in new + old[:MOST_CHANGED]:
            guid = self._names[known.process][known.name]
            self._read_status(known, answers[guid]["changes"])
            known.conditions = {}
            known.refresh(rows[guid])
            self._known[guid] = known
        return bool(new or old)

    def _read_status(self, known: Known, changes: int) -> None:
        status = self._connections[known.process].ask("status", switch=known.name)
        known.status = {"switch": status["switch"],
                        "ports": [{name: value for name, value in port.items() if name not in PASSING}
                                  for port in status["ports"]]}
        known.changes = changes
