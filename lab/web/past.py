# SPDX-License-Identifier: GPL-2.0-or-later
"""The nodes, links and LIDs that the fabric has had. States of links are in the history."""

import bisect
import collections
import copy
import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any

from lab.web.model import Fabric, Link, Node

MOST_OCTETS = 16 << 20          # limit of all earlier fabrics


@dataclasses.dataclass
class Change:
    """The fabric from a time on, as compressed JSON."""
    at: float
    packed: bytes

    def fabric(self) -> Fabric:
        found = json.loads(zlib.decompress(self.packed))
        return Fabric({one["id"]: Node(**one) for one in found["nodes"]},
                      {one["id"]: Link(**one) for one in found["links"]}, found["sm_lid"])


def _structure(fabric: Fabric) -> Any:
    """The values that are equal in two readings of the same fabric."""
    return (fabric.sm_lid, [(node.id, node.lids) for node in fabric.nodes.values()],
            [(link.id, link.b, link.b_port, link.lids) for link in fabric.links.values()])


def _names(fabric: Fabric) -> Any:
    """The other values that the page shows, except states of links."""
    return [(node.name, node.kind, node.description, node.guest, node.slot, node.place, node.pod, node.leaf, node.x,
             node.y)
            for node in fabric.nodes.values()]


def with_states(fabric: Fabric, states: Mapping[str, Mapping[str, Any]]) -> Fabric:
    """A copy of the fabric with other states of its links. states: state, cable and faults of links, as the history has
    them."""
    made = copy.copy(fabric)
    made.links = {name: dataclasses.replace(link, **states.get(name, {})) for name, link in fabric.links.items()}
    return made


class FabricLog:
    def __init__(self, most_octets: int = MOST_OCTETS):
        self.most_octets = most_octets
        self._octets = 0
        self._changes: collections.deque[Change] = collections.deque()
        self._last: Any = None          # structure and names of the newest fabric
        self._unpacked: tuple[float, Fabric] | None = None      # the fabric that at() returned last

    def note(self, at: float, fabric: Fabric) -> None:
        """Adds the fabric if it differs from the newest known one. If only names differ, the new fabric replaces
        that."""
        last = _structure(fabric), _names(fabric)
        if last == self._last:
            return
        packed = zlib.compress(json.dumps(fabric.as_json()).encode(), 1)
        if self._last and last[0] == self._last[0]:
            at = self._changes[-1].at
            self._octets -= len(self._changes.pop().packed)
            self._unpacked = None
        self._last = last
        self._changes.append(Change(at, packed))
        self._octets += len(packed)
        while self._octets > self.most_octets and len(self._changes) > 1:
            self._octets -= len(self._changes.popleft().packed)

    def shift(self, seconds: float) -> None:
        """Moves all times, because the host's clock was set."""
        self._unpacked = None
        for change in self._changes:
            change.at += seconds

    def _number(self, moment: float) -> int:
        return max(bisect.bisect_right(self._changes, moment, key=lambda change: change.at) - 1, 0)

    def since(self, moment: float) -> float:
        """Time from which on the fabric was as at a moment; 0 if that is the present fabric."""
        number = self._number(moment)
        return self._changes[number].at if number < len(self._changes) - 1 else 0.0

    def at(self, moment: float) -> Fabric:
        """The fabric of a moment; the oldest known fabric if the moment is before all known ones."""
        if not self._changes:
            return Fabric()
        change = self._changes[self._number(moment)]
        if not self._unpacked or self._unpacked[0] != change.at:
            self._unpacked = change.at, change.fabric()
        return self._unpacked[1]
