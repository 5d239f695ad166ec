# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib metrics: the fabric's counters for Prometheus, over HTTP on the loopback address."""

import pathlib
import re
from collections.abc import Callable
from typing import Any

from lab.base import ui
from lab.fabric import cluster, control, switch_process
from lab.fabric.evidence import Json
from lab.web import http_server

ADDRESS = "127.0.0.1"
MOST_REQUESTS = 16              # limit of simultaneous requests, and of connections without one
TEXT = {"Content-Type": "text/plain; charset=utf-8"}
STATES = ("Down", "Initialize", "Armed", "Active")
WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def metric_name(counter: str) -> str:
    """PortRcvErrors -> pib_port_rcv_errors; VL15Dropped -> pib_vl15_dropped"""
    return "pib_" + WORD.sub("_", counter).lower()


Switches = dict[str, tuple[list[Json], list[Json]]]     # by name: status and counters of a switch's ports


def of_lab(lab: cluster.Cluster) -> list[pathlib.Path]:
    """Control sockets of all switch processes of a lab, also of those that have ended; an error if none runs."""
    lab.running_switches()
    return [switch_process.Switch(lab.sockets(), number=number).control for number in range(len(lab.record.parts) or 1)]


def _read(path: pathlib.Path, owners: dict[str, pathlib.Path]) -> Switches:
    """The switches of a process. owners: the process that was the first one with a switch of a name; switches of that
    name in other processes have their GUIDs as names."""
    found: Switches = {}
    with control.Control(path) as asked:
        for name in asked.switches():
            status, counters = (asked.ask(command, switch=name) for command in ("status", "counters"))
            own = owners.setdefault(name, path) == path
            found[name if own else status["switch"]["guid"]] = status["ports"], counters["ports"]
    return found


def _of_ports(core, switches: Switches) -> list:
    labels = ["switch", "port"]
    counters: dict[str, Any] = {}
    state = core.GaugeMetricFamily("pib_port_state", "PortState: 1 Down to 4 Active", labels=labels)
    queued = core.GaugeMetricFamily("pib_port_queued_packets", "packets that wait for the port",
                                    labels=labels)
    for name, (ports, counted) in switches.items():
        for port in ports:
            at = [name, str(port["port"])]
            state.add_metric(at, STATES.index(port["state"]) + 1)
            queued.add_metric(at, port["queued_packets"])
        for port in counted:
            at = [name, str(port.pop("port"))]
            for counter, value in port.items():
                family = counters.setdefault(counter, core.CounterMetricFamily(
                    metric_name(counter), f"{counter} of the port, 64 bits wide",
                    labels=labels))
                family.add_metric(at, value)
    return [state, queued, *counters.values()]


class Collector:
    """Queries the switch processes at each scrape, and does no work between scrapes."""

    def __init__(self, controls: Callable[[], list[pathlib.Path]]):
        """controls: returns the present control sockets of the fabric's switch processes."""
        self._controls = controls
        self._owners: dict[str, pathlib.Path] = {}      # as for _read(): a switch keeps its name if another one ends
        self._trouble = ""

    def collect(self):
        """Yields pib_up, and the metrics of the processes that answer: a lab ends and begins anew."""
        from prometheus_client import core  # pylint: disable=import-outside-toplevel
        found, trouble = self._switches()
        if trouble and trouble != self._trouble:
            ui.say(trouble)
        self._trouble = trouble
        yield core.GaugeMetricFamily("pib_up", "1 if all switch processes have answered, else 0",
                                     value=0 if trouble else 1)
        if found:
            yield from _of_ports(core, found)

    def _switches(self) -> tuple[Switches, str]:
        """The switches, and why some are missing; "" if none is."""
        found: Switches = {}
        trouble = []
        try:
            controls = self._controls()
        except ui.LabError as error:
            return found, str(error)
        self._owners = {name: path for name, path in self._owners.items() if path in controls}
        for path in controls:
            try:
                found |= _read(path, self._owners)
            except ui.LabError as error:
                trouble.append(str(error))
        return found, "\n".join(trouble)


class Server(http_server.Server):
    def __init__(self, port: int, app: Callable):
        """app: the application in the sense of PEP 3333."""
        super().__init__((ADDRESS, port), Handler, MOST_REQUESTS)
        self.app = app


class Handler(http_server.Handler):
    server: Server

    def handle_one_request(self) -> None:
        """Makes the connection a newcomer again: clients of this server show no token, and one that sends its next
        request slowly, or none, must not keep others out."""
        self.server.room.wait(self.connection)
        super().handle_one_request()

    def do_GET(self) -> None:
        if refused := self.refusal("./pib metrics"):
            status, text = refused
            self.close_connection = True
            self.send(status, TEXT, f"{ui.named(text)}\n".encode())
            return
        path, _, query = self.path.partition("?")
        self._answer({"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query,
                      "HTTP_ACCEPT": self.headers.get("Accept", ""),
                      "HTTP_ACCEPT_ENCODING": self.headers.get("Accept-Encoding", "")})

    do_HEAD = do_GET

    def _answer(self, asked: dict[str, str]) -> None:
        """asked: the request in variables of PEP 3333."""
        began: list[tuple[str, list[tuple[str, str]]]] = []
        body = b"".join(self.server.app(asked, lambda status, headers: began.append((status, headers))))
        [(status, headers)] = began
        self.send(int(status.split()[0]), {name: value for name, value in headers if name}, body)


def serve(controls: Callable[[], list[pathlib.Path]], port: int) -> None:
    """Answers requests for the metrics until interrupted. controls: as for Collector."""
    try:
        import prometheus_client  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ui.LabError("python3-prometheus-client is not installed. Run as root:  apt-get install "
                          "python3-prometheus-client") from error
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(Collector(controls))     # type: ignore[arg-type]  # it has collect(), which is called
    try:
        server = Server(port, prometheus_client.make_wsgi_app(registry))
    except OSError as error:
        raise ui.LabError(f"port {port}: {error.strerror}. Take another:  ./pib metrics --port N"
                          ) from error
    ui.say(f"{server.url}metrics until Ctrl-C")
    with server:
        server.serve_forever()
