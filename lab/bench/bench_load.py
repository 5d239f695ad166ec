# SPDX-License-Identifier: GPL-2.0-or-later
"""A pib-switch with traffic, without guests: two HCAs send to each other (tests/bench/fabric_load.cc), and in a large
fabric subnet management packets pass every link once a second."""

import collections
import contextlib
import dataclasses
import json
import pathlib
import subprocess
import threading

from lab.base import paths, process, signals, ui
from lab.bench import bench_host
from lab.fabric import switch_process, topology

LARGE = paths.ROOT / "examples" / "topologies" / "fat-tree-648.topo"
HOSTS = {"node1": "vm0", "node2": "vm1"}        # the two HCAs, at one leaf
WAIT_S = 60


def large_fabric(directory: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The topology file with places for the HCAs, and a file with a directed route to each link."""
    text = LARGE.read_text()
    for node, name in HOSTS.items():
        text = text.replace(f'"{node}"', f'"{name}"')
    file, routes = directory / "large.topo", directory / "large.routes"
    file.write_text(text)
    found = routes_to_links(topology.load(file), "vm1")
    routes.write_text("".join(f"{' '.join(map(str, route))}\n" for route in found))
    return file, routes


def routes_to_links(net: topology.Net, host: str) -> list[list[int]]:
    """A directed route from the host through each link, as the output ports at the nodes on the way."""
    first, _port = net.nodes[host].peers[1]
    paths_to: dict[str, list[int]] = {first: [1]}
    waiting, seen, found = collections.deque([first]), {frozenset({(host, 1), (first, _port)})}, [[1]]
    while waiting:
        here = waiting.popleft()
        for port, (peer, peer_port) in sorted(net.nodes[here].peers.items()):
            link = frozenset({(here, port), (peer, peer_port)})
            if link not in seen:
                seen.add(link)
                found.append([*paths_to[here], port])
            if net.nodes[peer].kind == "Switch" and peer not in paths_to:
                paths_to[peer] = [*paths_to[here], port]
                waiting.append(peer)
    return found


@dataclasses.dataclass(frozen=True)
class Sample:
    """Counters at one moment. seconds: monotonic clock. work: the switch's processor time in seconds. writes, smps:
    answered so far."""
    seconds: float
    work: float
    writes: int
    smps: int


class Load:
    """A context with a running switch. begin() starts its traffic. rate: WRITEs a second; 0: as many as possible."""

    def __init__(self, directory: pathlib.Path, octets: int, rate: int = 0, file: pathlib.Path | None = None):
        self.directory, self._octets, self._rate = directory, octets, rate
        directory.mkdir(parents=True, exist_ok=True)
        self.switch = switch_process.Switch(directory, topology=str(file or ""))
        self._lines = 0
        self._last: dict[str, float] = {}
        self._came = threading.Condition()

    def __enter__(self) -> "Load":
        log = self.directory / "switch.log"
        with contextlib.ExitStack() as stack:       # __exit__ is not called if this raises
            with signals.deferred():
                self.process = process.start(self.switch.argv(), log, directory=self.directory, name="switch")
                stack.callback(self.process.stop)
            process.wait_for("pib-switch", self.switch.answers, self.process, log, WAIT_S)
            stack.pop_all()
        return self

    def begin(self, seconds: float = 0, routes: pathlib.Path | None = None) -> None:
        """Starts the traffic. seconds: duration of WRITEs; 0: until the end of the block. routes: the file with routes
        from large_fabric()."""
        words = [paths.BUILD / bench_host.FABRIC_LOAD, self.switch.socket, self._octets, self._rate, seconds,
                 *([routes] if routes else [])]
        with signals.deferred():        # __exit__ ends it
            self._sender = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._sender.stdout
        for line in self._sender.stdout:
            with self._came:
                self._last, self._lines = json.loads(line), self._lines + 1
                self._came.notify_all()

    def sample(self) -> Sample:
        """Waits for the sender's next line and returns its counters."""
        with self._came:
            before = self._lines
            if not self._came.wait_for(lambda: self._lines > before, WAIT_S):
                raise ui.LabError(f"fabric_load has printed nothing for {WAIT_S} s. Start again:  ./pib bench")
            last = self._last
            return Sample(last["seconds"], bench_host.usage([self.process])[1], int(last["writes"]), int(last["smps"]))

    def end(self) -> int:
        """Waits until begin()'s duration has passed; returns the number of WRITEs."""
        if self._sender.wait(WAIT_S + 60):
            raise ui.LabError(f"fabric_load ended with status {self._sender.returncode}. The switch's log: "
                              f"{self.directory}/switch.log")
        self._reader.join()             # it takes the sender's last line
        return int(self._last["writes"])

    def __exit__(self, *_failure) -> None:
        if hasattr(self, "_sender"):
            self._sender.terminate()
            self._sender.wait()
        self.process.stop()
