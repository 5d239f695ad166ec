# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps the forwarding tables over time: what the subnet manager has changed, and a comparison of two moments."""

import bisect
import collections
import dataclasses
import itertools
import math
from typing import Any

from lab.web.model import Fabric
from lab.web.routes import Routes

MOST_OCTETS = 64 << 20          # limit of all earlier tables; current tables are always kept
CHANGE_OCTETS = 120             # memory of a kept table besides its octets
MOST_LINKS = 1000               # limit of listed links with other numbers of routes
MOST_ENGINES = 1000             # limit of kept changes of the routing engine
NO_PORT = 0xff                  # IBA 14.2.5.10: packets to such a LID are dropped


@dataclasses.dataclass(slots=True)
class Change:
    """A switch's table from a time on. table: an octet for each LID, its output port."""
    at: float
    table: bytes

    @property
    def size(self) -> int:
        return len(self.table) + CHANGE_OCTETS


def packed(table: dict[int, int]) -> bytes:
    found = bytearray([NO_PORT]) * (max(table, default=-1) + 1)
    for lid, port in table.items():
        found[lid] = port
    return bytes(found)


class Ports:
    """Reads a packed table without copying it."""

    def __init__(self, table: bytes):
        self._table = table

    def get(self, lid: int) -> int | None:
        port = self._table[lid] if lid < len(self._table) else NO_PORT
        return None if port == NO_PORT else port


def unpacked(table: bytes) -> dict[int, int]:
    return {lid: port for lid, port in enumerate(table) if port != NO_PORT}


class RoutingLog:
    """The tables that each switch has had, as far as they were read in time."""

    def __init__(self, most_octets: int = MOST_OCTETS):
        self.most_octets = most_octets
        self.forgotten = 0.0            # tables before this time have been dropped in part
        self._octets = 0                # size of all tables except the current ones
        self._changes: dict[str, collections.deque[Change]] = collections.defaultdict(collections.deque)
        self._engines: collections.deque[tuple[float, str]] = collections.deque(maxlen=MOST_ENGINES)

    def note(self, switch: str, entries: dict[int, int], now: float) -> int:
        """Adds a switch's table if it changed; returns the number of LIDs whose port changed, 0 at the first
        reading."""
        changes, table = self._changes[switch], packed(entries)
        if changes and changes[-1].table == table:
            return 0
        moved = 0
        if changes:
            moved = differing(changes[-1].table, table)
            self._octets += changes[-1].size
        changes.append(Change(now, table))
        self._forget()
        return moved

    def _forget(self) -> None:
        """Drops the oldest tables beyond the limit, but never the current table of a switch."""
        while self._octets > self.most_octets:
            oldest = min((changes for changes in self._changes.values() if len(changes) > 1),
                         key=lambda changes: changes[0].at)
            self._octets -= oldest.popleft().size
            self.forgotten = max(self.forgotten, oldest[0].at)

    def shift(self, seconds: float) -> None:
        """Moves all times, because the host's clock was set."""
        for change in itertools.chain.from_iterable(self._changes.values()):
            change.at += seconds
        self.forgotten += seconds if self.forgotten else 0
        self._engines = collections.deque([(at + seconds, name) for at, name in self._engines], MOST_ENGINES)

    def note_engine(self, at: float, name: str) -> None:
        """Notes that a routing engine of the subnet manager has set the tables."""
        if not self._engines or self._engines[-1][1] != name:
            self._engines.append((at, name))

    def engine(self, moment: float) -> str:
        """The routing engine at a moment; "" if it is unknown."""
        return next((name for at, name in reversed(self._engines) if at <= moment), "")

    def table(self, switch: str, moment: float = math.inf) -> dict[int, int]:
        """The table of a switch; empty if it was not read."""
        return unpacked(self.at(moment).get(switch, b""))

    def now(self) -> dict[str, Ports]:
        """The current tables, by switch."""
        return {switch: Ports(changes[-1].table) for switch, changes in self._changes.items()}

    def known(self, moment: float) -> dict[str, Ports]:
        """The forwarding tables at a moment, by switch. A switch whose table of that time was not read is left out."""
        return {switch: Ports(changes[number - 1].table) for switch, changes in self._changes.items()
                if (number := bisect.bisect_right(changes, moment, key=lambda change: change.at))}

    def at(self, moment: float) -> dict[str, bytes]:
        """The tables at a moment, by switch. If a switch's table of that time is unknown: its oldest known table."""
        found = {}
        for switch, changes in self._changes.items():
            number = bisect.bisect_right(changes, moment, key=lambda change: change.at) - 1
            found[switch] = changes[max(number, 0)].table
        return found


def differing(one: bytes, other: bytes) -> int:
    """Number of LIDs for which two tables have different ports."""
    return sum(a != b for a, b in itertools.zip_longest(one, other, fillvalue=NO_PORT)) if one != other else 0


def _summary(routes: Routes) -> dict[str, Any]:
    """Balance of the routes over the links between switches."""
    fabric = routes.fabric
    counts = [count for (link, _out), count in routes.balance().items()
              if link in fabric.links and fabric.nodes[fabric.links[link].b].kind == "switch"]
    return {"links": len(counts), "counts": sorted(counts), "most": max(counts, default=0),
            "least": min(counts, default=0), "mean": sum(counts) / len(counts) if counts else 0.0,
            "loops": len(routes.credit_loops()), "lids": routes.counted()}


Moment = tuple[Fabric, dict[str, bytes]]        # nodes, links and tables of a moment


def compare(one: Moment, other: Moment) -> dict[str, Any]:
    """Compares the routing of two moments: number of changed LIDs by switch that both moments have; if there are any,
    also balance, credit loops, and links by difference of their number of routes. Each moment has its own links."""
    nodes, tables = [moment[0].nodes for moment in (one, other)], [moment[1] for moment in (one, other)]
    moved = {guid: differing(tables[0].get(guid, b""), tables[1].get(guid, b""))
             for guid in tables[0].keys() | tables[1].keys() if guid in nodes[0] and guid in nodes[1]}
    switches = {guid: number for guid, number in moved.items() if number}
    return {"switches": switches, **(_balances(one, other) if switches else {"differing": 0, "links": []})}


def _balances(one: Moment, other: Moment) -> dict[str, Any]:
    before, after = (Routes(fabric, {guid: Ports(table) for guid, table in tables.items()})
                     for fabric, tables in (one, other))
    balances = before.balance(), after.balance()
    links = [(*hop, balances[0].get(hop, 0), balances[1].get(hop, 0))
             for hop in balances[0].keys() | balances[1].keys()]
    links = sorted((link for link in links if link[2] != link[3]),
                   key=lambda link: (-abs(link[2] - link[3]), link[0], link[1]))
    return {"before": _summary(before), "after": _summary(after),
            "differing": len(links), "links": links[:MOST_LINKS]}
