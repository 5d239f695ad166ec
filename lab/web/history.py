# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps the counters of all links over time; computes loads at a moment, curves, and differences of two moments."""

import array
import bisect
import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

from lab.fabric import control
from lab.web import traffic
from lab.web.model import Fabric, Link
from lab.web.traffic import NO_ROW, ByVl, Row, Rows

STATES = ("Down", "Initialize", "Armed", "Active")
# Columns of a link's row in a frame. out: from the link's end a to end b. far_…: of end b, whose counters are reset
# independently of those of end a.
COLUMNS = ("out", "in", "packets_out", "packets_in", "wait_out", "wait_in", "discards", "errors", "far_discards",
           "far_errors", "state", "cable", "faults")
COUNTERS = COLUMNS[:COLUMNS.index("far_discards")]
OF_BOTH_ENDS = ("discards", "errors")   # counters that are shown as the sum of both ends
OUT, IN, WAIT_OUT, WAIT_IN = map(COLUMNS.index, ("out", "in", "wait_out", "wait_in"))
MOST_VALUES = 4_000_000         # limit of all frames together, 32 MB
FRAME_VALUES = 50               # memory of a frame besides its values, in values
MOST_POINTS = 600               # limit of the points of a curve


@dataclasses.dataclass(slots=True)
class Frame:
    """The rows of all links at one time. at: seconds since 1970. clock: seconds of the monotonic clock, for rates.
    rows: row number by link. values: the rows' columns. vls: numbers of all links by VL, as in the rows of end a; those
    of row N are from vl_begins[N] to vl_begins[N + 1]. There are no objects of each link, because they would take
    several times the memory."""
    at: float
    clock: float
    rows: dict[str, int]
    values: array.array
    vls: array.array
    vl_begins: array.array

    @property
    def size(self) -> int:
        """In values of 8 bytes, without the rows, which frames share."""
        return len(self.values) + len(self.vls) + len(self.vl_begins) + FRAME_VALUES

    def numbers(self, link: str) -> array.array | None:
        if link not in self.rows:
            return None
        begin = self.rows[link] * len(COLUMNS)
        return self.values[begin:begin + len(COLUMNS)]

    def by_vl(self, link: str) -> ByVl:
        """Octets by VL that end a has sent and received."""
        number = self.rows[link]
        return traffic.by_vl(self.vls[self.vl_begins[number]:self.vl_begins[number + 1]])

    def row(self, link: str) -> dict[str, float] | None:
        numbers = self.numbers(link)
        return dict(zip(COLUMNS, numbers)) if numbers else None


def _ends(link: Link, rows: Rows) -> tuple[Row, Row]:
    """Traffic rows of both ends; NO_ROW for an end that is not a switch port."""
    return rows.get(link.a, {}).get(link.a_port, NO_ROW), rows.get(link.b, {}).get(link.b_port, NO_ROW)


def _row(link: Link, rows: Rows) -> list[float]:
    own, far = _ends(link, rows)
    octets = control.BYTES_PER_UNIT
    return [own[traffic.XMIT_DATA] * octets, own[traffic.RCV_DATA] * octets, own[traffic.XMIT_PACKETS],
            own[traffic.RCV_PACKETS], own[traffic.XMIT_WAIT], far[traffic.XMIT_WAIT],
            own[traffic.DISCARDS], own[traffic.ERRORS], far[traffic.DISCARDS], far[traffic.ERRORS],
            STATES.index(link.state) if link.state in STATES else 0, link.cable, link.faults]


def _grown(before: float, after: float) -> float:
    """Growth of a counter. A smaller value means a reset: then it grew from 0."""
    return after - before if after >= before else after


def _growth(old: dict[str, float] | None, new: dict[str, float]) -> dict[str, float]:
    """Growth of a link's counters between two rows. old: None if there was no such link."""
    def of(name: str) -> float:
        return _grown(old[name] if old else 0, new[name])
    return {name: of(name) + (of(f"far_{name}") if name in OF_BOTH_ENDS else 0) for name in COUNTERS}


class History:
    """The frames so far, as many as most_values allows. The older frames are, the farther apart they are in time."""

    def __init__(self, most_values: int = MOST_VALUES):
        self.most_values = most_values
        self._values = 0
        self.frames: collections.deque[Frame] = collections.deque()

    def add(self, at: float, fabric: Fabric, rows: Rows, clock: float | None = None) -> None:
        """clock: as in Frame, by default `at`."""
        names = list(fabric.links)
        last = self.frames[-1] if self.frames else None
        places = last.rows if last and list(last.rows) == names else {name: number for number, name in enumerate(names)}
        values = array.array("d", [value for link in fabric.links.values() for value in _row(link, rows)])
        frame = Frame(at, at if clock is None else clock, places, values, *_by_vl(fabric, rows))
        self.frames.append(frame)
        self._values += frame.size
        while len(self.frames) > 2 and self._values > self.most_values:
            self._thin()

    def _thin(self) -> None:
        """Removes every second frame of the older half."""
        frames = list(self.frames)
        half = max(len(frames) // 2, 2)
        self.frames = collections.deque([*frames[:half:2], *frames[half:]])
        self._values = sum(frame.size for frame in self.frames)

    def shift(self, seconds: float) -> None:
        """Moves all frames, because the host's clock was set."""
        for frame in self.frames:
            frame.at += seconds

    def span(self) -> tuple[float, float]:
        return (self.frames[0].at, self.frames[-1].at) if self.frames else (0.0, 0.0)

    def _number(self, at: float) -> int:
        """Index of the last frame at or before a time; 0 if there is none."""
        return max(bisect.bisect_right(self.frames, at, key=lambda frame: frame.at) - 1, 0)

    def reading_after(self, at: float) -> float | None:
        """Time of the first frame at or after a time; it has the effects of an event at that time."""
        number = bisect.bisect_left(self.frames, at, key=lambda frame: frame.at)
        return self.frames[number].at if number < len(self.frames) else None

    # -- loads ------------------------------------------------------------------

    def _pairs(self, link: str) -> Iterator[tuple[float, float, dict[str, float], dict[str, float]]]:
        """(time of the second frame, seconds between both, row, row) of successive frames that both have the link. A
        long history is sampled."""
        frames = list(self.frames)[::-(len(self.frames) // MOST_POINTS + 1)][::-1]
        for one, other in zip(frames, frames[1:]):
            old, new = one.row(link), other.row(link)
            if old and new:
                yield other.at, max(other.clock - one.clock, 1e-6), old, new

    def curves(self, link: str) -> dict[str, list[float]]:
        """Rates per second of a link's counters, with their times."""
        found: dict[str, list[float]] = {name: [] for name in ("at", *COUNTERS)}
        for at, seconds, old, new in self._pairs(link):
            found["at"].append(at)
            for name, grown in _growth(old, new).items():
                found[name].append(grown / seconds)
        return found

    def loads(self, at: float | None = None) -> dict[str, list[Any]]:
        """Loads at a moment, by default now. For each link with traffic: octets per second out and in, ticks of
        PortXmitWait per second, and the shares of VLs in the octets out and in."""
        number = len(self.frames) - 1 if at is None else self._number(at)
        if number < 1:
            return {}
        old, new = self.frames[number - 1], self.frames[number]
        seconds = max(new.clock - old.clock, 1e-6)
        found = {}
        for link in new.rows:
            before, after = old.numbers(link), new.numbers(link)
            if before and after and before != after:
                grown = {column: _grown(before[column], after[column]) for column in (OUT, IN, WAIT_OUT, WAIT_IN)}
                if any(grown.values()):
                    ways = zip(old.by_vl(link), new.by_vl(link))
                    found[link] = [grown[OUT] / seconds, grown[IN] / seconds,
                                   (grown[WAIT_OUT] + grown[WAIT_IN]) / seconds, *(_shares(*way) for way in ways)]
        return found

    def moment(self, at: float) -> dict[str, Any]:
        """States and loads of all links at a moment."""
        if not self.frames:
            return {"at": at, "links": {}, "loads": {}}
        frame = self.frames[self._number(at)]
        rows = {link: frame.row(link) or {} for link in frame.rows}
        return {"at": frame.at, "loads": self.loads(at),
                "links": {link: {"state": STATES[int(row["state"])], "cable": bool(row["cable"]),
                                 "faults": bool(row["faults"])} for link, row in rows.items()}}

    def compare(self, begin: float, end: float) -> dict[str, Any]:
        """For each link that differs between two moments: its states at both, and its counters' growth."""
        if not self.frames:
            return {"begin": begin, "end": end, "links": {}}
        one, other = (self.frames[self._number(at)] for at in sorted((begin, end)))
        found = {link: differing for link in {**one.rows, **other.rows}
                 if (differing := _difference(one.row(link), other.row(link)))}
        return {"begin": one.at, "end": other.at, "links": found}


def _by_vl(fabric: Fabric, rows: Rows) -> tuple[array.array, array.array]:
    """The members vls and vl_begins of a frame."""
    vls, begins = array.array("Q"), array.array("Q", [0])
    for link in fabric.links.values():
        vls.extend(_ends(link, rows)[0][traffic.VLS:])
        begins.append(len(vls))
    return vls, begins


def _shares(old: dict[int, int], new: dict[int, int]) -> dict[int, float]:
    if old == new:
        return {}
    if len(new) == 1 and old.keys() <= new.keys():
        return dict.fromkeys(new, 1.0)
    moved = {vl: _grown(old.get(vl, 0), octets) for vl, octets in new.items()}
    total = sum(moved.values())
    return {vl: round(part / total, 3) for vl, part in moved.items() if part} if total else {}


def _state(row: dict[str, float] | None) -> str:
    if row is None:
        return "not there"
    extra = "" if row["cable"] else ", cable pulled"
    return STATES[int(row["state"])] + extra + (", faults" if row["faults"] else "")


def _difference(old: dict[str, float] | None, new: dict[str, float] | None) -> dict[str, Any]:
    """States and growth of counters between two rows of a link; {} if nothing differs."""
    states = [_state(old), _state(new)]
    grown = _growth(old, new) if new else {}
    return {"states": states, "grown": grown} if states[0] != states[1] or any(grown.values()) else {}
