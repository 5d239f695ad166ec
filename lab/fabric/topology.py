# SPDX-License-Identifier: GPL-2.0-or-later
"""Topology files in the format that ibnetdiscover writes, and ibsim and pib-switch read.

A Net has nodes and links. net() reads one and text() writes one. wiring() is equal for two descriptions of the same
fabric with different node names."""

import dataclasses
import pathlib
import re

from lab.base import ui

SWITCH_GUID = 0x0650_4942_0001_0000     # locally administered, as pib-switch assigns them
HOST_GUID = 0x0650_4942_0100_0000
VENDOR = 0x001234
DEVICES = {"Switch": 0x1b0d, "Ca": 0x1b0e}
# Limits of pib-switch. A subnet has no more unicast LIDs than MOST_NODES.
MOST_NODES = 0xBFFF
MOST_PORTS = 63
MOST_BYTES = 64 << 20           # limit of a file


@dataclasses.dataclass
class Node:
    """A node of a topology file. kind: "Switch" or "Ca". peers: port number to (id, port number) of the peer."""
    kind: str
    name: str
    ports: int
    guid: int
    description: str = ""
    peers: dict[int, tuple[str, int]] = dataclasses.field(default_factory=dict)
    port_guids: dict[int, int] = dataclasses.field(default_factory=dict)
    speeds: dict[int, str] = dataclasses.field(default_factory=dict)    # such as 4xEDR

    def port_guid(self, port: int) -> int:
        return self.port_guids.get(port, self.guid + (port if self.kind == "Ca" else 0))


class Net:
    """A fabric. Nodes by id, in the order of their creation. made: by kind, the number of nodes that switch() and
    host() have made."""

    def __init__(self, speed: str = "4xEDR"):
        self.nodes: dict[str, Node] = {}
        self.speed = speed
        self.made = {"Switch": 0, "Ca": 0}

    def switch(self, name: str, ports: int) -> Node:
        if ports > MOST_PORTS:
            raise ui.LabError(f"{name} would have {ports} ports, and a switch has at most {MOST_PORTS}: take fewer "
                              "hosts or links at each, or another kind of topology")
        return self._add(Node("Switch", name, ports, SWITCH_GUID + self.made["Switch"]))

    def host(self, name: str, ports: int = 1) -> Node:
        return self._add(Node("Ca", name, ports, HOST_GUID + self.made["Ca"] * 0x10))

    def check_room(self, more: int) -> None:
        """Refuses that many more nodes, if a subnet cannot have them."""
        if len(self.nodes) + more > MOST_NODES:
            raise ui.LabError(f"these are more than {MOST_NODES} switches and hosts, and a subnet has no more LIDs: "
                              "take fewer")

    def _add(self, node: Node) -> Node:
        self.check_room(1)
        self.made[node.kind] += 1
        node.description = node.name
        self.nodes[node.name] = node
        return node

    def link(self, one: Node, other: Node, ports: tuple[int, int] | None = None) -> None:
        """Joins two nodes. ports: the port at each; None: the lowest free ones."""
        at = ports or (self._free(one), self._free(other))
        for node, port, peer, peer_port in ((one, at[0], other, at[1]), (other, at[1], one, at[0])):
            if port in node.peers or not 1 <= port <= node.ports:
                raise ui.LabError(f"{node.name} has {node.ports} ports, and needs one more to be joined to "
                                  f"{peer.name}: take fewer hosts, links or switches, or another kind of topology")
            node.peers[port] = (peer.name, peer_port)

    @staticmethod
    def _free(node: Node) -> int:
        return min(set(range(1, node.ports + 2)) - set(node.peers))

    def hosts(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.kind == "Ca"]

    def switches(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.kind == "Switch"]

    def wiring(self) -> set[frozenset[tuple[int, int]]]:
        """Links as pairs of (node GUID, port number)."""
        return {frozenset({(node.guid, port), (self.nodes[peer].guid, peer_port)})
                for node in self.nodes.values() for port, (peer, peer_port) in node.peers.items()}

    # -- writing ------------------------------------------------------------

    def text(self, heading: str = "") -> str:
        lines = [f"# {line}".rstrip() for line in heading.splitlines()]
        for node in self.nodes.values():
            lines += ["", f"vendid={VENDOR:#x}", f"devid={DEVICES[node.kind]:#x}",
                      f"sysimgguid={node.guid:#x}"]
            lines += self._switch(node) if node.kind == "Switch" else self._host(node)
        return "\n".join(lines) + "\n"

    def _switch(self, node: Node) -> list[str]:
        lines = [f"switchguid={node.guid:#x}({node.guid:x})",
                 f'Switch\t{node.ports} "{node.name}"\t\t# "{node.description}" base port 0 lid 0 '
                 "lmc 0"]
        for port, (peer, peer_port) in sorted(node.peers.items()):
            other = self.nodes[peer]
            guid = f"({other.port_guid(peer_port):x})" if other.kind == "Ca" else ""
            lines.append(f'[{port}]\t"{peer}"[{peer_port}]{guid}\t\t# "{other.description}" lid 0 '
                         f"{node.speeds.get(port, self.speed)}")
        return lines

    def _host(self, node: Node) -> list[str]:
        lines = [f"caguid={node.guid:#x}", f'Ca\t{node.ports} "{node.name}"\t\t'
                                           f'# "{node.description}"']
        for port, (peer, peer_port) in sorted(node.peers.items()):
            lines.append(f'[{port}]({node.port_guid(port):x})\t"{peer}"[{peer_port}]\t\t'
                         f'# lid 0 lmc 0 "{self.nodes[peer].description}" lid 0 '
                         f"{node.speeds.get(port, self.speed)}")
        return lines


# -- reading ----------------------------------------------------------------

NODE = re.compile(r'(Switch|Ca|Hca)\s+(\d{1,9})\s+"([^"]+)"\s*(?:#\s*"([^"]*)")?')
PORT = re.compile(r'\[(\d{1,9})\](?:\[ext \d+\])?\s*(?:\(([0-9a-fA-F]+)\))?\s*"([^"]+)"\s*'
                  r'(?:\[(\d{1,9})\])?\s*(?:\(([0-9a-fA-F]+)\))?(?:[^#]*)(?:#.*?\b(\d+x[A-Z0-9]+)\s*)?')
GUID = re.compile(r"(?:switchguid|caguid|hcaguids)=(?:0x([0-9a-fA-F]{1,16})|(\d{1,20}))")
ID_GUID = re.compile(r"[SH]-([0-9a-fA-F]{16})")


def net(text: str) -> Net:
    """Reads a topology file, or the output of ibnetdiscover. pib-switch reports more mistakes of a file."""
    made, node, said = Net(), None, 0
    free = {"Switch": SWITCH_GUID, "Ca": HOST_GUID}
    for line in text.splitlines():
        if found := GUID.match(line):
            said = int(found[1], 16) if found[1] else int(found[2])
        elif found := NODE.match(line):
            kind = "Switch" if found[1] == "Switch" else "Ca"
            named = ID_GUID.fullmatch(found[3])
            guid = said or (int(named[1], 16) if named else 0)
            if not guid:
                guid = free[kind]
                free[kind] += 1 if kind == "Switch" else int(found[2]) + 1
            node = Node(kind, found[3], int(found[2]), guid, found[4] or found[3])
            made.nodes[node.name] = node
            said = 0
        elif node and (found := PORT.match(line)):
            _take_port(node, found)
    _join(made)
    return made


def _take_port(node: Node, found: re.Match) -> None:
    port = int(found[1])
    node.peers[port] = (found[3], int(found[4] or 1))
    if found[2] and node.kind == "Ca":
        node.port_guids[port] = int(found[2], 16)
    if found[6]:
        node.speeds[port] = found[6]


def _join(made: Net) -> None:
    """Adds a link to both ends if only one end lists it."""
    for node in list(made.nodes.values()):
        for port, (peer, peer_port) in list(node.peers.items()):
            if peer not in made.nodes:
                raise ui.LabError(f'the topology has no node "{peer}", to which {node.name}[{port}] '
                                  "is joined. Define the node in the file, or take this link out")
            made.nodes[peer].peers.setdefault(peer_port, (node.name, port))


def load(path: pathlib.Path) -> Net:
    try:
        made = net(path.read_text(errors="replace"))
    except OSError as error:
        raise ui.LabError(f"{path}: {error.strerror}. Examples are in examples/topologies; "
                          "./pib topology makes others") from error
    for host in made.hosts():
        for port, (peer, _) in host.peers.items():
            if made.nodes[peer].kind == "Ca":
                raise ui.LabError(f'{path}: {host.name}[{port}] is joined to "{peer}", and both are channel adapters. '
                                  "Put a switch between them")
    return made


def places(fabric: Net, count: int) -> list[Node]:
    """The hosts that the guests replace: hosts named vm0, vm1, … if they exist, else hosts evenly spread over the list.
    """
    names = [f"vm{number}" for number in range(count)]
    if all(name in fabric.nodes and fabric.nodes[name].kind == "Ca" for name in names):
        return [fabric.nodes[name] for name in names]
    hosts = [host for host in fabric.hosts() if host.peers]
    if len(hosts) < count:
        raise ui.LabError(f"the topology has {len(hosts)} hosts with a cable, too few for {count} guests. Take fewer "
                          "guests (./pib up -n N), or a file with more hosts (./pib topology)")
    return [hosts[number * len(hosts) // count] for number in range(count)]
