# SPDX-License-Identifier: GPL-2.0-or-later
"""The routes of packets by the forwarding tables: of one connection, of all pairs of hosts through a link, and how
evenly they use the links."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from lab.web.model import Fabric, Link, Node


class Table(Protocol):
    """A forwarding table: output port by LID."""

    def get(self, lid: int, /) -> int | None: ...


Tables = Mapping[str, Table]            # by the switch's GUID
Hop = tuple[str, bool]                  # a link; True: from its end a to b
MOST_PAIRS = 400                        # limit of listed pairs, half of them for each direction


@dataclasses.dataclass
class Way:
    """A route. complete: it ends at a port with the LID. end: the node at which it ends."""
    hops: list[Hop]
    complete: bool
    end: str

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class Routes:
    def __init__(self, fabric: Fabric, tables: Tables):
        self.fabric, self.tables = fabric, tables
        self._at = fabric.at_port()
        self._hosts: dict[str, list[tuple[Node, Hop]]] = collections.defaultdict(list)      # by GUID of the switch
        for link in fabric.links.values():
            if fabric.nodes[link.b].kind != "switch":
                self._hosts[link.a].append((fabric.nodes[link.b], (link.id, False)))
        self._by_lid = {lid: node for node in fabric.nodes.values() for lid in node.lids}

    def _step(self, here: str, dlid: int) -> tuple[Hop, str] | None:
        """The link by which a switch forwards packets to a LID, and the node at its other end."""
        table = self.tables.get(here)
        port = table.get(dlid) if table else None
        link = self._at.get((here, port)) if port else None
        if not link or link.state == "Down":
            return None
        out = link.a == here and link.a_port == port
        return (link.id, out), link.b if out else link.a

    def _walk(self, here: str, dlid: int) -> Way:
        """The route from a switch to a LID. A route that returns to one of its switches ends there."""
        hops: list[Hop] = []
        seen = set()
        while here not in seen and self.fabric.nodes[here].kind == "switch":
            seen.add(here)
            step = self._step(here, dlid)
            if not step:
                break
            hops.append(step[0])
            here = step[1]
        node = self.fabric.nodes[here]
        lids = node.lids if node.kind == "switch" or not hops else self.fabric.links[hops[-1][0]].lids
        return Way(hops, dlid in lids, here)

    def way(self, source: str, port: int, dlid: int) -> Way:
        """The route from a host's port to a LID."""
        link = self._at.get((source, port))
        if not link or link.state == "Down":
            return Way([], False, source)
        if dlid in link.lids:
            return Way([], True, source)        # a port loops packets to its own LID back
        found = self._walk(link.a, dlid)
        return Way([(link.id, False), *found.hops], found.complete, found.end)

    def node_of_lid(self, lid: int) -> Node | None:
        return self._by_lid.get(lid)

    # -- all pairs ------------------------------------------------------------------

    def _flows(self) -> Iterator[tuple[str, int, Node, list[Hop]]]:
        """Yields (switch, LID, host with the LID, hops) for each switch with hosts and each LID of a host."""
        lids = [(lid, node) for lid, node in sorted(self._by_lid.items()) if node.kind != "switch"]
        for switch in self._hosts:
            for lid, node in lids:
                yield switch, lid, node, self._walk(switch, lid).hops

    def _sources(self, switch: str, target: Node) -> list[tuple[Node, Hop]]:
        return [host for host in self._hosts[switch] if host[0].id != target.id]

    def balance(self) -> dict[Hop, int]:
        """For each link and direction the number of pairs (host, LID of another host) whose route uses it."""
        found: collections.Counter[Hop] = collections.Counter()
        for switch, _lid, target, hops in self._flows():
            sources = self._sources(switch, target)
            for hop in hops:
                found[hop] += len(sources)
            found.update(hop for _node, hop in sources)
        return found

    def through(self, link: Link) -> dict[str, Any]:
        """The pairs of hosts whose routes use a link: their number, and the names of the first MOST_PAIRS. Each
        direction has half of these names, or more if the other direction has fewer."""
        counts = {True: 0, False: 0}
        listed: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for switch, lid, target, hops in self._flows():
            for node, first in self._sources(switch, target):
                for hop in [first, *hops]:
                    if hop[0] == link.id:
                        counts[hop[1]] += 1
                        if len(listed[hop[1]]) < MOST_PAIRS:
                            listed[hop[1]].append({"from": node.name, "to": target.name, "dlid": lid, "out": hop[1]})
        half = MOST_PAIRS // 2
        most = {way: max(half, MOST_PAIRS - len(listed[not way])) for way in listed}
        return {"out": counts[True], "in": counts[False],
                "pairs": [pair for way, pairs in listed.items() for pair in pairs[:most[way]]]}

    # -- credit loops ---------------------------------------------------------------

    def credit_loops(self) -> list[list[Hop]]:
        """Sets of links whose buffers can wait for each other in a cycle, if all packets use one VL."""
        after: dict[Hop, set[Hop]] = collections.defaultdict(set)
        for _switch, _lid, _target, hops in self._flows():
            for one, other in zip(hops, hops[1:]):
                after[one].add(other)
        return [part for part in strongly_connected(after) if len(part) > 1]


def _finish_order(after: dict[Hop, set[Hop]]) -> list[Hop]:
    """Links in the order in which a depth-first search finishes them."""
    order: list[Hop] = []
    seen: set[Hop] = set()
    for start in list(after):
        stack: list[tuple[Hop, Iterable[Hop]]] = [] if start in seen else [(start, iter(after[start]))]
        seen.add(start)
        while stack:
            here, rest = stack[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                order.append(here)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(after.get(following, ()))))
    return order


def strongly_connected(after: dict[Hop, set[Hop]]) -> list[list[Hop]]:
    """Strongly connected components, by Kosaraju's algorithm."""
    before: dict[Hop, set[Hop]] = collections.defaultdict(set)
    for one, others in after.items():
        for other in others:
            before[other].add(one)
    found, seen = [], set()
    for root in reversed(_finish_order(after)):
        part, waiting = [], [root]
        while waiting:
            here = waiting.pop()
            if here not in seen:
                seen.add(here)
                part.append(here)
                waiting += before[here]
        if part:
            found.append(part)
    return found
