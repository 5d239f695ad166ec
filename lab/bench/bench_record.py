# SPDX-License-Identifier: GPL-2.0-or-later
"""The bandwidth that a recording costs (./pib up --record): perftest between two guests, in turn with two guests whose
HCAs are recorded."""

import contextlib
import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Iterable, Iterator

from lab.base import ui
from lab.bench import bench_host, bench_messages
from lab.bench.bench_figures import LESS, MORE, Kind, Results
from lab.bench.bench_guests import End, Guests
from lab.bench.bench_messages import Test
from lab.bench.bench_steps import Step
from lab.fabric import cluster, up
from lab.fabric.wanted import Wanted

NOT_RECORDED = "pib, not recorded"
PAIRS = 2                       # pairs of runs of a test in a round: the recorded run comes second, then first


def _test(size: int, title: str, iterations: int, column: int, unit: str) -> Test:
    return Test("ib_write_bw", (), size, (iterations, 0),
                {column: Kind(f"record_write_{size}", f"recorded WRITE, {title}", unit, MORE)},
                1e6 if column == bench_messages.RATE else 1)


TESTS = (_test(65536, "64 KiB", 12000, bench_messages.BANDWIDTH, "MiB/s"),
         _test(1 << 20, "1 MiB", 1000, bench_messages.BANDWIDTH, "MiB/s"),
         _test(64, "64 B", 60000, bench_messages.RATE, "messages/s"))


def cost(test: Test) -> Kind:
    return Kind(f"{test.kind.key}_cost", f"{test.kind.title}: cost of the recording", "%", LESS)


@dataclasses.dataclass
class Recorded:
    """Two guests whose HCAs are recorded. file: the recording of the first."""
    ends: list[End]
    file: pathlib.Path

    def check_growth(self, before: int) -> None:
        if self.file.stat().st_size <= before:
            raise ui.LabError(f"{self.file.name} has not grown, so nothing was recorded. Free disk space, and start "
                              "again:  ./pib bench --only record")


@contextlib.contextmanager
def recorded(guests: Guests) -> Iterator[Recorded]:
    """Boots two more guests for the duration of the block, in a lab of their own. Their recordings are removed."""
    directory = guests.lab.directory.with_name("recorded")
    lab = cluster.Cluster(directory)
    with tempfile.TemporaryDirectory(prefix="recording-", dir=directory.parent) as place:
        wanted = Wanted(2, record=pathlib.Path(place) / "run.rec")
        try:
            lab.up(wanted, guests.artefacts)
            up.make_subnet(lab)
            file = wanted.recording(0)
            assert file
            yield Recorded([guests.hca(lab.node(name)) for name in ("vm0", "vm1")], file)
        finally:
            lab.down()


def add(results: Results, test: Test, alone: float, beside: float) -> None:
    """Adds a pair of measurements: without a recording, and with one."""
    results.figure(test.kind).add(NOT_RECORDED, alone)
    results.figure(test.kind).add(bench_host.DEVICE, beside)
    results.figure(cost(test)).add(bench_host.DEVICE, 100 * (1 - beside / alone))


def _pair(guests: Guests, other: Recorded, test: Test, recorded_first: bool) -> None:
    ends = {False: guests.ends[bench_host.DEVICE], True: other.ends}
    before, measured = other.file.stat().st_size, {}
    for is_recorded in (recorded_first, not recorded_first):
        client, server = ends[is_recorded]
        row = bench_messages.between(client, server, test, test.iterations[0])
        measured[is_recorded] = row[next(iter(test.columns))] * test.factor
    other.check_growth(before)
    add(guests.results, test, measured[False], measured[True])


def steps(guests: Guests) -> Iterable[Step]:
    with recorded(guests) as other:
        for number in range(PAIRS):
            for test in TESTS:
                yield Step(f"{test.kind.title}, and not recorded",
                           functools.partial(_pair, guests, other, test, bool(number % 2)))
