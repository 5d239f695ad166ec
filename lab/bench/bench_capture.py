# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures of fast traffic by the program that Wireshark starts: packets that are lost, and processor time."""

import functools
import signal
import subprocess
import sys
from collections.abc import Iterable

from lab.base import paths, process, ui, waiting
from lab.bench import bench_host
from lab.bench.bench_figures import LESS, MORE, Kind, Results
from lab.bench.bench_load import Load
from lab.bench.bench_steps import Step
from lab.fabric import capture

OCTETS, SECONDS, WAIT_S = 64, 8, 60
RATE = 110_000                  # WRITEs a second; the goal is 100,000 packets
FILTER = "dlid 2"               # the WRITEs: fabric_load's second HCA has this LID
NO_CAPTURE = "pib, no capture"


def kinds(key: str, title: str) -> tuple[Kind, Kind, Kind, Kind]:
    return (Kind(f"{key}_rate", f"capture of packets of 64 B, {title}", "per s", MORE),
            Kind(f"{key}_lost", f"capture, {title}: lost, of a million", "packets", LESS),
            Kind(f"{key}_switch", f"capture, {title}: processor time of the switch for each", "us", LESS),
            Kind(f"{key}_reader", f"capture, {title}: processor time of the reader for each", "us", LESS))


class Reader:
    """The extcap program with a file instead of Wireshark's FIFO."""

    def __init__(self, load: Load):
        self.file = load.directory / "capture.pcapng"
        self.file.unlink(missing_ok=True)
        words = [paths.ROOT / "lab" / "start.py", "lab.wireshark.extcap", "--names", load.directory / "names",
                 "--control", load.switch.control, "--extcap-interface", "pib", "--capture", "--fifo", self.file,
                 "--extcap-capture-filter", FILTER]
        self.process = subprocess.Popen([sys.executable, "-I", "-B", *map(str, words)])
        waiting.poll("the capture", lambda: self.file.exists() and self.file.stat().st_size, WAIT_S)

    def work(self) -> float:
        """Processor time of the program so far, in seconds."""
        return process.cpu_s(self.process.pid)

    def end(self, packets: int) -> capture.Losses:
        """Ends the program when the file grows no more; returns the counts of packets in the file."""
        waiting.poll("the last packets", functools.partial(self._stands_still, [-1]), WAIT_S, every_s=0.5)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        seen = capture.Losses()
        with open(self.file, "rb") as file:
            while data := file.read(1 << 20):
                seen.pass_on(data, None)
        self.file.unlink()
        if seen.taken + seen.lost != packets:
            raise ui.LabError(f"{packets} packets were sent, {seen.taken} captured and {seen.lost} reported as lost. "
                              "Start again:  ./pib bench")
        return seen

    def _stands_still(self, before: list[int]) -> bool:
        before.append(self.file.stat().st_size)
        return before[-1] == before[-2]


def _run(load: Load) -> tuple[int, float]:
    """Sends WRITEs for SECONDS; returns their number and the switch's processor time in seconds."""
    before = bench_host.usage([load.process])[1]
    load.begin(SECONDS)
    return load.end(), bench_host.usage([load.process])[1] - before


def _measure(results: Results, rate: int, named: tuple[Kind, Kind, Kind, Kind]) -> None:
    directory = paths.RUN / "bench" / "capture"
    with Load(directory, OCTETS, rate) as load:
        packets, work = _run(load)
        results.figure(named[0]).add(NO_CAPTURE, packets / SECONDS)
        results.figure(named[2]).add(NO_CAPTURE, work / packets * 1e6)
    with Load(directory, OCTETS, rate) as load:
        reader = Reader(load)
        packets, work = _run(load)
        reading = reader.work()
        seen = reader.end(packets)
        for kind, value in zip(named, (packets / SECONDS, seen.lost / packets * 1e6, work / packets * 1e6,
                                       reading / packets * 1e6)):
            results.figure(kind).add(bench_host.DEVICE, value)


RUNS = {f"{RATE:,} a second sent": (RATE, "capture"), "as many as possible sent": (0, "capture_most")}


def steps(results: Results) -> Iterable[Step]:
    for title, (rate, key) in RUNS.items():
        yield Step(title, functools.partial(_measure, results, rate, kinds(key, title)))
