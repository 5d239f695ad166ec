# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures what ./pib web costs the fabric that it shows: 648 hosts, in turn with and without an open page."""

import contextlib
import dataclasses
import json
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator

from lab import paths, ui, waiting
from lab.bench import bench_host, bench_load
from lab.bench.bench_figures import LESS, MORE, Kind, Results
from lab.bench.bench_load import Load, Sample
from lab.bench.bench_steps import Step
from lab.fabric import control
from lab.web import model
from lab.web.readings import Readings

NO_PAGE = "pib, no page"
OCTETS = 4096
PAIRS, WINDOW_S = 6, 4.0        # pairs of windows in a round; seconds of a window
WAIT_S = 60
URL = re.compile(r"http://\S+/")
WRITES = Kind("web_writes", "WRITE of 4 KiB beside a page of 648 hosts", "per s", MORE)
WORK = Kind("web_work", "WRITE of 4 KiB beside a page: processor time of the switch", "us", LESS)
COST = Kind("web_cost", "WRITEs that a page of 648 hosts costs", "%", LESS)
UPDATES = Kind("web_updates", "new figures of links that a page of 648 hosts gets", "per s", MORE)
SHARE = Kind("web_share", "1,000 new figures of links a second: processor time of the switch", "%", LESS)
READER = Kind("web_reader", "1,000 new figures of links a second: processor time of their reader", "%", LESS)
READINGS, LOAD_S = 50, 2
PER_S = 1000


class Page:
    """Reads the event stream of a running ./pib web, as a browser does. updates: new figures of links so far.
    readings: messages with such figures so far."""

    def __init__(self, url: str):
        self.updates = self.readings = 0
        self._answer = urllib.request.urlopen(f"{url}events", timeout=WAIT_S)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        name = b""
        with contextlib.suppress(OSError, ValueError):      # the server has closed the stream
            for line in self._answer:
                if line.startswith(b"event: "):
                    name = line.strip()
                elif line.startswith(b"data: ") and name == b"event: loads":
                    self.updates += len(json.loads(line[6:])["loads"])
                    self.readings += 1


@contextlib.contextmanager
def shown(load: Load) -> Iterator[Page]:
    """Runs ./pib web for the load's switch; yields a page that has its first figures."""
    web = subprocess.Popen([paths.ROOT / "pib", "web", "--port", "0", "--control", load.switch.control],
                           stderr=subprocess.PIPE, text=True)
    try:
        assert web.stderr
        url = next((found[0] for line in web.stderr if (found := URL.search(line))), None)
        if not url:
            raise ui.LabError("./pib web has ended")
        page = Page(url)
        waiting.poll("the page", lambda: page.readings > 2, WAIT_S)
        yield page
    finally:
        web.terminate()
        web.wait(WAIT_S)


@dataclasses.dataclass(frozen=True)
class Window:
    """Rates between two samples. writes: WRITEs per second. work: the switch's processor time per WRITE, in
    microseconds."""
    writes: float
    work: float

    @classmethod
    def between(cls, one: Sample, other: Sample) -> "Window":
        writes = other.writes - one.writes
        if other.smps == one.smps or not writes:
            raise ui.LabError("the load stands still")
        return cls(writes / (other.seconds - one.seconds), (other.work - one.work) / writes * 1e6)


def window(load: Load) -> Window:
    begin = load.sample()
    time.sleep(WINDOW_S)
    return Window.between(begin, load.sample())


def _watched(load: Load, results: Results) -> Window:
    with shown(load) as page:
        updates, begin = page.updates, time.monotonic()
        found = window(load)
        results.figure(UPDATES).add(bench_host.DEVICE, (page.updates - updates) / (time.monotonic() - begin))
    return found


def add(results: Results, alone: Window, watched: Window) -> None:
    for kind, name in ((WRITES, "writes"), (WORK, "work")):
        results.figure(kind).add(bench_host.DEVICE, getattr(watched, name))
        results.figure(kind).add(NO_PAGE, getattr(alone, name))
    results.figure(COST).add(bench_host.DEVICE, 100 * (1 - watched.writes / alone.writes))


def readings(load: Load, results: Results) -> None:
    """Measures the processor time of the readings that `./pib web` takes. It hardly depends on other load of the
    machine."""
    with control.Control(load.switch.control) as asked:
        fabric = Readings([asked])
        links = len(model.fabric_of(fabric.take({})[0]).links)
        before, own = bench_host.usage([load.process])[1], time.process_time()
        for _ in range(READINGS):
            fabric.take({})
        own, work = time.process_time() - own, bench_host.usage([load.process])[1] - before
    for kind, seconds in ((SHARE, work), (READER, own)):
        results.figure(kind).add(bench_host.DEVICE, 100 * PER_S * seconds / (READINGS * links))


def _pair(load: Load, results: Results, page_first: bool) -> None:
    watched = _watched(load, results) if page_first else None
    alone = window(load)
    add(results, alone, watched or _watched(load, results))


def _measure(results: Results) -> None:
    directory = paths.RUN / "bench" / "web"
    directory.mkdir(parents=True, exist_ok=True)
    file, routes = bench_load.large_fabric(directory)
    with Load(directory, OCTETS, file=file) as load:
        load.begin(LOAD_S, routes)              # for counters that are not 0
        load.end()
        readings(load, results)
    with Load(directory, OCTETS, file=file) as load:
        load.begin(routes=routes)
        load.sample()
        for number in range(PAIRS):
            _pair(load, results, bool(number % 2))


def steps(results: Results) -> Iterable[Step]:
    yield Step(f"a fabric of 648 hosts, {PAIRS} times with and without a page", lambda: _measure(results))
