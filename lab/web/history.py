# SPDX-License-Identifier: GPL-2.0-or-later
"""The counters of all links over time: loads at a moment, curves of a link, differences between two moments."""

import array
import bisect
import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

from lab.fabric import control
from lab.fabric.evidence import Json
from lab.web.model import Fabric, Link, Reading

STATES = ("Down", "Initialize", "Armed", "Active")
DISCARDS = ("PortXmitDiscards", "VL15Dropped", "PortRcvSwitchRelayErrors")
ERRORS = ("PortRcvErrors", "PortRcvRemotePhysicalErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors",
          "SymbolErrors")
# Columns of a frame, for each link. out: from its end a to b.
COLUMNS = ("out", "in", "packets_out", "packets_in", "wait_out", "wait_in", "discards", "errors", "state", "cable",
           "faults")
COUNTERS = COLUMNS[:COLUMNS.index("state")]
MOST_VALUES = 4_000_000         # 32 MB
LANES = 16                      # VLs
Lanes = tuple[dict[int, int], dict[int, int]]       # octets by VL, out and in; only those that are not 0
NO_LANES: Lanes = ({}, {})


@dataclasses.dataclass
class Frame:
    """The columns of all links at a time in seconds since 1970. rows: number of each link's row. lanes: by link, those
    that had any."""
    at: float
    rows: dict[str, int]
    values: array.array
    lanes: dict[str, Lanes]

    def row(self, link: str) -> dict[str, float] | None:
        if link not in self.rows:
            return None
        begin = self.rows[link] * len(COLUMNS)
        return dict(zip(COLUMNS, self.values[begin:begin + len(COLUMNS)]))


def _total(ports: list[Json], names: tuple[str, ...]) -> int:
    return sum(port.get(name, 0) for port in ports for name in names)


def _row(link: Link, reading: Reading) -> list[float]:
    own = reading.switches[link.a]["counters"][link.a_port]
    ports = [own]
    far: Json = {}
    if link.b in reading.switches:
        far = reading.switches[link.b]["counters"][link.b_port]
        ports.append(far)
    return [own["PortXmitData"] * control.BYTES_PER_UNIT, own["PortRcvData"] * control.BYTES_PER_UNIT,
            own["PortXmitPkts"], own["PortRcvPkts"], own["PortXmitWait"], far.get("PortXmitWait", 0),
            _total(ports, DISCARDS), _total(ports, ERRORS), STATES.index(link.state) if link.state in STATES else 0,
            link.cable, link.faults]


def _lanes(link: Link, reading: Reading) -> Lanes:
    own = reading.switches[link.a]["counters"][link.a_port]

    def octets(way: str) -> dict[int, int]:
        units = {lane: own.get(f"Port{way}DataVL{lane}", 0) for lane in range(LANES)}
        return {lane: number * control.BYTES_PER_UNIT for lane, number in units.items() if number}
    return octets("Xmit"), octets("Rcv")


def _grown(before: float, after: float) -> float:
    """A counter that was reset in between counts from 0."""
    return after - before if after >= before else after


class History:
    """The frames of the last time, as many as MOST_VALUES allows."""

    def __init__(self, most_values: int = MOST_VALUES):
        self.most_values = most_values
        self._values = 0
        self.frames: collections.deque[Frame] = collections.deque()

    def add(self, at: float, fabric: Fabric, reading: Reading) -> None:
        names = list(fabric.links)
        last = self.frames[-1].rows if self.frames else {}
        rows = last if list(last) == names else {name: number for number, name in enumerate(names)}
        values = array.array("d", [value for link in fabric.links.values() for value in _row(link, reading)])
        lanes = {link.id: found for link in fabric.links.values() if any(found := _lanes(link, reading))}
        self.frames.append(Frame(at, rows, values, lanes))
        self._values += len(values)
        while len(self.frames) > 2 and self._values > self.most_values:
            self._values -= len(self.frames.popleft().values)

    def span(self) -> tuple[float, float]:
        return (self.frames[0].at, self.frames[-1].at) if self.frames else (0.0, 0.0)

    def _number(self, at: float) -> int:
        """The last frame that is not younger; the first one if there is none."""
        return max(bisect.bisect_right(self.frames, at, key=lambda frame: frame.at) - 1, 0)

    # -- loads ------------------------------------------------------------------

    def _pairs(self, link: str) -> Iterator[tuple[float, float, dict[str, float], dict[str, float]]]:
        """Times and rows of frames that follow each other and both have the link."""
        frames = list(self.frames)
        for one, other in zip(frames, frames[1:]):
            old, new = one.row(link), other.row(link)
            if old and new:
                yield one.at, other.at, old, new

    def curves(self, link: str) -> dict[str, list[float]]:
        """Rates a second of a link's counters, and their times."""
        found: dict[str, list[float]] = {name: [] for name in ("at", *COUNTERS)}
        for begin, end, old, new in self._pairs(link):
            found["at"].append(end)
            for name in COUNTERS:
                found[name].append(_grown(old[name], new[name]) / max(end - begin, 1e-6))
        return found

    def loads(self, at: float | None = None) -> dict[str, list[Any]]:
        """Loads at a moment, now by default: for each link with traffic octets a second out and in, ticks of
        PortXmitWait a second, and the shares of VLs in the octets out and in."""
        number = len(self.frames) - 1 if at is None else self._number(at)
        if number < 1:
            return {}
        old, new = self.frames[number - 1], self.frames[number]
        seconds = max(new.at - old.at, 1e-6)
        found = {}
        for link in new.rows:
            before, after = old.row(link), new.row(link)
            if before and after:
                out, back, wait = (sum(_grown(before[name], after[name]) for name in names) / seconds
                                   for names in (("out",), ("in",), ("wait_out", "wait_in")))
                if out or back or wait:
                    ways = zip(old.lanes.get(link, NO_LANES), new.lanes.get(link, NO_LANES))
                    found[link] = [out, back, wait, *(_shares(*way) for way in ways)]
        return found

    def moment(self, at: float) -> dict[str, Any]:
        """States and loads at a moment."""
        if not self.frames:
            return {"at": at, "links": {}, "loads": {}}
        frame = self.frames[self._number(at)]
        rows = {link: frame.row(link) or {} for link in frame.rows}
        return {"at": frame.at, "loads": self.loads(at),
                "links": {link: {"state": STATES[int(row["state"])], "cable": bool(row["cable"]),
                                 "faults": bool(row["faults"])} for link, row in rows.items()}}

    def compare(self, begin: float, end: float) -> dict[str, Any]:
        """For each link that differs between two moments: states at both, and the counters' growth."""
        if not self.frames:
            return {"begin": begin, "end": end, "links": {}}
        one, other = (self.frames[self._number(at)] for at in sorted((begin, end)))
        found = {link: differing for link in {**one.rows, **other.rows}
                 if (differing := _difference(one.row(link), other.row(link)))}
        return {"begin": one.at, "end": other.at, "links": found}


def _shares(old: dict[int, int], new: dict[int, int]) -> dict[int, float]:
    moved = {lane: _grown(old.get(lane, 0), octets) for lane, octets in new.items()}
    total = sum(moved.values())
    return {lane: round(part / total, 3) for lane, part in moved.items() if part} if total else {}


def _state(row: dict[str, float] | None) -> str:
    if row is None:
        return "not there"
    extra = "" if row["cable"] else ", cable pulled"
    return STATES[int(row["state"])] + extra + (", faults" if row["faults"] else "")


def _difference(old: dict[str, float] | None, new: dict[str, float] | None) -> dict[str, Any]:
    """Empty if nothing differs."""
    states = [_state(old), _state(new)]
    grown = {name: _grown(old[name] if old else 0, new[name]) for name in COUNTERS} if new else {}
    return {"states": states, "grown": grown} if states[0] != states[1] or any(grown.values()) else {}
