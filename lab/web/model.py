# SPDX-License-Identifier: GPL-2.0-or-later
"""The fabric as the page shows it: nodes, links, and the levels and pods by which the page folds them."""

import collections
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from lab.fabric import load
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort
from lab.web.traffic import Rows

PODS_FROM_LEVEL = 3             # a tree with fewer levels of switches has no pods
NO_PROCESS = -1                 # the process of a switch does not answer


@dataclasses.dataclass
class Reading:
    """Readings of the fabric. switches: by GUID the switch's status with "name" and "process" (index of its
    control socket). traffic: rows of ports. changes: by GUID the switch's number of changes of links and forwarding
    table. phantoms: GUIDs. guests: ports of the guests' HCAs by GUID."""
    switches: dict[str, Json]
    traffic: Rows
    changes: dict[str, int]
    phantoms: set[str]
    guests: dict[int, HcaPort]


@dataclasses.dataclass
class Node:
    """A node on the page. id: GUID. kind: switch, guest, phantom, or host (a virtual machine that is not a guest of
    this lab). port_guids: of a host's ports with links. process: of a switch, an index as in Reading, or NO_PROCESS.
    level: number of links to the nearest host. place: name of the topology file's host whose place a guest has taken.
    leaf: the switch under which a host is folded. pod: name of the pod in a tree with pods. x, y: place on the map if
    Graphviz has placed the switch."""
    id: str
    name: str
    kind: str
    description: str = ""
    lids: list[int] = dataclasses.field(default_factory=list)
    port_guids: list[str] = dataclasses.field(default_factory=list)
    process: int = 0
    ports: int = 0
    guest: str = ""
    slot: int = 0
    place: str = ""
    sm: bool = False
    level: int = 0
    leaf: str = ""
    pod: str = ""
    x: float | None = None
    y: float | None = None


@dataclasses.dataclass
class Link:
    """A link on the page. id: GUID[PORT] of end a, always a switch. lids: of end b if that is a host's port. cable:
    False while it is pulled. rate: for example "4X EDR"."""
    id: str
    a: str
    a_port: int
    b: str
    b_port: int
    state: str
    phys_state: str
    rate: str
    capacity: float             # bytes per second in each direction
    mtu: int
    vls: int
    cable: bool
    faults: bool
    peer_copy: bool
    lids: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Fabric:
    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)
    links: dict[str, Link] = dataclasses.field(default_factory=dict)
    sm_lid: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"nodes": [dataclasses.asdict(node) for node in self.nodes.values()],
                "links": [dataclasses.asdict(link) for link in self.links.values()], "sm_lid": self.sm_lid}

    def end_name(self, guid: str, port: int) -> str:
        return f"{self.nodes[guid].name}[{port}]" if guid in self.nodes else f"{guid}[{port}]"

    def link_name(self, link: Link) -> str:
        return f"{self.end_name(link.a, link.a_port)} – {self.end_name(link.b, link.b_port)}"

    def at_port(self) -> dict[tuple[str, int], Link]:
        """Links by (GUID, port) of both ends."""
        return {end: link for link in self.links.values()
                for end in ((link.a, link.a_port), (link.b, link.b_port))}


def natural(name: str) -> list[tuple[int, str]]:
    """A key for natural sorting: leaf2 before leaf10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]


# -- nodes and links ------------------------------------------------------------

def _add_host(fabric: Fabric, reading: Reading, port: Json) -> None:
    peer = port["neighbour"]
    guid = peer["node_guid"]
    guest = reading.guests.get(int(peer["port_guid"], 16))
    if guid not in fabric.nodes:
        kind = "guest" if guest else "phantom" if guid in reading.phantoms else "host"
        name = guest.guest if guest else peer["description"].split(" ")[0] or guid
        fabric.nodes[guid] = Node(guid, name, kind, peer["description"])
    node = fabric.nodes[guid]
    if guest:
        node.guest, node.slot = guest.guest, guest.slot
    node.ports = max(node.ports, peer["port"])
    node.lids = sorted(set(node.lids) | set(port["lids"]))
    node.port_guids = sorted({*node.port_guids, peer["port_guid"]})


def _add_peer(fabric: Fabric, reading: Reading, port: Json) -> None:
    """Adds the neighbour of a port that is not a switch of the reading: a host, or a switch whose process does not
    answer. External ports of a switch have no GUIDs of their own (IBA 4.1.1)."""
    peer = port["neighbour"]
    if (peer["port_guid"] != peer["node_guid"] or peer["node_guid"] in reading.phantoms
            or int(peer["port_guid"], 16) in reading.guests):
        _add_host(fabric, reading, port)
    elif peer["node_guid"] not in fabric.nodes:
        fabric.nodes[peer["node_guid"]] = Node(peer["node_guid"], peer["description"] or peer["node_guid"], "switch",
                                               peer["description"], process=NO_PROCESS)


def _add_link(fabric: Fabric, guid: str, port: Json) -> None:
    peer = port["neighbour"]
    link_id = f"{guid}[{port['port']}]"
    there = fabric.links.get(f"{peer['node_guid']}[{peer['port']}]")
    if there:                   # the other end is a switch that has already added the link
        there.cable, there.faults = there.cable and port["cable"], there.faults or port["faults"]
        return
    rate = f"{port['width']} {port['speed']}".strip()
    fabric.links[link_id] = Link(link_id, guid, port["port"], peer["node_guid"], peer["port"], port["state"],
                                 port["phys_state"], rate, load.capacity(rate), port["mtu"], port["data_vls"],
                                 port["cable"], port["faults"], port["peer_copy"],
                                 [] if fabric.nodes[peer["node_guid"]].kind == "switch" else port["lids"])


def fabric_of(reading: Reading) -> Fabric:
    made = Fabric()
    for guid, switch in reading.switches.items():
        about = switch["switch"]
        made.nodes[guid] = Node(guid, switch["name"], "switch", about["description"],
                                [about["lid"]] if about["lid"] else [], [], switch["process"], about["ports"])
        made.sm_lid = made.sm_lid or about["sm_lid"]
    for guid, switch in reading.switches.items():
        for port in switch["ports"]:
            if "neighbour" in port:
                if port["neighbour"]["node_guid"] not in reading.switches:
                    _add_peer(made, reading, port)
                _add_link(made, guid, port)
    for node in made.nodes.values():
        node.sm = made.sm_lid in node.lids
    _fold(made)
    return made


def name_places(fabric: Fabric, hosts: Mapping[str, str]) -> None:
    """Sets the places of guests. hosts: names of the topology file's hosts by GUID."""
    for node in fabric.nodes.values():
        if node.kind == "guest":
            node.place = hosts.get(node.id, "")


# -- levels and pods ------------------------------------------------------------

def _neighbours(fabric: Fabric) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {guid: [] for guid in fabric.nodes}
    for link in fabric.links.values():
        found[link.a].append(link.b)
        found[link.b].append(link.a)
    return found


def _levels(fabric: Fabric, neighbours: dict[str, list[str]]) -> None:
    """Sets the level of each node: 0 for hosts, 1 for a switch without a path to a host."""
    found = {guid: 0 for guid, node in fabric.nodes.items() if node.kind != "switch"}
    waiting = collections.deque(found)
    while waiting:
        here = waiting.popleft()
        for other in neighbours[here]:
            if other not in found:
                found[other] = found[here] + 1
                waiting.append(other)
    for guid, node in fabric.nodes.items():
        node.level = found.get(guid, 1)


def _components(members: set[str], neighbours: dict[str, list[str]]) -> list[set[str]]:
    found, left = [], set(members)
    while left:
        part, waiting = set(), [left.pop()]
        while waiting:
            here = waiting.pop()
            part.add(here)
            near = left.intersection(neighbours[here])
            left -= near
            waiting += near
        found.append(part)
    return found


def _pods(fabric: Fabric, neighbours: dict[str, list[str]]) -> None:
    """Sets the pods: the parts of a tree that are connected without its highest level of switches."""
    top = max((node.level for node in fabric.nodes.values()), default=0)
    if top < PODS_FROM_LEVEL:
        return
    below = {guid for guid, node in fabric.nodes.items() if node.kind == "switch" and node.level < top}
    parts = _components(below, neighbours)
    if len(parts) < 2:
        return
    def first(part: set[str]):
        return min(natural(fabric.nodes[guid].name) for guid in part)
    for number, part in enumerate(sorted(parts, key=first), 1):
        for guid in part:
            fabric.nodes[guid].pod = f"pod {number}"


def _fold(fabric: Fabric) -> None:
    neighbours = _neighbours(fabric)
    _levels(fabric, neighbours)
    _pods(fabric, neighbours)
    for guid, node in fabric.nodes.items():
        if node.kind != "switch":
            node.leaf = min(neighbours[guid], key=lambda leaf: natural(fabric.nodes[leaf].name), default="")
            node.pod = fabric.nodes[node.leaf].pod if node.leaf else ""
