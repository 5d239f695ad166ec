# SPDX-License-Identifier: GPL-2.0-or-later
"""The forwarding tables over time: what the subnet manager has changed, and the routing of two moments compared."""

import bisect
import collections
import dataclasses
import itertools
from typing import Any

from lab.web.model import Fabric
from lab.web.routes import Routes

MOST_OCTETS = 64 << 20          # limit of all earlier tables; the current ones are kept in any case
MOST_ENGINES = 1000             # changes of the routing engine that are kept
NO_PORT = 0xff                  # IBA 14.2.5.10: packets to such a LID are dropped


@dataclasses.dataclass
class Change:
    """A switch's table since a time: the port of each LID, an octet a LID."""
    at: float
    table: bytes


def packed(table: dict[int, int]) -> bytes:
    found = bytearray([NO_PORT]) * (max(table, default=-1) + 1)
    for lid, port in table.items():
        found[lid] = port
    return bytes(found)


class Ports:
    """A packed table, without a copy of it."""

    def __init__(self, table: bytes):
        self._table = table

    def get(self, lid: int) -> int | None:
        port = self._table[lid] if lid < len(self._table) else NO_PORT
        return None if port == NO_PORT else port


def unpacked(table: bytes) -> dict[int, int]:
    return {lid: port for lid, port in enumerate(table) if port != NO_PORT}


class RoutingLog:
    """The tables that each switch has had, as far as they were read."""

    def __init__(self, most_octets: int = MOST_OCTETS):
        self.most_octets = most_octets
        self.forgotten = 0.0            # before this time some tables are unknown that were known once
        self._octets = 0                # size of all tables but the current ones
        self._changes: dict[str, collections.deque[Change]] = collections.defaultdict(collections.deque)
        self._engines: collections.deque[tuple[float, str]] = collections.deque(maxlen=MOST_ENGINES)

    def note(self, switch: str, entries: dict[int, int], now: float) -> int:
        """Returns the number of LIDs that have another port than before; 0 at the first reading."""
        changes, table = self._changes[switch], packed(entries)
        if changes and changes[-1].table == table:
            return 0
        moved = 0
        if changes:
            moved = differing(changes[-1].table, table)
            self._octets += len(changes[-1].table)
        changes.append(Change(now, table))
        self._forget()
        return moved

    def _forget(self) -> None:
        """Forgets the oldest tables beyond the limit. The current one of each switch stays."""
        while self._octets > self.most_octets:
            oldest = min((changes for changes in self._changes.values() if len(changes) > 1),
                         key=lambda changes: changes[0].at)
            self._octets -= len(oldest.popleft().table)
            self.forgotten = max(self.forgotten, oldest[0].at)

    def note_engine(self, at: float, name: str) -> None:
        """A routing engine of the subnet manager has set tables."""
        if not self._engines or self._engines[-1][1] != name:
            self._engines.append((at, name))

    def engine(self, moment: float) -> str:
        """The routing engine of a moment; "" if it is not known."""
        return next((name for at, name in reversed(self._engines) if at <= moment), "")

    def now(self) -> dict[str, Ports]:
        """The current tables."""
        return {switch: Ports(changes[-1].table) for switch, changes in self._changes.items()}

    def at(self, moment: float) -> dict[str, bytes]:
        """The tables of a moment; for an earlier one than is known, the oldest that are."""
        found = {}
        for switch, changes in self._changes.items():
            number = bisect.bisect_right(changes, moment, key=lambda change: change.at) - 1
            found[switch] = changes[max(number, 0)].table
        return found


def differing(one: bytes, other: bytes) -> int:
    """Number of LIDs with different ports."""
    return sum(a != b for a, b in itertools.zip_longest(one, other, fillvalue=NO_PORT)) if one != other else 0


def _summary(fabric: Fabric, routes: Routes) -> dict[str, Any]:
    """Balance of the links between switches."""
    counts = [count for (link, _out), count in routes.balance().items()
              if link in fabric.links and fabric.nodes[fabric.links[link].b].kind == "switch"]
    return {"links": len(counts), "counts": sorted(counts), "most": max(counts, default=0),
            "least": min(counts, default=0), "mean": sum(counts) / len(counts) if counts else 0.0,
            "loops": len(routes.credit_loops())}


def compare(fabric: Fabric, one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, Any]:
    """The routing of two moments by the wiring of now: LIDs that were moved by switch; and if there are any, balance,
    credit loops, and the links whose number of routes differs most."""
    moved = {guid: differing(one.get(guid, b""), other.get(guid, b""))
             for guid in one.keys() | other.keys() if guid in fabric.nodes}
    switches = {guid: number for guid, number in moved.items() if number}
    return {"switches": switches, **(_balances(fabric, one, other) if switches else {"links": []})}


def _balances(fabric: Fabric, one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, Any]:
    before, after = (Routes(fabric, {guid: unpacked(table) for guid, table in tables.items()})
                     for tables in (one, other))
    balances = before.balance(), after.balance()
    links = [[link, out, balances[0].get((link, out), 0), balances[1].get((link, out), 0)]
             for link, out in balances[0].keys() | balances[1].keys()]
    return {"before": _summary(fabric, before), "after": _summary(fabric, after),
            "links": sorted((link for link in links if link[2] != link[3]),
                            key=lambda link: (-abs(link[2] - link[3]), link[0], link[1]))}
