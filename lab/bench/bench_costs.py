# SPDX-License-Identifier: GPL-2.0-or-later
"""Costs of messages on the host, for ./pib bench: thread sleeps of QEMU and the switch, doorbells, interrupts, waits
for the device's lock and the BQL, and processor time."""

import functools
import re
from typing import Iterable

from lab.bench import bench_guests, bench_host, bench_messages
from lab.guests import vm
from lab.bench.bench_figures import LESS, Kind
from lab.bench.bench_guests import ROCE, Guests
from lab.bench.bench_messages import Messages
from lab.bench.bench_steps import Step

MILLION = 1e6
HW_COUNTERS = "/sys/class/infiniband/{}/hw_counters/{}"
COUNTED = {"send_doorbells": "doorbells", "interrupts": "interrupts"}
WAITS = {"lock_waits": "waits for the device's lock", "lock_sleeps": "of these asleep"}
# Tests, and their messages per iteration: a latency test sends one message in each direction.
TESTS = {"write_bw_64k": 1, "send_rate_64": 1, "write_lat_8": 2}
PER_MESSAGE = {"processor time", "waiting for the BQL"}         # in microseconds; the other figures are counts
# A line of "info sync-profile": kind of lock, object, call site, total wait in seconds, calls.
PROFILE = re.compile(r"^BQL mutex +\S+ +\S+ +([\d.]+) +(\d+) ", re.MULTILINE)


def kind_of(test: bench_messages.Test, name: str) -> Kind:
    unit = "us/message" if name in PER_MESSAGE else "per million"
    return Kind(f"{test.kind.key}_{re.sub('[^a-z]+', '_', name.lower())}", f"{test.kind.title}: {name}", unit, LESS)


def big_lock(text: str) -> dict[str, float]:
    """Number and duration of waits for the BQL, from QEMU's lock profile."""
    lines = PROFILE.findall(text)
    return {"BQL taken": sum(float(calls) for _, calls in lines),
            "waiting for the BQL": sum(float(seconds) for seconds, _ in lines) * 1e6}


def difference(after: dict[str, float], before: dict[str, float], messages: int) -> dict[str, float]:
    """Costs by name: per million messages, or in microseconds per message."""
    return {name: (value - before.get(name, 0)) / messages * (1 if name in PER_MESSAGE else MILLION)
            for name, value in after.items()}


def _add(sums: dict[str, float], values: dict[str, float]) -> None:
    for name, value in values.items():
        sums[name] = sums.get(name, 0) + value


class Counters:
    """Counters of both guests' QEMU processes and of the switch."""

    def __init__(self, guests: Guests, what: str):
        self.guests, self.what = guests, what
        self.monitors = [guests.lab.monitor(name) for name in ("vm0", "vm1")]

    def profile(self, how: str) -> None:
        """Turns QEMU's profile of lock waits "on" or "off"."""
        for monitor in self.monitors:
            vm.monitor_line(monitor, f"sync-profile {how}")

    def read(self) -> dict[str, float]:
        processes = self.guests.lab.record.processes
        sleeps, seconds = bench_host.usage([processes[name] for name in ("switch", "vm0", "vm1")])
        values = {"wake-ups": sleeps, "processor time": seconds * 1e6}
        for monitor, end in zip(self.monitors, self.guests.ends[self.what]):
            _add(values, big_lock(vm.monitor_line(monitor, "info sync-profile 1000")))
            if self.what != ROCE:
                _add(values, self._of_device(monitor, end))
        return values

    @staticmethod
    def _of_device(monitor, end: bench_guests.End) -> dict[str, float]:
        names = " ".join(HW_COUNTERS.format(end.device, name) for name in COUNTED)
        counts = map(float, bench_guests.sh(end.node, f"cat {names}").split())
        waits = vm.device_property(monitor, "waits")
        return {**dict(zip(COUNTED.values(), counts)), **{key: waits[name] for name, key in WAITS.items()}}


def _measure(guests: Guests, messages: Messages, test: bench_messages.Test, what: str) -> None:
    """Measures one test. The costs include the start of the programs."""
    events = what == ROCE and messages.with_events(guests, test)
    counters = Counters(guests, what)
    counters.profile("on")
    try:
        before = counters.read()
        bench_messages.run(guests, test, what, events)
        after = counters.read()
    finally:
        counters.profile("off")
    for name, value in difference(after, before, test.messages(what) * TESTS[test.kind.key]).items():
        guests.results.figure(kind_of(test, name)).add(what, value)


def _measure_both(guests: Guests, messages: Messages, test: bench_messages.Test) -> None:
    for what in (bench_host.DEVICE, ROCE):
        _measure(guests, messages, test, what)


def steps(guests: Guests, messages: Messages) -> Iterable[Step]:
    for key in TESTS:
        test = bench_messages.test_of(key)
        yield Step(test.kind.title, functools.partial(_measure_both, guests, messages, test))
