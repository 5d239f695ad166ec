# SPDX-License-Identifier: GPL-2.0-or-later
"""The routes of packets by the forwarding tables: of one connection, of all pairs of hosts through a link, and how
evenly they use the links."""

import collections
import dataclasses
import functools
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lab.fabric.evidence import Table
from lab.web.model import Fabric, Link, Node

Tables = Mapping[str, Table]            # by the switch's GUID
Hop = tuple[str, bool]                  # a link; True: from its end a to b
Step = tuple[Hop, str]                  # a hop, and the node to which it leads
Steps = dict[str, Step | None]          # by switch; None: the route ends there
MOST_PAIRS = 400                        # limit of listed pairs, half of them for each direction
MOST_ROUTES = 1_000_000                 # limit of routes (switch with hosts, LID) in an answer: seconds of work


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
        # Counts a host's links to each switch.
        self._of_host: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for link in fabric.links.values():
            if fabric.nodes[link.b].kind != "switch":
                self._hosts[link.a].append((fabric.nodes[link.b], (link.id, False)))
                self._of_host[link.b][link.a] += 1
        self._by_lid = {lid: node for node in fabric.nodes.values() for lid in node.lids}

    def _step(self, here: str, dlid: int) -> Step | None:
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

    def _host_lids(self) -> list[int]:
        return [lid for lid, node in sorted(self._by_lid.items()) if node.kind != "switch"]

    def _chosen(self, lids: list[int]) -> list[int]:
        """As many of the LIDs as MOST_ROUTES permits. They are chosen at random, because routing engines give ports to
        LIDs in turn; and always the same ones, so that two moments can be compared."""
        most = max(MOST_ROUTES // max(len(self._hosts), 1), 1)
        return lids if len(lids) <= most else sorted(random.Random(len(lids)).sample(lids, most))

    def counted(self) -> tuple[int, int]:
        """The numbers of hosts' LIDs whose routes balance() and credit_loops() follow, and of all."""
        lids = self._host_lids()
        return len(self._chosen(lids)), len(lids)

    def _sources(self, switch: str, target: Node) -> list[tuple[Node, Hop]]:
        return [host for host in self._hosts[switch] if host[0].id != target.id]

    def _tree(self, lid: int) -> Steps | None:
        """The steps to a LID of all switches on routes from switches with hosts. Each switch comes after the next
        switch of its route. None if the tables lead in a circle."""
        steps: Steps = {}
        for start in self._hosts:
            here, path = start, dict[str, Step | None]()
            while here not in steps and here not in path and self.fabric.nodes[here].kind == "switch":
                path[here] = step = self._step(here, lid)
                here = step[1] if step else here
            if path.get(here):
                return None
            steps.update((switch, path[switch]) for switch in reversed(path))
        return steps

    @functools.cached_property
    def _survey(self) -> tuple[dict[Hop, int], dict[Hop, set[Hop]]]:
        """Follows the routes to the chosen LIDs from each switch with hosts. Returns the balance and, for each hop, the
        hops that follow it on some route."""
        lids = self._chosen(self._host_lids())
        found: collections.Counter[Hop] = collections.Counter()
        after: dict[Hop, set[Hop]] = collections.defaultdict(set)
        for lid in lids:
            if (steps := self._tree(lid)) is None:
                self._add_routes(lid, found, after)
            else:
                self._add_tree(lid, steps, found, after)
        own = collections.Counter(self._by_lid[lid].id for lid in lids)
        for node, hop in itertools.chain.from_iterable(self._hosts.values()):
            found[hop] += len(lids) - own[node.id]
        return found, after

    def _add_tree(self, lid: int, steps: Steps, found: collections.Counter[Hop], after: dict[Hop, set[Hop]]) -> None:
        sources = collections.Counter({switch: len(hosts) for switch, hosts in self._hosts.items()})
        sources.subtract(switch for switch, hosts in self._of_host[self._by_lid[lid].id].items() for _ in range(hosts))
        for here in reversed(steps):            # each switch comes after the switches that forward to it
            if step := steps[here]:
                hop, following = step
                found[hop] += sources[here]
                sources[following] += sources[here]
                if more := steps.get(following):
                    after[hop].add(more[0])

    def _add_routes(self, lid: int, found: collections.Counter[Hop], after: dict[Hop, set[Hop]]) -> None:
        for switch in self._hosts:
            hops = self._walk(switch, lid).hops
            for hop in hops:
                found[hop] += len(self._sources(switch, self._by_lid[lid]))
            for one, other in zip(hops, hops[1:]):
                after[one].add(other)

    def balance(self) -> dict[Hop, int]:
        """For each link and direction the number of pairs (host, chosen LID of another host) whose route uses it."""
        return self._survey[0]

    def _leads_to(self, link: Link, lid: int) -> bool:
        """Whether a switch at an end of the link forwards packets to this LID into the link."""
        return any(table.get(lid) == port for end, port in ((link.a, link.a_port), (link.b, link.b_port))
                   if (table := self.tables.get(end)))

    def _uses(self, link: Link, lid: int) -> dict[str, list[bool]]:
        """For each switch with hosts, the directions in which its route to a LID uses the link; [] if the route does
        not use it."""
        if (steps := self._tree(lid)) is None:
            return {switch: [out for name, out in self._walk(switch, lid).hops if name == link.id]
                    for switch in self._hosts}
        uses: dict[str, list[bool]] = {}
        for here, step in steps.items():
            uses[here] = [*([step[0][1]] if step[0][0] == link.id else []), *uses.get(step[1], [])] if step else []
        return {switch: uses[switch] for switch in self._hosts}

    def _pairs(self, link: Link, lids: list[int]) -> Iterator[tuple[Node, int, bool]]:
        """Yields (host, LID of another host, direction) of routes that use a link: from a host at the link's end b to
        all LIDs, and from all hosts to the LIDs given."""
        if self.fabric.nodes[link.b].kind != "switch":
            for lid in self._host_lids():
                if self._by_lid[lid].id != link.b:
                    yield self.fabric.nodes[link.b], lid, False
        for lid in lids:
            for switch, ways in self._uses(link, lid).items():
                for node, _first in self._sources(switch, self._by_lid[lid]) if ways else ():
                    for out in ways:
                        yield node, lid, out

    def through(self, link: Link) -> dict[str, Any]:
        """The pairs of hosts whose routes use a link: their number, and the names of the first MOST_PAIRS. Each
        direction has half of these names, or more if the other direction has fewer. lids: the numbers of LIDs whose
        routes were followed, and of those to which the link leads."""
        counts = {True: 0, False: 0}
        listed: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        leading = [lid for lid in self._host_lids() if self._leads_to(link, lid)]
        chosen = self._chosen(leading)
        for node, lid, out in self._pairs(link, chosen):
            counts[out] += 1
            if len(listed[out]) < MOST_PAIRS:
                listed[out].append({"from": node.name, "to": self._by_lid[lid].name, "dlid": lid, "out": out})
        half = MOST_PAIRS // 2
        most = {way: max(half, MOST_PAIRS - len(listed[not way])) for way in listed}
        return {"out": counts[True], "in": counts[False], "lids": [len(chosen), len(leading)],
                "pairs": [pair for way, pairs in listed.items() for pair in pairs[:most[way]]]}

    # -- credit loops ---------------------------------------------------------------

    def credit_loops(self) -> list[list[Hop]]:
        """Sets of links whose buffers can wait for each other in a cycle, if all packets use one VL."""
        return [part for part in strongly_connected(self._survey[1]) if len(part) > 1]

    def circles(self) -> list[dict[str, list[Hop]]]:
        """For each credit loop a circle, in the order in which packets would pass its links, and the other hops of the
        loop, which are in longer or other circles with these."""
        found = []
        for part in self.credit_loops():
            circle = _circle(set(part), self._survey[1])
            found.append({"circle": circle, "others": sorted(set(part) - set(circle))})
        return found


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


def _circle(part: set[Hop], after: dict[Hop, set[Hop]]) -> list[Hop]:
    """A shortest circle through the first hop of a strongly connected component."""
    start = min(part)
    before: dict[Hop, Hop] = {}
    waiting = collections.deque([start])
    while start not in before:
        here = waiting.popleft()
        for following in sorted(one for one in after[here] & part if one not in before):
            before[following] = here
            waiting.append(following)
    circle = [start]
    while (here := before[circle[-1]]) != start:
        circle.append(here)
    return [start, *reversed(circle[1:])]


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
