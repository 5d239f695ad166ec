# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures what ./pib web costs the fabric that it shows: 648 hosts, in turn with and without an open page."""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator

from lab.base import paths, signals, ui, waiting
from lab.bench import bench_host, bench_load, bench_page
from lab.bench.bench_figures import LESS, MORE, Kind, Results
from lab.bench.bench_load import Load, Sample
from lab.bench.bench_steps import Step
from lab.fabric import source
from lab.fabric.evidence import Json
from lab.web import model, watch
from lab.web.answers import Answers

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
QP_SHARE = Kind("web_qp_share", "the same, and a QP's pane is open: processor time of the switch", "%", LESS)
QP_READER = Kind("web_qp_reader", "the same, and a QP's pane is open: processor time of the reader", "%", LESS)
FRAMES = Kind("web_frames", "the page of 648 hosts, all opened and loaded, in Chromium without a GPU", "frames/s", MORE)
READINGS, LOAD_S = 50, 2
GUEST, QPN = "watched", 0x41
PER_S = 1000


class Page:
    """Reads the event stream of a running ./pib web, as a browser does. updates: new figures of links so far.
    readings: messages with such figures so far."""

    def __init__(self, url: str):
        self.url = url
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
    with contextlib.ExitStack() as stack:
        with signals.deferred():
            web = subprocess.Popen([paths.ROOT / "pib", "web", "--port", "0", "--control", load.switch.control],
                                   stderr=subprocess.PIPE, text=True)
            stack.callback(web.wait, WAIT_S)
            stack.callback(web.terminate)
        assert web.stderr
        url = next((found[0] for line in web.stderr if (found := URL.search(line))), None)
        if not url:
            raise ui.LabError("./pib web has ended. Start again:  ./pib bench")
        page = Page(url)
        waiting.poll("the page", lambda: page.readings > 2, WAIT_S)
        yield page


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
            raise ui.LabError("fabric_load has sent nothing between two samples. Start again:  ./pib bench")
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


class Watched(source.Processes):
    """The load's switch, with a guest whose HCA has a QP. The guest takes the place of a host of the fabric."""
    guest: Json | None = None

    def guests(self) -> dict[str, Json | None]:
        return {GUEST: self.guest} if self.guest else {}

    def add_guest(self, fabric: model.Fabric) -> None:
        port_guid = next(node.port_guids[0] for node in fabric.nodes.values() if node.kind != "switch")
        port = {"port": 1, "guid": port_guid, "lid": 1, "lmc": 0}
        qp = {"qpn": QPN, "type": "RC", "state": "RTS", "port": 1, "send_cq": 1, "recv_cq": 1, "dest_qpn": QPN,
              "path": {"port": 1, "dlid": 2}}
        lists: dict[str, list[Json]] = {"ports": [port], "qps": [qp], "cqs": []}
        objects: Json = {name: {"count": len(entries), "entries": entries} for name, entries in lists.items()}
        objects["now_ns"] = 0
        self.guest = {"state": "running", "hcas": [{"objects": objects, "journal": [], "lost": 0, "refusals": []}]}


def _reader(load: Load) -> watch.Watcher:
    """A watcher that has read all forwarding tables and the guest."""
    from_ = Watched(load.switch.control)
    watcher = watch.Watcher(from_)
    watcher.read_fabric()
    from_.add_guest(watcher.fabric)
    watcher.read_guests()
    switches = sum(node.kind == "switch" for node in watcher.fabric.nodes.values())
    watcher.read_fabric()
    for _ in range(switches):
        if len(watcher.routing.now()) < switches:
            watcher.read_fabric()
    if watcher.trouble:
        raise ui.LabError(watcher.trouble)
    return watcher


def _work_of_readings(load: Load, watcher: watch.Watcher, ask: Callable[[], object]) -> tuple[float, float]:
    """Processor time of the switch and of this process for READINGS readings, in seconds. Each
    reading makes the messages for a page, which are thrown away. ask: called after each reading."""
    stream = watcher.join()
    if not stream:
        raise ui.LabError("the watcher accepts no more pages. Start again:  ./pib bench")
    before, own = bench_host.usage([load.process])[1], time.process_time()
    for _ in range(READINGS):
        watcher.read_fabric()
        ask()
        while not stream.waiting.empty():
            stream.get(0)
    own, work = time.process_time() - own, bench_host.usage([load.process])[1] - before
    watcher.hub.leave(stream)
    return work, own


def readings(load: Load, results: Results) -> None:
    """Measures the processor time of the readings that `./pib web` takes, without and with the pane of a QP, which
    asks once for each reading. That time hardly depends on other load of the machine."""
    watcher = _reader(load)
    links = len(watcher.fabric.links)
    question = {"node": next(node.id for node in watcher.fabric.nodes.values() if node.guest), "qpn": str(QPN)}
    answers = Answers(watcher)
    for kinds, ask in (((SHARE, READER), lambda: None), ((QP_SHARE, QP_READER), lambda: answers.qp(question))):
        for kind, seconds in zip(kinds, _work_of_readings(load, watcher, ask)):
            results.figure(kind).add(bench_host.DEVICE, 100 * PER_S * seconds / (READINGS * links))
    watcher.stop()


def _pair(load: Load, results: Results, page_first: bool) -> None:
    watched = _watched(load, results) if page_first else None
    alone = window(load)
    add(results, alone, watched or _watched(load, results))


def _fabric() -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """A directory, the topology file and the routes of the load."""
    directory = paths.RUN / "bench" / "web"
    directory.mkdir(parents=True, exist_ok=True)
    return directory, *bench_load.large_fabric(directory)


def _frames(results: Results) -> None:
    directory, file, routes = _fabric()
    with Load(directory, OCTETS, file=file) as load:
        load.begin(routes=routes)
        load.sample()
        with shown(load) as page:
            results.figure(FRAMES).add(bench_host.DEVICE, bench_page.frames(page.url))


def _measure(results: Results) -> None:
    directory, file, routes = _fabric()
    with Load(directory, OCTETS, file=file) as load:
        load.begin(LOAD_S, routes)              # raises the counters above 0
        load.end()
        readings(load, results)
    with Load(directory, OCTETS, file=file) as load:
        load.begin(routes=routes)
        load.sample()
        for number in range(PAIRS):
            _pair(load, results, bool(number % 2))


def steps(results: Results) -> Iterable[Step]:
    yield Step(f"a fabric of 648 hosts, {PAIRS} times with and without a page", lambda: _measure(results))
    yield Step("frames a second of the page in Chromium", lambda: _frames(results))
