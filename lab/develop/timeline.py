# SPDX-License-Identifier: GPL-2.0-or-later
"""A device's trace as a time line in Chrome's JSON trace format, which Perfetto and chrome://tracing show.

Its tracks: the command queue, each QP, each CQ, each EQ, each direction of a link, the accesses of each virtual
processor, accesses to memory, interrupts, refusals. Arrows lead from the doorbell or kick to a WQE, its packets, its
CQE, the EQE and the interrupt. Calls of the driver have a track for each task of the guest. Slices of one row must
nest, so a track with overlapping slices has several rows."""

import bisect
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from lab.develop.guest_trace import Call
from lab.develop.trace_words import NS_PER_US, Entry, Words

# Longest shown duration of an event that has no duration of its own, such as a packet. The track's next event ends it
# earlier.
MOMENT_NS = 1000
COMMANDS = "commands"
DRIVER = "driver"
# BTH opcodes: the low five bits, without the transport.
OPERATION = 0x1f
READ_RESPONSES = range(0x0d, 0x11)
ACKNOWLEDGE = 0x11
ATOMIC_ACKNOWLEDGE = 0x12
# SENDs, and last packets of WRITEs with immediate data.
TAKES_RECEIVE_WQE = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x09, 0x0b, 0x16, 0x17}
PSNS = 1 << 24
COMPLETION_EVENT = 0            # PIB_HCA_EVENT_COMPLETION

Event = dict[str, Any]


@dataclasses.dataclass(eq=False)
class Slice:
    """An event of a track. end_ns: None until it has ended."""
    group: str
    track: str
    begin_ns: int
    end_ns: int | None
    name: str
    args: dict[str, Any]
    moment: bool = False


@dataclasses.dataclass(eq=False)
class Work:
    """A work request that the device has begun. path: the slices that its arrow leads through, in order of time."""
    shown: Slice
    psn: int
    packets: int
    path: list[Slice]

    def has(self, psn: int) -> bool:
        return (psn - self.psn) % PSNS < self.packets

    def leads_to(self, to: Slice | None) -> None:
        if to is not None and to is not self.path[0] and to is not self.path[-1]:
            self.path.append(to)


@dataclasses.dataclass
class Layout:
    """The rows of a timeline, as events of the trace file. Slices that overlap are in different rows."""
    events: list[Event] = dataclasses.field(default_factory=list)
    _groups: dict[str, int] = dataclasses.field(default_factory=dict)
    _tids: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1))
    _places: dict[Slice, Event] = dataclasses.field(default_factory=dict)

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
        """Adds the slices of one track, which are sorted by begin. end_ns: end of the recording."""
        rows: list[tuple[int, Event]] = []      # the end of the last slice of each row
        for at, one in enumerate(slices):
            following = slices[at + 1].begin_ns if at + 1 < len(slices) else end_ns
            end = self._end(one, following, end_ns)
            row = next((n for n, (free_ns, _) in enumerate(rows) if free_ns < one.begin_ns), len(rows))
            if row == len(rows):
                rows.append((0, self._row(one.group, f"{one.track} {row + 1}" if row else one.track)))
            rows[row] = (end, rows[row][1])
            self._write(one, end, rows[row][1])

    def _write(self, one: Slice, end_ns: int, row: Event) -> None:
        self._places[one] = row
        self.events.append({"ph": "X", "name": one.name, "cat": one.track, "ts": one.begin_ns / NS_PER_US,
                            "dur": (end_ns - one.begin_ns) / NS_PER_US, **row, "args": one.args})

    @staticmethod
    def _end(one: Slice, following_ns: int, end_ns: int) -> int:
        if one.moment:
            end = min(one.begin_ns + MOMENT_NS, following_ns - 1)
        else:
            end = one.end_ns if one.end_ns is not None else end_ns
        return max(end, one.begin_ns + 1)

    def add_nest(self, slices: list[Slice], end_ns: int) -> None:
        """Adds the slices of one track, which are sorted by begin and nested as calls in their callers."""
        row = self._row(slices[0].group, slices[0].track)
        for one in slices:
            end = one.end_ns if one.end_ns is not None else max(end_ns, one.begin_ns + 1)
            self._write(one, end, row)

    def add_arrow(self, number: int, path: list[Slice]) -> None:
        """Adds an arrow through these slices, at the start of each."""
        for at, one in enumerate(path):
            phase = "s" if at == 0 else "f" if at + 1 == len(path) else "t"
            self.events.append({"ph": phase, "id": number, "name": "work request", "cat": "work request",
                                "ts": one.begin_ns / NS_PER_US, **self._places[one], **({"bp": "e"} if at else {})})


class Timeline:
    """Takes entries in the order of their sequence. node: the guest's name."""

    def __init__(self, node: str, words: Words) -> None:
        self.count = 0
        self.lost = 0
        self._node = node
        self._words = words
        self._tracks: dict[tuple[str, str], list[Slice]] = {}
        self._packets: dict[int, Slice] = {}                    # by `sequence` of the trace
        self._open: dict[tuple[str, int, int], Work] = {}       # by kind of queue, QPN, counter
        self._doorbells: dict[int, Slice] = {}                  # the last doorbell store, by QPN
        self._kicks: dict[int, Slice] = {}                      # the last kick, by UAR
        self._completed: dict[int, Work] = {}                   # by CQN, until the interrupt
        self._paths: list[list[Slice]] = []
        self._calls: dict[str, list[Slice]] = {}                # by task
        self._end_ns = 0

    # Adding entries, by kind.

    def add(self, found: Entry | int) -> None:
        if isinstance(found, int):
            self._gap(found)
            return
        self.count += 1
        self._end_ns = max(self._end_ns, found["time_ns"])
        takes = {"command": self._command, "packet-out": self._packet, "packet-in": self._packet,
                 "send-wqe": self._begin, "recv-wqe": self._begin, "send-done": self._done, "recv-done": self._done,
                 "load": self._access, "store": self._access, "dma-read": self._dma, "dma-write": self._dma,
                 "eqe": self._event, "interrupt": self._interrupt, "refusal": self._refusal}
        takes[found["kind"]](found)

    def add_calls(self, calls: list[Call]) -> None:
        """Adds the calls of the guest's driver, which are sorted by begin."""
        for call in calls:
            self._end_ns = max(self._end_ns, call.end_ns or call.begin_ns)
            self._calls.setdefault(call.task, []).append(
                Slice(f"{self._node} {DRIVER}", call.task, call.begin_ns, call.end_ns, call.name, call.args))
        self.count += len(calls)

    def _gap(self, entries: int) -> None:
        """Handles lost entries, which may include the ends of open work requests."""
        self.lost += entries
        for work in self._open.values():
            self._stop(work, "its end was not recorded")
        self._open.clear()
        self._packets.clear()
        self._doorbells.clear()
        self._kicks.clear()
        self._completed.clear()

    def _stop(self, work: Work, why: str) -> None:
        work.shown.end_ns = self._end_ns
        work.shown.args["end"] = why

    def _show(self, one: Slice) -> Slice:
        track = self._tracks.setdefault((one.group, one.track), [])
        bisect.insort(track, one, key=lambda other: other.begin_ns)
        return one

    def _moment(self, group: str, track: str, entry: Entry, name: str, args: dict[str, Any]) -> Slice:
        return self._show(Slice(f"{self._node} {group}", track, entry["time_ns"], None, name, args, moment=True))

    def _command(self, entry: Entry) -> None:
        name = self._words.name("CMD", entry["opcode"])
        self._show(Slice(f"{self._node} {COMMANDS}", COMMANDS, entry["fetched_ns"], entry["time_ns"],
                         f"{name} refused" if entry["status"] else name,
                         {"id": entry["id"], "object": entry["object"], "input": self._words.asked(entry),
                          "answer": self._words.answer(entry)}))

    def _begin(self, entry: Entry) -> None:
        queue = entry["kind"].partition("-")[0]
        name = self._words.operation(entry) if queue == "send" else "RECEIVE"
        shown = self._show(Slice(f"{self._node} QP {entry['qpn']:#x}", queue, entry["time_ns"], None, name,
                                 {"WQE": entry["counter"], "data": self._words.data(entry)}))
        cause = self._packets.get(entry.get("packet", -1)) if queue == "recv" else self._rung(entry["qpn"])
        path = [shown] if cause is None else [cause, shown]
        key = (queue, entry["qpn"], entry["counter"])
        if key in self._open:               # The QP was reset, or its number belongs to a new QP.
            self._stop(self._open[key], "it did not complete")
        self._open[key] = Work(shown, entry.get("psn", 0), entry.get("packets", 0), path)
        self._paths.append(path)

    def _rung(self, qpn: int) -> Slice | None:
        """The last doorbell of a QP, or the last kick of its UAR if that is later."""
        doorbell, kick = self._doorbells.get(qpn), self._kicks.get(self._words.uars.get(qpn, -1))
        if doorbell is None or kick is None:
            return doorbell or kick
        return max(doorbell, kick, key=lambda one: one.begin_ns)

    def _done(self, entry: Entry) -> None:
        queue = entry["kind"].partition("-")[0]
        status = self._words.name("WC", entry["status"])
        work = self._open.pop((queue, entry["qpn"], entry["counter"]), None)
        if work is not None:
            work.shown.end_ns = entry["time_ns"]
            work.shown.args["status"] = status
            work.leads_to(self._packets.get(entry.get("packet", -1)))
        if "cqn" in entry:
            cqe = self._moment(f"CQ {entry['cqn']}", "CQEs", entry, status,
                               {"QP": f"{entry['qpn']:#x}", "queue": queue, "WQE": entry["counter"]})
            if work is not None:
                work.leads_to(cqe)
                self._completed[entry["cqn"]] = work

    def _access(self, entry: Entry) -> None:
        where, name = self._words.register(entry)
        store = entry["kind"] == "store"
        shown = self._moment("vCPUs", f"vCPU {entry['vcpu']}" if "vcpu" in entry else "other accesses", entry,
                             f"{where} {name} {'=' if store else 'is'} {entry['value']}",
                             {"offset": f"{entry['offset']:#x}", "bytes": entry["size"]})
        rung = self._words.rung(entry) if store else None
        if rung is not None:
            self._doorbells[rung] = shown
        kicked = self._words.kicked(entry) if store else None
        if kicked is not None:
            self._kicks[kicked] = shown

    def _dma(self, entry: Entry) -> None:
        way = entry["kind"].partition("-")[2]
        self._moment("DMA", entry["purpose"], entry, "failed" if entry.get("failed") else way,
                     {"address": entry["address"], "bytes": entry["length"]})

    def _event(self, entry: Entry) -> None:
        shown = self._moment(f"EQ {entry['eqn']}", "EQEs", entry, self._words.event(entry), {"EQE": entry["counter"]})
        work = self._completed.get(entry["number"]) if entry["event"] == COMPLETION_EVENT else None
        if work is not None:
            work.leads_to(shown)

    def _interrupt(self, entry: Entry) -> None:
        shown = self._moment("interrupts", f"vector {entry['vector']}", entry, self._words.cause(entry), {})
        work = self._completed.pop(entry["number"], None) if entry.get("event") == COMPLETION_EVENT else None
        if work is not None:
            work.leads_to(shown)

    def _refusal(self, entry: Entry) -> None:
        self._moment("refusals", "refusals", entry, entry["text"],
                     {name: entry[name] for name in ("rule", "accesses") if name in entry})

    def _packet(self, entry: Entry) -> None:
        way = entry["kind"].partition("-")[2]
        shown = self._moment(f"port {entry['port']}", way, entry, entry["text"], {"bytes": entry["length"]})
        self._packets[entry["sequence"]] = shown
        if "opcode" in entry:
            for work in self._works_of(entry, way):
                work.leads_to(shown)

    def _works_of(self, entry: Entry, way: str) -> list[Work]:
        """Open work requests that a packet belongs to: send requests with its PSN, or the receive request that takes
        its message. An ACK belongs to no work request here: the entries of completed WQEs name it."""
        operation = entry["opcode"] & OPERATION
        response = operation in READ_RESPONSES or operation in (ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE)
        if way == "out":
            queue, qpn, wanted = "send", entry.get("qpn"), not response
        else:
            queue = "send" if response else "recv"
            qpn, wanted = entry["dest_qpn"], operation != ACKNOWLEDGE
        if not wanted or queue == "recv" and operation not in TAKES_RECEIVE_WQE:
            return []
        return [work for (kind, number, _), work in self._open.items()
                if (kind, number) == (queue, qpn) and (queue == "recv" or work.has(entry["psn"]))]

    # Writing the file.

    def document(self) -> dict[str, Any]:
        layout = Layout()
        for task in sorted(self._calls):
            layout.add_nest(self._calls[task], self._end_ns)
        for key in sorted(self._tracks, key=lambda key: (key[0] != f"{self._node} {COMMANDS}", *key)):
            layout.add_track(self._tracks[key], self._end_ns)
        arrows = [path for path in self._paths if len(path) > 1]
        for number, path in enumerate(arrows, start=1):
            layout.add_arrow(number, path)
        return {"traceEvents": layout.events, "displayTimeUnit": "ns",
                "otherData": {"node": self._node, "entries": self.count, "overwritten": self.lost}}
