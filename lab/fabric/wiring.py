# SPDX-License-Identifier: GPL-2.0-or-later
"""The links of a fabric, the outages in the switches' journals, and the links between two ports."""

import collections
import dataclasses
import functools
from collections.abc import Mapping

from lab.fabric.evidence import Evidence, Json, Table

NONE = "none"                   # detail of a journal entry that says that no fault is set any more


@dataclasses.dataclass(frozen=True)
class Place:
    """A port of a switch, of a virtual machine's HCA or of a phantom. node: the node's name."""
    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}[{self.port}]"


@dataclasses.dataclass
class Outage:
    """A period in which a link was down, or in which faults were injected (down: False). end: None while it lasts.
    cause: why it was down, or the faults."""
    begin: float
    end: float | None
    down: bool
    cause: str
    requested: bool = True      # an operator caused it

    def touches(self, begin: float, end: float) -> bool:
        return self.begin <= end and (self.end is None or self.end >= begin)


@dataclasses.dataclass(eq=False)
class Link:
    """A link. a: always a switch port. b: the other end."""
    a: Place
    b: Place
    up: bool
    state: str
    outages: list[Outage]

    def __str__(self) -> str:
        return str(self.a)


@dataclasses.dataclass(frozen=True)
class HcaPort:
    """A port of a virtual machine's HCA."""
    guest: str
    slot: int
    number: int
    guid: int
    lid: int
    lmc: int

    def owns(self, lid: int) -> bool:
        return self.lid != 0 and self.lid <= lid < self.lid + (1 << self.lmc)


def hca_ports(guest: str, objects: list[Json]) -> list[HcaPort]:
    """Ports of a guest's HCAs. objects: those of each HCA."""
    return [HcaPort(guest, slot, port["port"], int(port["guid"], 16), port["lid"], port["lmc"])
            for slot, one in enumerate(objects) for port in one.get("ports", {}).get("entries", [])]


# -- outages ----------------------------------------------------------------

def _downs(changes: list[Json], up: bool, gone: str) -> list[Outage]:
    """Outages in the changes of a link's ports, in which both ends may report the same outage. gone: the cause of
    outages that no operator requested."""
    found: list[Outage] = []
    for change in changes:
        kind = change["change"]
        open_one = found[-1] if found and found[-1].end is None else None
        if kind in ("cable pulled", "retrained"):
            cause = "the cable was pulled" if kind == "cable pulled" else "it was retrained on request"
            if open_one:
                open_one.cause, open_one.requested = cause, True
            else:
                found.append(Outage(change["at"], None, True, cause))
        elif kind == "down" and not open_one:
            found.append(Outage(change["at"], None, True, gone, requested=False))
        elif kind == "up" and open_one:
            open_one.end = change["at"]
    if up and found and found[-1].end is None:
        found[-1].end = changes[-1]["at"]       # the link is up again; its "up" was lost, or is newer than the journal
    return found


def _faults(changes: list[Json]) -> list[Outage]:
    """Periods with injected faults at one switch port."""
    found: list[Outage] = []
    for change in changes:
        if change["change"] != "faults":
            continue
        if found and found[-1].end is None:
            found[-1].end = change["at"]
        if change["detail"] != NONE:
            found.append(Outage(change["at"], None, False, change["detail"]))
    return found


def _outages(journals: list[list[Json]], up: bool, connected: bool) -> list[Outage]:
    """Outages of a link. journals: one for each end that is a switch port."""
    merged = sorted((change for journal in journals for change in journal), key=lambda change: change["at"])
    gone = "its device has disconnected" if not connected else "it went down without a request of the operator"
    faults = [outage for journal in journals for outage in _faults(journal)]
    return sorted(_downs(merged, up, gone) + faults, key=lambda outage: outage.begin)


# -- wiring -----------------------------------------------------------------

class Wiring:
    def __init__(self, evidence: Evidence):
        self.ports = [port for name, found in evidence.guests.items()
                      for port in hca_ports(name, [hca["objects"] for hca in found["hcas"]])]
        self._ports = {port.guid: port for port in self.ports}
        self._tables: dict[str, Table] = {
            name: dict(found["lft"]["entries"]) for name, found in evidence.switches.items()}
        self._names = {found["status"]["switch"]["guid"]: name for name, found in evidence.switches.items()}
        # Node GUIDs by name. Other virtual machines may have the name of a guest, of a switch, or of each other.
        self._hosts = dict.fromkeys([*evidence.guests, *evidence.switches], "")
        self.links: list[Link] = []
        self.at: dict[Place, Link] = {}         # each link by both ends
        self._known_distances: dict[str, dict[str, int]] = {}      # by start
        for name, found in evidence.switches.items():
            for port in found["status"]["ports"]:
                self._add(evidence, Place(name, port["port"]), port)

    def _peer(self, neighbour: Json) -> Place:
        guest = self._ports.get(int(neighbour["port_guid"], 16))
        if guest:
            return Place(guest.guest, guest.number)
        guid = neighbour["node_guid"]
        if known := self._names.get(guid):
            return Place(known, neighbour["port"])
        name = neighbour["description"].split(" ")[0] or guid
        return Place(name if self._hosts.setdefault(name, guid) == guid else guid, neighbour["port"])

    def _add(self, evidence: Evidence, here: Place, port: Json) -> None:
        if here in self.at or "neighbour" not in port:
            return
        there = self._peer(port["neighbour"])
        journals = [[change for change in evidence.switches[end.node]["journal"] if change["port"] == end.port]
                    for end in (here, there) if end.node in evidence.switches]
        ends = [port, *(other for other in evidence.switches.get(there.node, {}).get("status", {}).get("ports", [])
                        if other["port"] == there.port)]
        up = all(end["phys_state"] == "LinkUp" for end in ends)
        link = Link(here, there, up, port["state"], _outages(journals, up, port["connected"]))
        self.links.append(link)
        self.at[here] = self.at[there] = link

    def port_of_lid(self, lid: int) -> HcaPort | None:
        return next((port for port in self.ports if port.owns(lid)), None)

    def host_link(self, port: HcaPort) -> Link | None:
        return self.at.get(Place(port.guest, port.number))

    def _other(self, link: Link, node: str) -> Place:
        return link.b if link.a.node == node else link.a

    def tables(self, by_guid: Mapping[str, Table]) -> dict[str, Table]:
        """Forwarding tables by name of the switch, for route()."""
        return {self._names[guid]: table for guid, table in by_guid.items() if guid in self._names}

    def route(self, source: HcaPort, dlid: int, tables: Mapping[str, Table] | None = None) -> list[Link]:
        """The links that packets to a DLID take, as far as the forwarding tables lead; by default the present ones."""
        tables = self._tables if tables is None else tables
        link, here, found = self.host_link(source), source.guest, []
        while link and link not in found:
            found.append(link)
            here = self._other(link, here).node
            table = tables.get(here)
            out = table.get(dlid) if table else None
            link = self.at.get(Place(here, out)) if out else None
        return found

    def present(self) -> list[tuple[Link, Outage]]:
        """The outages that last, by their begin."""
        found = [(link, outage) for link in self.links for outage in link.outages if outage.end is None]
        return sorted(found, key=lambda one: one[1].begin)

    @functools.cached_property
    def _neighbours(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = collections.defaultdict(set)
        for link in self.links:
            found[link.a.node].add(link.b.node)
            found[link.b.node].add(link.a.node)
        return found

    def _distances(self, start: str) -> dict[str, int]:
        if start not in self._known_distances:
            found, layer = {start: 0}, [start]
            while layer:
                far = found[layer[0]] + 1
                layer = sorted({other for node in layer for other in self._neighbours.get(node, ())} - set(found))
                found |= dict.fromkeys(layer, far)
            self._known_distances[start] = found
        return self._known_distances[start]

    def is_on_shortest(self, link: Link, one: str, other: str) -> bool:
        """Whether a link is on a shortest path between two nodes, whether it is up or not."""
        from_one, from_other = self._distances(one), self._distances(other)
        length = from_one.get(other, -1)
        return any(near in from_one and far in from_other and from_one[near] + 1 + from_other[far] == length
                   for near, far in ((link.a.node, link.b.node), (link.b.node, link.a.node)))

    def shortest(self, one: str, other: str) -> list[Link]:
        """The links on all shortest paths between two nodes, whether they are up or not; none if no path is known."""
        return [link for link in self.links if self.is_on_shortest(link, one, other)]
