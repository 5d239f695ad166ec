# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of ./pib bench with perftest: bandwidth, message rate and latency between two guests, over the HCA and
over Soft-RoCE; some also with the HCA's links on sockets, or with peer copy."""

import contextlib
import dataclasses
import functools
from typing import Callable, Iterable

from lab.bench import bench_figures, bench_host
from lab.fabric import measure, subnet
from lab.bench.bench_figures import LESS, MORE, Kind
from lab.bench.bench_guests import PEER_COPY, ROCE, SOCKETS, End, Guests
from lab.bench.bench_steps import Step

BANDWIDTH, RATE = 3, 4          # columns of ib_*_bw
P50, P99, P999 = 4, 7, 8        # columns of ib_*_lat


@dataclasses.dataclass(frozen=True)
class Test:
    """A run of a perftest program. columns: index in its result line -> kind; factor: applied to the columns' numbers.
    iterations: per QP, over the HCA and over Soft-RoCE, for about a second each."""
    program: str
    options: tuple[str, ...]
    size: int
    iterations: tuple[int, int]
    columns: dict[int, Kind]
    factor: float = 1.0
    events: bool = False        # Soft-RoCE may use completion events if they are faster than polling
    sockets: bool = False       # measured over sockets, too
    peer_copy: bool = False      # measured with peer copy, too
    qps: int = 1
    limit_s: int = measure.LIMIT_S

    @property
    def kind(self) -> Kind:
        """The kind of the first column."""
        return next(iter(self.columns.values()))

    def messages(self, what: str) -> int:
        """Messages that the test sends in one direction."""
        return self.iterations[what == ROCE] * self.qps


def _size(size: int) -> tuple[str, str]:
    """A message size as a part of keys, and as a part of titles."""
    if size >= 1 << 20:
        return f"{size >> 20}m", f"{size >> 20} MiB"
    return (f"{size >> 10}k", f"{size >> 10} KiB") if size >= 1024 else (str(size), f"{size} B")


def bandwidth(verb: str, size: int, iterations: tuple[int, int]) -> Test:
    short, long = _size(size)
    kind = Kind(f"{verb.lower()}_bw_{short}", f"{verb}, {long}", "MiB/s", MORE)
    return Test(f"ib_{verb.lower()}_bw", (), size, iterations, {BANDWIDTH: kind},
                events=verb != "WRITE", sockets=size == 65536, peer_copy=size >= 65536)


DEPTH = 128                     # perftest's default number of outstanding messages


def rate(outstanding: int, qps: int, iterations: tuple[int, int]) -> Test:
    plain = outstanding == DEPTH and qps == 1
    key = "send_rate_64" + ("" if plain else f"_{outstanding}x{qps}")
    title = f"SEND, 64 B, {outstanding} outstanding" + (f" of each of {qps} QPs" if qps > 1 else "")
    return Test("ib_send_bw", ("-t", str(outstanding), "-q", str(qps)), 64, iterations,
                {RATE: Kind(key, title, "messages/s", MORE)}, 1e6, events=True, sockets=plain, qps=qps)


def latency(verb: str, how: str, iterations: tuple[int, int]) -> Test:
    """A latency test. how: "" for polling, "events" for sleeping until a completion event."""
    key = f"{verb.lower()}_lat_8" + (f"_{how}" if how else "")
    title = f"{verb}, 8 B" + (f", {how}" if how else "")
    columns = {P50: Kind(key, f"{title}, p50", "us", LESS), P99: Kind(f"{key}_p99", f"{title}, p99", "us", LESS),
               P999: Kind(f"{key}_p999", f"{title}, p99.9", "us", LESS)}
    return Test(f"ib_{verb.lower()}_lat", ("-e",) if how else (), 8, iterations, columns,
                sockets=(verb, how) in (("WRITE", ""), ("SEND", "events")))


VERBS = ("WRITE", "SEND", "READ")
BANDWIDTHS = tuple(bandwidth(verb, size, iterations) for size, iterations in
                   ((4096, (10000, 2000)), (65536, (3000, 400)), (1 << 20, (400, 40))) for verb in VERBS)
RATES = (rate(1, 1, (3000, 800)), rate(16, 1, (20000, 4000)), rate(DEPTH, 1, (40000, 5000)),
         rate(1, 8, (1000, 300)), rate(16, 8, (3000, 500)), rate(DEPTH, 8, (5000, 600)),
         Test("ib_atomic_bw", ("-A", "FETCH_AND_ADD"), 8, (10000, 2000),
              {RATE: Kind("atomic_rate", "FETCH & ADD", "messages/s", MORE)}, 1e6))
LATENCIES = (latency("WRITE", "", (3000, 1000)), latency("SEND", "", (2000, 1000)),
             latency("SEND", "events", (1000, 1000)), latency("READ", "", (2000, 1000)),
             latency("READ", "events", (1000, 1000)),
             Test("ib_atomic_lat", ("-A", "FETCH_AND_ADD"), 8, (1000, 500),
                  {P50: Kind("atomic_lat", "FETCH & ADD, p50", "us", LESS)}))
TESTS = BANDWIDTHS + RATES + LATENCIES
KINDS = {kind.key: kind for test in TESTS for kind in test.columns.values()}


def test_of(key: str) -> Test:
    return next(test for test in TESTS if test.kind.key == key)


# ---- running

def run(guests: Guests, test: Test, what: str, events: bool = False) -> list[float]:
    """Runs a test between the guests; returns the numbers of its result line."""
    client, server = guests.ends[what]
    return between(client, server, test, test.iterations[what == ROCE], events)


def between(client: End, server: End, test: Test, iterations: int, events: bool = False) -> list[float]:
    options = [*test.options, *(["-e"] if events else []), "-s", str(test.size), "-n", str(iterations),
               *client.options]
    ports = [subnet.Port(end.node.name, end.device, 1, "", 0, 0, "", "", "") for end in (client, server)]
    return measure.columns(measure.perftest(client.node, server.node, test.program, options, *ports,
                                            limit_s=test.limit_s), test.size)


class Messages:
    """Groups of perftest tests. A step measures the HCA and then Soft-RoCE, so both meet the same conditions."""

    def __init__(self) -> None:
        self.use_events: dict[str, bool] = {}   # whether Soft-RoCE uses events, by key of a Kind

    def steps(self, guests: Guests, tests: tuple[Test, ...]) -> Iterable[Step]:
        for test in tests:
            yield Step(test.kind.title, functools.partial(self._both, guests, test))

    def over_sockets(self, guests: Guests) -> Iterable[Step]:
        return self._otherwise(guests, guests.sockets, SOCKETS, [test for test in TESTS if test.sockets])

    def with_peer_copy(self, guests: Guests) -> Iterable[Step]:
        return self._otherwise(guests, guests.peer_copy, PEER_COPY, [test for test in TESTS if test.peer_copy])

    def _otherwise(self, guests: Guests, mode: Callable[[], contextlib.AbstractContextManager], what: str,
                   tests: list[Test]) -> Iterable[Step]:
        with mode():
            for test in tests:
                yield Step(test.kind.title, functools.partial(self.one, guests, test, what))

    def _both(self, guests: Guests, test: Test) -> None:
        self.one(guests, test, bench_host.DEVICE)
        self.one(guests, test, ROCE, self.with_events(guests, test))

    @staticmethod
    def one(guests: Guests, test: Test, what: str, events: bool = False) -> None:
        row = run(guests, test, what, events)
        for column, kind in test.columns.items():
            guests.results.figure(kind).add(what, row[column] * test.factor)

    def with_events(self, guests: Guests, test: Test) -> bool:
        """Whether Soft-RoCE is faster with completion events. Soft-RoCE runs in the guest's kernel: on one processor
        a polling program takes processor time from it."""
        key = test.kind.key
        if test.events and key not in self.use_events:
            column = next(iter(test.columns))
            polling, events = (run(guests, test, ROCE, on)[column] * test.factor for on in (False, True))
            guests.results.notes.append(
                f"{ROCE}, {test.kind.title}: {bench_figures.number(polling)} {test.kind.unit} polling, "
                f"{bench_figures.number(events)} with events; the better one is used")
            self.use_events[key] = events > polling
        return self.use_events.get(key, False)
