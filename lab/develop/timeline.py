# SPDX-License-Identifier: GPL-2.0-or-later
"""A device's trace as a time line in Chrome's JSON trace format, which Perfetto and chrome://tracing show.

Its tracks: the command queue, each QP's queues, each CQ, each direction of a link. Arrows lead from WQEs to their CQEs.
The format wants slices of one track to nest, so what overlaps lies in several rows."""

import bisect
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from lab.develop.trace_words import NS_PER_US, Entry, Words

# An event without a duration, as a packet, is shown up to the next one of its track, at most so long.
MOMENT_NS = 1000
COMMANDS = "commands"
COUNTERS = 1 << 32

Event = dict[str, Any]


@dataclasses.dataclass(eq=False)
class Slice:
    """An event of a track. end_ns: None while it has none."""
    group: str
    track: str
    begin_ns: int
    end_ns: int | None
    name: str
    args: dict[str, Any]
    moment: bool = False


class Layout:
    """Events of the file. Slices that overlap are in different rows."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._groups: dict[str, int] = {}
        self._tids = itertools.count(1)
        self._places: dict[Slice, Event] = {}

    def _name(self, kind: str, where: Event, name: str, index: int) -> None:
        self.events.append({"ph": "M", "name": f"{kind}_name", **where, "args": {"name": name}})
        self.events.append({"ph": "M", "name": f"{kind}_sort_index", **where, "args": {"sort_index": index}})

    def _row(self, group: str, name: str) -> Event:
        if group not in self._groups:
            self._groups[group] = len(self._groups) + 1
            self._name("process", {"pid": self._groups[group], "tid": 0}, group, self._groups[group])
        where = {"pid": self._groups[group], "tid": next(self._tids)}
        self._name("thread", where, name, where["tid"])
        return where

    def add_track(self, slices: list[Slice], end_ns: int) -> None:
        """Slices of one track, in the order of their begin. end_ns: of the recording."""
        rows: list[tuple[int, Event]] = []      # the end of the last slice of each row
        for at, one in enumerate(slices):
            following = slices[at + 1].begin_ns if at + 1 < len(slices) else end_ns
            end = self._end(one, following, end_ns)
            row = next((n for n, (last_ns, _) in enumerate(rows) if last_ns < one.begin_ns), len(rows))
            if row == len(rows):
                rows.append((0, self._row(one.group, f"{one.track} {row + 1}" if row else one.track)))
            rows[row] = (end, rows[row][1])
            self._places[one] = rows[row][1]
            self.events.append({"ph": "X", "name": one.name, "cat": one.track, "ts": one.begin_ns / NS_PER_US,
                                "dur": (end - one.begin_ns) / NS_PER_US, **rows[row][1], "args": one.args})

    @staticmethod
    def _end(one: Slice, following_ns: int, end_ns: int) -> int:
        if one.moment:
            end = min(one.begin_ns + MOMENT_NS, following_ns - 1)
        else:
            end = one.end_ns if one.end_ns is not None else end_ns
        return max(end, one.begin_ns + 1)

    def add_arrow(self, number: int, tail: Slice, head: Slice) -> None:
        """An arrow from the begin of a slice to the begin of another."""
        for phase, at in (("s", tail), ("f", head)):
            self.events.append({"ph": phase, "id": number, "name": "work request", "cat": "work request",
                                "ts": at.begin_ns / NS_PER_US, **self._places[at],
                                **({"bp": "e"} if phase == "f" else {})})


@dataclasses.dataclass(frozen=True)
class Cqe:
    """A completion, as the property objects of a device has it."""
    cqn: int
    time_ns: int
    qpn: int
    counter: int
    opcode: str
    bytes: int
    status: str

    @property
    def queue(self) -> str:
        return "receive" if self.opcode.startswith("RECV") else "send"


def completions(objects: dict[str, Any]) -> Iterator[Cqe]:
    """Those that the device still knows: the last few of each CQ."""
    for cq in objects["cqs"]["entries"]:
        for cqe in cq["cqes"]:
            known = {**cqe, "cqn": cq["cqn"]}
            yield Cqe(**{field.name: known[field.name] for field in dataclasses.fields(Cqe)})


class Timeline:
    """Takes entries and completions, look by look. node: the guest's name."""

    def __init__(self, node: str, words: Words) -> None:
        self.count = 0
        self.lost = 0
        self._node = node
        self._words = words
        self._tracks: dict[tuple[str, str], list[Slice]] = {}
        self._open: dict[tuple[str, int], dict[int, Slice]] = {}    # by queue and QPN; by counter
        self._cqes: set[Cqe] = set()
        self._arrows: list[tuple[Slice, Slice]] = []
        self._end_ns = 0

    def add(self, found: list[Entry | int], cqes: list[Cqe]) -> None:
        """One look. cqes were read before the entries, so that the entries have the WQEs of all of them. A number among
        the entries is that of those which were overwritten."""
        fresh = sorted(set(cqes) - self._cqes, key=lambda cqe: cqe.time_ns)
        self._cqes = set(cqes)
        for entry in found:
            if isinstance(entry, int):
                self.lost += entry
                continue
            while fresh and fresh[0].time_ns < entry["time_ns"]:
                self._complete(fresh.pop(0))
            self._entry(entry)
        for cqe in fresh:
            self._complete(cqe)

    def _entry(self, entry: Entry) -> None:
        self.count += 1
        self._end_ns = max(self._end_ns, entry["time_ns"])
        takes = {"command": self._command, "send-wqe": self._begin, "recv-wqe": self._begin,
                 "packet-out": self._packet, "packet-in": self._packet}
        takes[entry["kind"]](entry)

    def _show(self, one: Slice) -> Slice:
        track = self._tracks.setdefault((one.group, one.track), [])
        bisect.insort(track, one, key=lambda other: other.begin_ns)
        return one

    def _moment(self, group: str, track: str, time_ns: int, name: str, args: dict[str, Any]) -> Slice:
        return self._show(Slice(f"{self._node} {group}", track, time_ns, None, name, args, moment=True))

    def _command(self, entry: Entry) -> None:
        name = self._words.name("CMD", entry["opcode"])
        self._moment(COMMANDS, COMMANDS, entry["time_ns"], f"{name} refused" if entry["status"] else name,
                     {"id": entry["id"], "object": entry["object"], "answer": self._words.answer(entry)})

    def _packet(self, entry: Entry) -> None:
        self._moment(f"port {entry['port']}", entry["kind"].partition("-")[2], entry["time_ns"], entry["text"],
                     {"bytes": entry["length"]})

    def _begin(self, entry: Entry) -> None:
        is_send = entry["kind"] == "send-wqe"
        queue = "send" if is_send else "receive"
        name = self._words.operation(entry) if is_send else "RECEIVE"
        begun = self._open.setdefault((queue, entry["qpn"]), {})
        # The QP was reset, or it is another one with the same number.
        self._stop(begun.pop(entry["counter"], None), entry["time_ns"], "not seen")
        begun[entry["counter"]] = self._show(Slice(
            f"{self._node} QP {entry['qpn']:#x}", queue, entry["time_ns"], None, name,
            {"WQE": entry["counter"], "data": self._words.data(entry)}))

    @staticmethod
    def _stop(one: Slice | None, time_ns: int, status: str) -> None:
        if one is not None:
            one.end_ns = time_ns
            one.args["status"] = status

    def _complete(self, cqe: Cqe) -> None:
        self._end_ns = max(self._end_ns, cqe.time_ns)
        begun = self._open.get((cqe.queue, cqe.qpn), {})
        work = begun.pop(cqe.counter, None)
        self._stop(work, cqe.time_ns, cqe.status)
        if work is not None and cqe.queue == "send":
            self._pass(begun, cqe)
        shown = self._moment(f"CQ {cqe.cqn}", "CQEs", cqe.time_ns, cqe.status,
                             {"QP": f"{cqe.qpn:#x}", "queue": cqe.queue, "WQE": cqe.counter, "opcode": cqe.opcode,
                              "bytes": cqe.bytes})
        if work is not None:
            self._arrows.append((work, shown))

    def _pass(self, begun: dict[int, Slice], cqe: Cqe) -> None:
        """A send queue completes in order: what is before the completed WQE has no CQE, or one that was not seen."""
        for counter in [counter for counter in begun if 0 < (cqe.counter - counter) % COUNTERS < COUNTERS // 2]:
            self._stop(begun.pop(counter), cqe.time_ns, f"not seen; complete at WQE {cqe.counter}")

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        layout = Layout()
        for key in sorted(self._tracks, key=lambda key: (key[1] != COMMANDS, *key)):
            layout.add_track(self._tracks[key], self._end_ns)
        for number, (tail, head) in enumerate(self._arrows, start=1):
            layout.add_arrow(number, tail, head)
        return {"traceEvents": layout.events, "displayTimeUnit": "ns",
                "otherData": {"node": self._node, "entries": self.count, "overwritten": self.lost}}
