# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib bench: measures in rounds, the device and its comparators in each, and writes the results to files."""

import dataclasses
import pathlib
import tempfile
import time
from typing import Callable, Iterable

from lab.base import lock, paths, table, ui
from lab.bench import (bench_capture, bench_costs, bench_figures, bench_guests, bench_host, bench_many, bench_messages,
                       bench_objects, bench_plot, bench_record, bench_steps, bench_sweep, bench_system, bench_web)
from lab.build import host_build
from lab.fabric import up
from lab.guests import guest_kernel, kvm

RUN = paths.RUN / "bench"


@dataclasses.dataclass(frozen=True)
class Group:
    """Measurements that share their guests. steps: those of one round. seconds: estimated duration of a round on two
    processors without KVM. on_request: run only if they are named."""
    name: str
    about: str
    seconds: int
    steps: Callable[["Run"], Iterable[bench_steps.Step]]
    guests: bool = True
    on_request: bool = False


class Run:
    """State that the groups of one run share."""

    def __init__(self, results: bench_figures.Results):
        self.results = results
        self.messages = bench_messages.Messages()
        self.booted: bench_guests.Guests | None = None

    @property
    def guests(self) -> bench_guests.Guests:
        """The guests of the groups that need guests."""
        assert self.booted
        return self.booted


GROUPS = (
    Group("bandwidth", "WRITE, SEND, READ of 4 KiB to 1 MiB", 50,
          lambda run: run.messages.steps(run.guests, bench_messages.BANDWIDTHS)),
    Group("rate", "messages per second by outstanding ones and QPs", 40,
          lambda run: run.messages.steps(run.guests, bench_messages.RATES)),
    Group("latency", "8 bytes, polling and with events: p50, p99, p99.9", 35,
          lambda run: run.messages.steps(run.guests, bench_messages.LATENCIES)),
    Group("costs", "of a message: wake-ups, doorbells, interrupts, waits for locks", 20,
          lambda run: bench_costs.steps(run.guests, run.messages)),
    Group("sockets", "some of these with links on sockets", 25, lambda run: run.messages.over_sockets(run.guests)),
    Group("peer-copy", "long messages that the switch copies from guest to guest", 50,
          lambda run: run.messages.with_peer_copy(run.guests)),
    Group("objects", "connections, memory regions", 20, lambda run: bench_objects.steps(run.guests)),
    Group("many", "WRITEs over 1 to 16,384 QPs; 100,000 memory regions", 300,
          lambda run: bench_many.steps(run.guests), on_request=True),
    Group("bring-up", "until a port is Active", 20, lambda run: bench_system.bring_up(run.guests)),
    Group("idle", "processor time of QEMU and the switch while guests are idle", 30,
          lambda run: bench_system.idle_steps(run.guests)),
    Group("neighbour", "a latency beside a pair of guests that floods, beside a port that stands still", 40,
          lambda run: bench_system.neighbour(run.guests)),
    Group("record", "bandwidth that a recording costs, beside guests without one", 120,
          lambda run: bench_record.steps(run.guests), on_request=True),
    Group("host", "copies and ping-pongs of this host, for comparison", 2,
          lambda run: bench_host.host_steps(run.results, bench_messages.KINDS), guests=False),
    Group("device", "work of a message, both devices and the switch in one thread", 4,
          lambda run: bench_host.device_steps(run.results), guests=False),
    Group("scale", "the same, and making objects, with up to 16,384 QPs and 100,000 MRs", 12,
          lambda run: bench_host.scale_steps(run.results), guests=False),
    Group("switch", "packets per second by ports, size and copies", 4,
          lambda run: bench_host.switch_steps(run.results), guests=False),
    Group("web", "a large fabric that a page of ./pib web shows", 90,
          lambda run: bench_web.steps(run.results), guests=False, on_request=True),
    Group("capture", "packets that a capture loses", 60,
          lambda run: bench_capture.steps(run.results), guests=False, on_request=True),
)
NAMES = [group.name for group in GROUPS]
SWEEP, SWEEP_S = "sweep", 600   # has its own lab and takes minutes, so it runs only on request


def estimate_s(groups: list[Group], rounds: int) -> int:
    boot = 60 if any(group.guests for group in groups) else 0
    return boot + rounds * sum(group.seconds for group in groups)


def chosen(only: list[str] | None, with_guests: bool) -> list[Group]:
    """The groups of the run. only: their names; None: all groups except those with on_request."""
    found = [group for group in GROUPS if (group.name in only if only else not group.on_request)
             and (with_guests or not group.guests)]
    if not found:
        raise ui.LabError(f"--no-guests leaves nothing of {', '.join(only or NAMES)}. Name a group without guests, "
                          "or leave --no-guests out")
    return found


def _rounds(run: Run, groups: list[Group]) -> None:
    for number in range(run.results.rounds):
        for group in groups:
            ui.say(f"round {number + 1} of {run.results.rounds}: {group.name}")
            mend = run.guests.mend if group.guests else lambda: None
            bench_steps.take_all(run.results, group.name, group.steps(run), mend)


def _measure(results: bench_figures.Results, groups: list[Group]) -> None:
    run = Run(results)
    if any(group.guests for group in groups):
        run.booted = bench_guests.Guests(RUN / "lab", results)
    try:
        if run.booted:
            run.booted.boot()
        minutes = estimate_s(groups, results.rounds) / 60
        ui.say(f"measuring in {results.rounds} rounds: about {minutes:.0f} minutes if nothing else runs")
        _rounds(run, groups)
    finally:
        if run.booted:
            run.booted.down()


def report(results: bench_figures.Results) -> str:
    """The results of a run as text."""
    facts = "\n".join(f"{name}: {value}" for name, value in results.machine.items())
    figures = table.table(bench_figures.heading(results, bench_host.DEVICE),
                          bench_figures.rows(results, bench_host.DEVICE))
    notes = "".join(f"{note}\n" for note in results.notes)
    return (f"{facts}\nmedians of {results.rounds} rounds; (N×): N times better than this comparator\n"
            f"\n{figures}\n\n{notes}")


def save(results: bench_figures.Results, directory: pathlib.Path) -> pathlib.Path:
    """Writes the three files of a run; returns the path of the JSON file."""
    sweeps = bench_sweep.ORACLE in results.subjects()
    against = bench_sweep.ORACLE if sweeps else bench_guests.ROCE
    name = time.strftime("%Y%m%d-%H%M%S") + "-" + results.machine["commit"].split()[0]
    for suffix, text in ((".json", bench_figures.to_json(results)), (".txt", report(results)),
                         (".svg", bench_plot.svg(results, against))):
        (directory / (name + suffix)).write_text(text)
    return directory / f"{name}.json"


def _output(directory: pathlib.Path) -> pathlib.Path:
    """The directory for the results. It is made before the run, which takes half an hour."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as error:
        raise ui.LabError(f"--output {directory}: {error.strerror or error}. Name a directory that can be written"
                          ) from error


def _take(results: bench_figures.Results, groups: list[Group]) -> None:
    """Runs the groups, or opensm's sweeps if there are none."""
    if groups:
        _measure(results, groups)
    else:
        bench_sweep.measure(results, RUN)
    results.machine["load at the end"] = bench_host.load()


def bench(rounds: int, output: pathlib.Path | None, with_guests: bool, only: list[str] | None) -> int:
    """Measures; returns 1 if a measurement failed. only: names of groups, or SWEEP alone; None: all groups except those
    with on_request."""
    if only and SWEEP in only and len(only) > 1:
        raise ui.LabError(f"--only {SWEEP} cannot be combined with other groups. Run it alone:  "
                          f"./pib bench --only {SWEEP}")
    if only == [SWEEP] and not with_guests:
        raise ui.LabError(f"--only {SWEEP} needs a guest. Leave --no-guests out")
    groups = [] if only == [SWEEP] else chosen(only, with_guests)
    directory = _output(output or RUN)
    up.machine(guests=with_guests)
    host_build.build(more=bench_host.TARGETS)
    accelerator = kvm.accelerator(guest_kernel.image()) if with_guests else "none"
    results = bench_figures.Results(bench_host.machine(accelerator), rounds)
    try:
        with lock.held(RUN / "lock"):       # a second run has the same lab, and would be measured, too
            _take(results, groups)
    except (Exception, KeyboardInterrupt) as error:     # pylint: disable=broad-exception-caught
        bench_steps.note_failure(results, "the rest", error)
    kept = save(results, directory)
    print(report(results))
    print(f"kept in {kept} (and .txt, .svg beside it)")
    return 1 if any(": failed: " in note for note in results.notes) else 0
