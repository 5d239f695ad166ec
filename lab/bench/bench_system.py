# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of the whole lab: time until a port is Active, cost of an idle guest, influence of one pair of guests on
another."""

import functools
import os
import subprocess
import time
from typing import Iterable

from lab.base import paths, process, ui, waiting
from lab.bench import bench_guests, bench_host, bench_messages
from lab.fabric import cluster, control, measure, subnet
from lab.fabric.wanted import Wanted
from lab.guests import vm
from lab.bench.bench_figures import LESS, Kind
from lab.bench.bench_guests import Guests, sh
from lab.bench.bench_steps import Step

ACTIVE_S, POLL_S = 180, 0.01
BOOT = Kind("boot", "QEMU's start until a guest has an Active port", "s", LESS)
PROBE = Kind("probe", "driver bound until the port is Active", "s", LESS)
FLAP = Kind("flap", "cable plugged in until the port is Active", "s", LESS)

IDLE_S = 10
NO_DEVICE = "no device"
IDLE = Kind("idle", "idle: QEMU of a guest, of one processor", "%", LESS)
IDLE_SWITCH = Kind("idle_switch", "idle: the switch, of one processor", "%", LESS)

ALONE = "pib, alone"
FLOOD_S = 600                   # limit; the flood ends after the measurement
# The Local ACK Timeout is 4.096 µs × 2^23, about 34 s, so a peer port that has stopped reading does not end the flood.
FLOOD = ["ib_write_bw", "-F", "-s", "65536", "-D", str(FLOOD_S), "-u", "23"]
NEIGHBOUR_P50 = Kind("neighbour", "WRITE, 8 B, beside a pair that floods, p50", "us", LESS)
NEIGHBOUR_P99 = Kind("neighbour_p99", "WRITE, 8 B, beside a pair that floods, p99", "us", LESS)
STANDSTILL_P50 = Kind("standstill", "WRITE, 8 B, beside a flooded port that stands still, p50", "us", LESS)
STANDSTILL_P99 = Kind("standstill_p99", "WRITE, 8 B, beside a flooded port that stands still, p99", "us", LESS)
BESIDE_A_FLOOD = (NEIGHBOUR_P50, NEIGHBOUR_P99)
BESIDE_A_STANDSTILL = (STANDSTILL_P50, STANDSTILL_P99)


# ---- until a port is Active

class SwitchPort:
    """The switch port of a guest's cable. The subnet manager makes it Active together with the guest's port."""

    def __init__(self, guests: Guests, number: int):
        switch = guests.lab.switch()
        if not switch:
            raise ui.LabError("the switch of the benchmark has ended. Start again:  ./pib bench")
        self.control = switch.control
        guid = f"{vm.PORT_GUID + number * vm.PORTS_PER_NODE:#018x}"
        with control.Control(self.control) as asked:
            self.switch = asked.switches()[0]
            self.number = next(port["port"] for port in asked.ask("status", switch=self.switch)["ports"]
                               if port.get("neighbour", {}).get("port_guid") == guid)

    def plug(self, state: str) -> None:
        """Sets the link's state. state: "up" or "down"."""
        with control.Control(self.control) as asked:
            asked.ask("link", switch=self.switch, port=self.number, state=state)

    def wait(self, state: str) -> None:
        with control.Control(self.control) as asked:
            waiting.poll(f"port {self.number} of the switch {state}", lambda: self._state(asked) == state, ACTIVE_S,
                         doing=lambda: self._state(asked), every_s=POLL_S)

    def _state(self, asked: control.Control) -> str:
        return asked.ask("status", switch=self.switch)["ports"][self.number - 1]["state"]


def boot(guests: Guests) -> None:
    """Measures the time from the start of the second guest's QEMU until its port is Active. The subnet manager runs in
    the first guest. The port state that the second guest sees counts: the device's SMA makes the port Active long
    before the driver is loaded."""
    with guests.lab.locked():
        guests.lab.stop_node("vm1")
        guests.lab.up(Wanted(guests.count, direct=True), guests.artefacts)
    subnet.wait_devices(guests.lab)
    subnet.wait_connected(guests.lab)
    subnet.wait_active(guests.lab)
    started = guests.lab.record.processes["vm1"].started / os.sysconf("SC_CLK_TCK")
    guests.results.figure(BOOT).add(bench_host.DEVICE, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    guests.boot()


def flap(guests: Guests) -> None:
    port = SwitchPort(guests, 1)
    port.plug("down")
    port.wait("Down")
    begun = time.monotonic()
    port.plug("up")
    port.wait("Active")
    guests.results.figure(FLAP).add(bench_host.DEVICE, time.monotonic() - begun)


# Prints the nanoseconds, by the guest's clock, from binding the driver until the port is Active.
REBIND = """
device=$(readlink -f /sys/class/infiniband/{device}/device)
driver=$(readlink -f $device/driver)
echo ${{device##*/}} >$driver/unbind
begun=$(date +%s%N)
echo ${{device##*/}} >$driver/bind
until grep -q ACTIVE $device/infiniband/*/ports/1/state 2>/dev/null; do sleep 0.01; done
echo $(( $(date +%s%N) - begun ))
"""


def probe(guests: Guests) -> None:
    end = guests.ends[bench_host.DEVICE][1]
    took = sh(end.node, f"timeout {ACTIVE_S} sh -c '{REBIND.format(device=end.device)}'")
    guests.results.figure(PROBE).add(bench_host.DEVICE, int(took) / 1e9)


def bring_up(guests: Guests) -> Iterable[Step]:
    for title, take in (("link flap", flap), ("driver bound anew", probe), ("boot of a guest", boot)):
        yield Step(title, functools.partial(take, guests))


# ---- idle

class Usage:
    """Measures the share of a processor that a process uses from now on."""

    def __init__(self, running: process.Process):
        self.running, self.begun = running, time.monotonic()
        self.before = bench_host.usage([running])[1]

    def percent(self) -> float:
        used = bench_host.usage([self.running])[1] - self.before
        return 100 * used / (time.monotonic() - self.begun)


def idle(guests: Guests) -> None:
    """Measures the idle processor time of a guest whose port is Active, of the switch, and of a guest without an HCA.
    The subnet manager runs in vm0."""
    bare = cluster.Cluster(paths.RUN / "bench" / "bare")
    try:
        bare.up(Wanted(1, hcas=False), guests.artefacts)
        running = {"vm1": guests.lab.record.processes["vm1"], "switch": guests.lab.record.processes["switch"],
                   "bare": bare.record.processes["vm0"]}
        time.sleep(IDLE_S)      # until the guests have finished booting
        usage = {name: Usage(process) for name, process in running.items()}
        time.sleep(IDLE_S)
        percent = {name: one.percent() for name, one in usage.items()}
    finally:
        bare.down()
    guests.results.figure(IDLE).add(bench_host.DEVICE, percent["vm1"])
    guests.results.figure(IDLE).add(NO_DEVICE, percent["bare"])
    guests.results.figure(IDLE_SWITCH).add(bench_host.DEVICE, percent["switch"])


def idle_steps(guests: Guests) -> Iterable[Step]:
    yield Step(f"a guest with the device, one without, the switch, {IDLE_S} s", lambda: idle(guests))


# ---- neighbours

class Flood:
    """Sends WRITEs of 64 KiB from a guest to another at full rate for the duration of the block."""

    def __init__(self, guests: Guests, client: str, server: str):
        self.ends = [guests.hca(guests.lab.node(name)) for name in (server, client)]
        self.running: list[subprocess.Popen] = []

    def __enter__(self) -> None:
        server, client = self.ends
        self._start(server)
        measure.wait_listen(server.node, FLOOD[0])
        self._start(client, server.node.name)
        counter = f"/sys/class/infiniband/{client.device}/ports/1/counters/port_xmit_data"
        sh(client.node, f"timeout 60 sh -c 'until [ $(cat {counter}) -gt 10000000 ]; do sleep 0.1; done'")

    def _start(self, end: bench_guests.End, *more: str) -> None:
        self.running.append(end.node.start([*FLOOD, "-d", end.device, *more], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def __exit__(self, *_failure) -> None:
        for end in self.ends:
            sh(end.node, f"pkill -x {FLOOD[0]} || true")
        for one in self.running:
            one.wait(60)


def _latency(guests: Guests, what: str, *figures: tuple[Kind, Kind]) -> None:
    row = bench_messages.run(guests, bench_messages.test_of("write_lat_8"), bench_host.DEVICE)
    for p50, p99 in figures:
        guests.results.figure(p50).add(what, row[bench_messages.P50])
        guests.results.figure(p99).add(what, row[bench_messages.P99])


def _beside_a_flood(guests: Guests) -> None:
    with Flood(guests, "vm2", "vm3"):
        _latency(guests, bench_host.DEVICE, BESIDE_A_FLOOD)


def _beside_a_standstill(guests: Guests) -> None:
    with Flood(guests, "vm2", "vm3"), vm.standing(guests.lab.monitor("vm3")):
        _latency(guests, bench_host.DEVICE, BESIDE_A_STANDSTILL)


def neighbour(guests: Guests) -> Iterable[Step]:
    """Measures one pair's latency alone and beside a second pair. Four guests on a machine with two processors share
    them, which worsens the result."""
    with guests.crowd(4):
        yield Step("a latency alone", lambda: _latency(guests, ALONE, BESIDE_A_FLOOD, BESIDE_A_STANDSTILL))
        yield Step("the same beside a pair that floods", lambda: _beside_a_flood(guests))
        yield Step("the same beside a flooded port that stands still", lambda: _beside_a_standstill(guests))
