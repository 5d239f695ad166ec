# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib trace: commands, WQEs, packets and more of a guest's HCA, live as text, or as a time line in a file.

The device records them (property trace-entries) since its start, or else while this command runs; the lab polls the
device's property "trace". A refused command's entry has the reason; those of other refusals, and of misuse that a
strict device names, are in the property "refusals"."""

import argparse
import collections
import contextlib
import dataclasses
import functools
import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from lab.base import errors, lock, ui
from lab.develop import borrowed, guest_trace, timeline
from lab.develop.trace_words import NS_PER_US, Entry, Words
from lab.fabric import cluster
from lab.guests import hca_properties, vm
from lab.guests.guest import Guest

INTERVAL_S = 0.5
ENTRIES = "trace-entries"
REFUSAL = "refusal"
QPNS = 1 << 24
KINDS = {"commands": ("command",), "wqes": ("send-wqe", "recv-wqe", "send-done", "recv-done"),
         "packets": ("packet-out", "packet-in"), "registers": ("load", "store"), "dma": ("dma-read", "dma-write"),
         "interrupts": ("eqe", "interrupt"), "refusals": (REFUSAL,)}
ABOUT = {"commands": "commands", "wqes": "work requests and completions", "packets": "packets",
         "registers": "accesses to registers and doorbells", "dma": "accesses to guest memory",
         "interrupts": "EQEs and interrupts", "refusals": "refusals"}
MOST_ENTRIES = hca_properties.RANGES[ENTRIES][1]
# Kinds that the device records only if a property is on, and that property. The property of DMA can be set only at the
# boot.
OPTIONAL = {kind: f"trace-{kind}" for kind in ("registers", "dma", "interrupts")}
AT_BOOT = "dma"
NO_REFUSALS: dict[str, Any] = {"count": 0, "entries": []}


@dataclasses.dataclass
class Reader:
    """Finds the new entries of a trace since the last look. wanted: kinds of entries; qpn: only entries of this QP;
    since_ns: refusals before this time of the device's clock are old. ended: why the trace ended early; "" if it did
    not."""
    wanted: frozenset[str]
    words: Words
    qpn: int | None = None
    since_ns: int = 0
    ended: str = ""
    now_ns: int = -1                # the device's clock when the trace was last read; -1: not yet
    _next: int = 0
    _next_refusal: int = 0

    def look(self, monitor: Any) -> Iterator[Entry | int]:
        """Yields what the guest's device has recorded since the last look, in the form of new(). A guest that has been
        started anew is an error: it has another device, which need not record."""
        state = vm.device_property(monitor, "refusals")
        if state["now_ns"] < self.now_ns:
            raise ui.LabError("the guest was started anew, which has ended the trace. Begin another one:  ./pib trace")
        self.now_ns = state["now_ns"]
        refusals = state["refusals"] if REFUSAL in self.wanted else NO_REFUSALS
        yield from self.new(vm.device_property(monitor, "trace"), refusals)

    def new(self, trace: list[Entry], refusals: dict[str, Any]) -> Iterator[Entry | int]:
        """Yields new entries and refusals in the order of their times, and at a gap the number of entries that were
        overwritten before this look. refusals: the member of the property `refusals`, read before the trace."""
        waiting = collections.deque(self._refused(refusals))
        for found in self._entries(trace):
            while not isinstance(found, int) and waiting and waiting[0]["time_ns"] <= found["time_ns"]:
                yield waiting.popleft()
            yield found
        yield from waiting

    def _refused(self, refusals: dict[str, Any]) -> Iterator[Entry]:
        """New refusals, except those of commands: the entry of a command has its reason."""
        first = refusals["count"] - len(refusals["entries"])
        for number, refusal in enumerate(refusals["entries"], first):
            entry: Entry = {**refusal, "kind": REFUSAL}
            if (number >= self._next_refusal and "command" not in entry and entry["time_ns"] >= self.since_ns
                    and self._wants(entry)):
                yield entry
        self._next_refusal = refusals["count"]

    def _wants(self, entry: Entry) -> bool:
        return entry["kind"] in self.wanted and (self.qpn is None or self.words.concerns(entry, self.qpn))

    def _entries(self, trace: list[Entry]) -> Iterator[Entry | int]:
        for entry in trace:
            if entry["sequence"] < self._next:
                continue
            if self._next and entry["sequence"] > self._next:
                yield entry["sequence"] - self._next
            self._next = entry["sequence"] + 1
            self.words.learn(entry)
            if self._wants(entry):
                yield entry


@contextlib.contextmanager
def recording(lab: cluster.Cluster, name: str, kinds: list[str], once: bool) -> Iterator[tuple[Any, int]]:
    """Makes the guest's device record during the block, and then restores its properties, unless another command needs
    them. Yields the guest's monitor and the time at which the recording began, 0 if it began earlier. kinds: of entries
    that the user has named. once: the device must record already."""
    lab.node(name)
    monitor = lab.monitor(name)
    needed = {**{OPTIONAL[kind]: True for kind in kinds if kind in OPTIONAL}, ENTRIES: MOST_ENTRIES}

    def check(missing: list[str]) -> None:
        if OPTIONAL[AT_BOOT] in missing or missing and once:
            what = "nothing" if ENTRIES in missing else "no " + ", ".join(missing).replace("trace-", "")
            options = ",".join(f"{option}={value if option == ENTRIES else 'on'}" for option, value in needed.items())
            raise ui.LabError(f"{name} has recorded {what}. Boot guests that do:  ./pib up --hca-options {options}")
    now_ns = vm.device_property(monitor, "refusals")["now_ns"]
    with borrowed.borrowed(monitor, lab.sockets() / f"{name}.trace", needed, check) as missing:
        yield monitor, now_ns if ENTRIES in missing else 0


def uars(monitor: Any) -> dict[int, int]:
    """The UAR of each QP of the guest's device. A device that QEMU has not realized yet has no lists."""
    qps = vm.device_property(monitor, "objects").get("qps", {"entries": []})
    return {qp["qpn"]: qp["uar"] for qp in qps["entries"]}


def follow(monitor: Any, reader: Reader, seconds: float, tell: Callable[[Entry | int], None]) -> None:
    """Polls the trace for the given time, until Ctrl-C, or until the guest ends, and then sets reader.ended. tell:
    called with each new entry, or with a number of overwritten entries."""
    def look() -> None:
        try:
            for found in reader.look(monitor):
                tell(found)
        except ui.LabError as error:
            if reader.now_ns < 0:
                raise
            reader.ended = str(error)

    end = time.monotonic() + seconds
    try:
        look()
        while not reader.ended and (left := end - time.monotonic()) > 0:
            time.sleep(min(INTERVAL_S, left))
            look()
    except KeyboardInterrupt:
        look()


def _record(name: str, monitor: Any, reader: Reader, seconds: float) -> timeline.Timeline:
    ui.say(f"recording {name}" + ("; Ctrl-C ends that" if seconds == float("inf") else ""))
    recorded = timeline.Timeline(name, reader.words)
    follow(monitor, reader, seconds, recorded.add)
    return recorded


def _record_calls(guest: Guest, events: list[str], record: Callable[[], timeline.Timeline]) -> timeline.Timeline:
    """Calls record(), records the calls of the guest's driver meanwhile, and adds them to the time line."""
    in_guest = guest_trace.Recording(guest, events)
    try:
        recorded = record()
    except BaseException:
        in_guest.end()
        raise
    try:
        calls, clock = in_guest.end()
    except (ui.LabError, subprocess.TimeoutExpired) as error:       # the guest may have ended
        ui.say(f"the time line lacks the calls of its driver. {errors.sentence(error)}")
        return recorded
    recorded.add_calls(calls)
    lost = f", {in_guest.overwritten} older ones were overwritten" if in_guest.overwritten else ""
    ui.say(f"{guest.name}: {len(calls)} calls and events of {in_guest.module}{lost}; their times are right within "
           f"{-(-clock.uncertainty_ns // NS_PER_US) + 1} us")
    return recorded


def _write(path: pathlib.Path, record: Callable[[], timeline.Timeline]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as out:
            recorded = record()
            json.dump(recorded.document(), out)
    except OSError as error:
        raise ui.LabError(f"cannot write {path}: {error.strerror}. Name a file that can be written") from error
    lost = f"; {recorded.lost} entries were overwritten" if recorded.lost else ""
    ui.say(f"{path}: {recorded.count} entries{lost}. Open it at https://ui.perfetto.dev or chrome://tracing")


def _print(words: Words, fields: bool, found: Entry | int) -> None:
    if isinstance(found, int):
        print(f"({found} entries were overwritten)", flush=True)
        return
    print("\n".join([words.line(found), *(f"    {line}" for line in words.fields(found) if fields)]), flush=True)


def _trace(options) -> int:
    words = Words()
    named = [kind for kind in KINDS if getattr(options, kind)]
    chosen = named or list(KINDS)
    reader = Reader(frozenset(entry for kind in chosen for entry in KINDS[kind]), words, options.qp)
    in_guest = options.calls or bool(options.event)
    if in_guest and (options.once or not options.output):
        raise ui.LabError("calls and events of a guest are recorded to a time line: add --output FILE, without --once")
    lab = cluster.Cluster()
    seconds = 0 if options.once else options.seconds
    with contextlib.ExitStack() as held:
        if in_guest:
            lab.node(options.node)      # an error if there is no such guest
            held.enter_context(lock.alone(lab.sockets() / f"{options.node}.calls",
                                          f"the guest's kernel records {options.node}'s driver for only one command "
                                          "at a time"))
        monitor, reader.since_ns = held.enter_context(recording(lab, options.node, named, options.once))
        if "store" in reader.wanted:
            words.uars.update(uars(monitor))
        if options.output:
            record = functools.partial(_record, options.node, monitor, reader, seconds)
            _write(options.output, functools.partial(_record_calls, lab.node(options.node), options.event, record)
                   if in_guest else record)
        else:
            follow(monitor, reader, seconds, functools.partial(_print, words, options.fields))
    if reader.ended:
        raise ui.LabError(reader.ended)
    return 0


def qpn(text: str) -> int:
    """The number of a QP that a user has typed."""
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < QPNS:
        raise argparse.ArgumentTypeError(f"{text} is not the number of a QP. Name one that the guest has, as 0x41")
    return number


def add_commands(add) -> None:
    command = add("trace", _trace, "show what a guest's driver does with its device, live: commands with the reasons "
                  "of refusals, WQEs and their completions, packets; Ctrl-C ends that")
    command.add_argument("node", metavar="NODE")
    for kind in KINDS:
        command.add_argument(f"--{kind}", action="store_true",
                             help=f"show {ABOUT[kind]} (default: all that the device records)")
    command.add_argument("--qp", type=qpn, metavar="N",
                         help="only WQEs, packets, events and refusals of this QP, as 0x41, and commands that name it")
    command.add_argument("--fields", action="store_true", help="show the fields of each WQE, one in a line, "
                         "and the accesses before each misuse that a strict device has reported")
    command.add_argument("--output", type=pathlib.Path, metavar="FILE",
                         help="write a time line, which ui.perfetto.dev and chrome://tracing show, instead of lines")
    command.add_argument("--calls", action="store_true",
                         help="have the calls of the guest's driver on the time line, too (ftrace)")
    command.add_argument("--event", action="append", default=[], metavar="EVENT",
                         help="as --calls, and this event of the guest's kernel, as irq:* or sched:sched_switch")
    command.add_argument("--seconds", type=float, default=float("inf"), metavar="N", help="end after this time")
    command.add_argument("--once", action="store_true", help="print the entries that are recorded, and end")
