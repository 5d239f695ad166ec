# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements with many objects in a guest: WRITEs over up to 16,384 QPs by perftest, and 100,000 memory regions."""

import functools
import json
from typing import Iterable

from lab.base import paths
from lab.bench import bench_figures, bench_host
from lab.bench.bench_figures import LESS, MORE, Kind
from lab.bench.bench_guests import Guests, run_program
from lab.bench.bench_messages import RATE, Messages, Test
from lab.bench.bench_steps import Step

PROGRAM = paths.ROOT / "lab" / "bench" / "in_guest_regions.py"
MESSAGES = 80_000               # sum over the QPs of a test
LEAST = 5                       # messages of a QP: perftest takes no fewer
LIMIT_S = 900                   # perftest connects one QP after the other, by TCP


def writes(qps: int) -> Test:
    count = max(LEAST, MESSAGES // qps)
    kind = Kind(f"write_rate_64_{qps}_qps", f"WRITE, 64 B, {qps:,} QPs", "messages/s", MORE)
    return Test("ib_write_bw", ("-q", str(qps)), 64, (count, count), {RATE: kind}, 1e6, qps=qps, limit_s=LIMIT_S)


WRITES = tuple(writes(qps) for qps in (1, 8, 64, 256, 1024, 2048, 4096, 16384))
REGIONS = {name: Kind(f"regions_{name}", f"memory region of 4 KiB, {text}", "us", LESS) for name, text in
           {"made_first": "first 1,000 of 100,000: register", "made_last": "last 1,000 of 100,000: register",
            "ended_first": "first 1,000 of 100,000: deregister",
            "ended_last": "last 1,000 of 100,000: deregister"}.items()}
KINDS = {**{test.kind.key: test.kind for test in WRITES}, **{kind.key: kind for kind in REGIONS.values()}}


def add_regions(results: bench_figures.Results, text: str) -> None:
    """Adds the figures that in_guest_regions.py printed. text: its output."""
    for name, value in json.loads(text).items():
        results.figure(REGIONS[name]).add(bench_host.DEVICE, value)


def _regions(guests: Guests) -> None:
    end = guests.ends[bench_host.DEVICE][0]
    add_regions(guests.results, run_program(end.node, PROGRAM, [end.device], "./pib bench --only many", LIMIT_S))


def steps(guests: Guests) -> Iterable[Step]:
    for test in WRITES:
        yield Step(test.kind.title, functools.partial(Messages.one, guests, test, bench_host.DEVICE))
    yield Step("100,000 memory regions", functools.partial(_regions, guests))
