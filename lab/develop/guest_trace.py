# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of the HCA's driver that ftrace in a guest records, with times of the HCA's clock. in_guest_trace.py is the
part in the guest."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from lab.base import ui
from lab.guests.guest import Guest

SCRIPT = pathlib.Path(__file__).with_name("in_guest_trace.py")
LIMIT_S = 120
# "12.345678 |   0)   name-42   |   1.234 us    |  call();": time, processor, task, duration, and what happened.
LINE = re.compile(r"^ *(\d+)\.(\d{6}) \| +(\d+)\) +(.*?)-(\d+) +\|[^0-9|]*(?:([\d.]+) us)? *\|  ( *)(.*)$")
CALL = re.compile(r"^([\w.]+)(?: \[\w+\])?\(\)(;| \{)")
EVENT = re.compile(r"^/\* ([\w:]+): ?(.*?) *\*/$")


@dataclasses.dataclass(frozen=True)
class Clock:
    """Readings of the HCA's clock. A reading is the guest's time before it, the HCA's clock, and the guest's time after
    it, in nanoseconds."""
    readings: list[list[int]]

    @property
    def uncertainty_ns(self) -> int:
        return max((after - before + 1) // 2 for before, _, after in self.readings)

    def device_ns(self, guest_ns: int) -> int:
        """The HCA's clock at a time of the guest, by linear interpolation between the first and the last reading."""
        (guest, device), *others = [((before + after) // 2, value) for before, value, after in self.readings]
        if others and others[-1][0] > guest:
            last_guest, last_device = others[-1]
            return device + (guest_ns - guest) * (last_device - device) // (last_guest - guest)
        return device + guest_ns - guest


@dataclasses.dataclass
class Call:
    """A call of a function, or an event, which is a call without a duration. depth: number of the task's open calls
    around it. end_ns: None if the recording ended during the call."""
    task: str
    depth: int
    begin_ns: int
    end_ns: int | None
    name: str
    args: dict[str, Any] = dataclasses.field(default_factory=dict)


class _Tasks:
    """Tasks with their open calls. ftrace prints microseconds. Entries of a task within one microsecond get increasing
    nanoseconds, so that calls lie within their callers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, list[Call]] = {}
        self._last_ns: dict[str, int] = {}

    def _time(self, task: str, guest_ns: int) -> int:
        now = max(self._clock.device_ns(guest_ns), self._last_ns.get(task, 0) + 1)
        self._last_ns[task] = now
        return now

    def begin(self, task: str, guest_ns: int, name: str) -> Call:
        calls = self._open.setdefault(task, [])
        calls.append(Call(task, len(calls), self._time(task, guest_ns), None, name))
        return calls[-1]

    def end(self, task: str, guest_ns: int) -> None:
        """Ends the task's innermost open call, if any: the call may have begun before the recording."""
        if calls := self._open.get(task):
            calls.pop().end_ns = self._time(task, guest_ns)


def calls(text: str, clock: Clock) -> Iterator[Call]:
    """The calls in ftrace's text, in the order of its lines. end_ns of a call is valid when the iteration is
    complete."""
    tasks = _Tasks(clock)
    for line in text.splitlines():
        if not (match := LINE.match(line)):
            continue
        seconds, micros, cpu, comm, pid, took_us, _, what = match.groups()
        task = f"{comm}-{pid}" if pid != "0" else f"{comm}-{cpu}"   # each processor has its own idle task
        guest_ns = int(seconds) * 1_000_000_000 + int(micros) * 1000
        if call := CALL.match(what):
            yield tasks.begin(task, guest_ns, call[1])
            if call[2] == ";":
                tasks.end(task, guest_ns + round(float(took_us or 0) * 1000))
        elif what.startswith("}"):
            tasks.end(task, guest_ns)
        elif event := EVENT.match(what):
            moment = tasks.begin(task, guest_ns, event[1])
            moment.args = {"cpu": int(cpu), "fields": event[2]}
            yield moment
            tasks.end(task, guest_ns)


class Recording:
    """A recording in a guest."""

    def __init__(self, guest: Guest, events: list[str]) -> None:
        """Begins recording. events: recorded besides the driver's calls, in the syntax of ftrace's set_event."""
        self._guest = guest
        begun, _ = self._run("begin", *events)
        self.module: str = begun["module"]
        self._readings = [begun["clock"]]
        self.overwritten = 0

    def _run(self, *words: str) -> tuple[dict[str, Any], str]:
        done = self._guest.run(["python3", "-", *words], stdin=SCRIPT.read_bytes(), timeout_s=LIMIT_S)
        if done.returncode:
            said = ui.printable(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
            raise ui.LabError(f"{self._guest.name} does not record its driver: {said}")
        first, _, text = done.stdout.decode(errors="replace").partition("\n")
        return json.loads(first), text

    def end(self) -> tuple[list[Call], Clock]:
        ended, text = self._run("end")
        self.overwritten = ended["overwritten"]
        clock = Clock([*self._readings, ended["clock"]])
        return list(calls(text, clock)), clock
