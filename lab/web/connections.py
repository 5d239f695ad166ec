# SPDX-License-Identifier: GPL-2.0-or-later
"""The connections of the guests' QPs: finds which use a link, and which are cut when a link goes down."""

import dataclasses
from collections.abc import Iterable, Iterator

from lab.fabric.evidence import Json
from lab.fabric.qp_paths import SENDING
from lab.web.model import Fabric
from lab.web.routes import Routes, Way

MOST_CONNECTIONS = 4096         # limit of connections that are examined
MOST_TOLD = 50                  # limit of events of one moment; further connections share one event
Guests = dict[str, Json | None]


@dataclasses.dataclass(frozen=True)
class Connection:
    """A connected QP of a guest. node: id of its HCA. port, dlid: its path to the peer."""
    node: str
    guest: str
    slot: int
    qpn: int
    port: int
    dlid: int

    @property
    def name(self) -> str:
        return f"{self.guest} QP {self.qpn:#x}"

    def way(self, routes: Routes) -> Way:
        return routes.way(self.node, self.port, self.dlid)

    def peer(self, routes: Routes) -> str:
        node = routes.node_of_lid(self.dlid)
        return node.name if node else f"LID {self.dlid}"


@dataclasses.dataclass(frozen=True)
class Change:
    """A connection that was cut, or that has a route again. connection: None if the text is about several."""
    at: float
    text: str
    connection: Connection | None


def connections(fabric: Fabric, guests: Guests) -> Iterator[Connection]:
    number = 0
    for node in fabric.nodes.values():
        guest = guests.get(node.guest) if node.guest else None
        if not guest or node.slot >= len(guest["hcas"]):
            continue
        for qp in guest["hcas"][node.slot]["objects"].get("qps", {}).get("entries", []):
            if number < MOST_CONNECTIONS and qp["state"] in SENDING and qp.get("path", {}).get("dlid"):
                number += 1
                yield Connection(node.id, node.guest, node.slot, qp["qpn"], qp["path"]["port"], qp["path"]["dlid"])


def over(link: str, routes: Routes, guests: Guests) -> list[Connection]:
    """The connections whose packets to the peer pass a link."""
    return [one for one in connections(routes.fabric, guests) if any(hop[0] == link for hop in one.way(routes).hops)]


def _shortened(changes: list[Change], rest: str) -> list[Change]:
    if len(changes) <= MOST_TOLD:
        return changes
    left = len(changes) - MOST_TOLD
    return [*changes[:MOST_TOLD], Change(changes[-1].at, f"{left} more connections {rest}", None)]


class Cuts:
    """The connections that were cut when a link went down, and the times."""

    def __init__(self) -> None:
        self._cut: dict[Connection, float] = {}

    def __bool__(self) -> bool:
        return bool(self._cut)

    def shift(self, seconds: float) -> None:
        """Moves all times, because the host's clock was set."""
        self._cut = {one: at + seconds for one, at in self._cut.items()}

    def note(self, downs: Iterable[tuple[str, float]], routes: Routes, guests: Guests) -> list[Change]:
        """Finds connections that are cut now. downs: (link, time) of links that went down. routes: the routes until
        then. """
        first: dict[str, float] = {}
        for link, at in downs:
            first[link] = min(at, first.get(link, at))
        told = []
        for one in connections(routes.fabric, guests) if first else ():
            hit = min(((first[hop], hop) for hop, _out in one.way(routes).hops if hop in first), default=None)
            if hit and one not in self._cut:
                at, link = hit
                self._cut[one] = at
                told.append(Change(at, f"{one.name} is cut off from {one.peer(routes)}: its packets passed "
                                       f"{routes.fabric.link_name(routes.fabric.links[link])}", one))
        return _shortened(told, "are cut")

    def mended(self, routes: Routes, guests: Guests, now: float) -> list[Change]:
        """Returns connections that have a route again. Forgets connections whose QP has gone or failed."""
        there, told = set(connections(routes.fabric, guests)), []
        for one, at in list(self._cut.items()):
            way = one.way(routes) if one in there else None
            if not way or way.complete:
                del self._cut[one]
            if way and way.complete:
                nodes, links = routes.fabric.nodes, routes.fabric.links
                over_ = [nodes[links[link].b if out else links[link].a].name for link, out in way.hops[:-1]]
                told.append(Change(now, f"{one.name} has a route to {one.peer(routes)} again, after {now - at:.1f} s, "
                                        f"over {', '.join(over_)}", one))
        return _shortened(told, "have a route again")
