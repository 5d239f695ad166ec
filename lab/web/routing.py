# SPDX-License-Identifier: GPL-2.0-or-later
"""The forwarding tables over time: what the subnet manager has changed, and the routing of two moments compared."""

import bisect
import collections
import dataclasses
from typing import Any

from lab.web.model import Fabric
from lab.web.routes import Routes, Tables

MOST_ENTRIES = 2_000_000        # limit of all kept tables


@dataclasses.dataclass
class Change:
    """A switch's table since a time."""
    at: float
    table: dict[int, int]


class RoutingLog:
    """The tables that each switch has had, as far as they were read."""

    def __init__(self, most_entries: int = MOST_ENTRIES):
        self.most_entries = most_entries
        self._entries = 0
        self._changes: dict[str, collections.deque[Change]] = collections.defaultdict(collections.deque)

    def note(self, switch: str, table: dict[int, int], now: float) -> int:
        """Returns the number of LIDs that have another port than before; 0 at the first reading."""
        changes = self._changes[switch]
        if changes and changes[-1].table == table:
            return 0
        moved = differing(changes[-1].table, table) if changes else 0
        changes.append(Change(now, table))
        self._entries += len(table)
        self._forget()
        return moved

    def _forget(self) -> None:
        """Forgets the oldest tables beyond the limit. The newest one of each switch stays."""
        while self._entries > self.most_entries:
            old = [changes for changes in self._changes.values() if len(changes) > 1]
            if not old:
                return
            oldest = min(old, key=lambda changes: changes[0].at)
            self._entries -= len(oldest.popleft().table)

    def at(self, moment: float) -> Tables:
        """The tables of a moment; for an earlier one than is known, the oldest that are."""
        found = {}
        for switch, changes in self._changes.items():
            number = bisect.bisect_right(changes, moment, key=lambda change: change.at) - 1
            found[switch] = changes[max(number, 0)].table
        return found


def differing(one: dict[int, int], other: dict[int, int]) -> int:
    """Number of LIDs with different ports."""
    return sum(one.get(lid) != other.get(lid) for lid in one.keys() | other.keys())


def _summary(fabric: Fabric, routes: Routes) -> dict[str, Any]:
    """Balance of the links between switches."""
    counts = [count for (link, _out), count in routes.balance().items()
              if link in fabric.links and fabric.nodes[fabric.links[link].b].kind == "switch"]
    return {"links": len(counts), "most": max(counts, default=0), "least": min(counts, default=0),
            "mean": sum(counts) / len(counts) if counts else 0.0, "loops": len(routes.credit_loops())}


def compare(fabric: Fabric, one: Tables, other: Tables) -> dict[str, Any]:
    """The routing of two moments by the wiring of now: balance, credit loops, LIDs that were moved by switch, and the
    links whose number of routes differs most."""
    before, after = (Routes(fabric, tables) for tables in (one, other))
    balances = before.balance(), after.balance()
    links = [[link, out, balances[0].get((link, out), 0), balances[1].get((link, out), 0)]
             for link, out in balances[0].keys() | balances[1].keys()]
    changed = {guid: moved for guid in one.keys() | other.keys()
               if guid in fabric.nodes and (moved := differing(one.get(guid, {}), other.get(guid, {})))}
    return {"before": _summary(fabric, before), "after": _summary(fabric, after), "switches": changed,
            "links": sorted((link for link in links if link[2] != link[3]),
                            key=lambda link: (-abs(link[2] - link[3]), link[0], link[1]))}
