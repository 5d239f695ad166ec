# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib metrics: the fabric's counters for Prometheus, over HTTP on the loopback address."""

import pathlib
import re
import threading
from collections.abc import Callable
from typing import Any

from lab import ui
from lab.fabric import control

ADDRESS = "127.0.0.1"
STATES = ("Down", "Initialize", "Armed", "Active")
WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def metric_name(counter: str) -> str:
    """PortRcvErrors -> pib_port_rcv_errors; VL15Dropped -> pib_vl15_dropped"""
    return "pib_" + WORD.sub("_", counter).lower()


class Collector:
    """Queries the switch at each scrape, and does no work between scrapes."""

    def __init__(self, control_path: Callable[[], pathlib.Path]):
        """control_path: returns the present control socket of the switch."""
        self._control_path = control_path
        self._trouble = ""

    def collect(self):
        """Yields all metrics, or only pib_up if the switch does not answer, because a lab ends and begins anew."""
        from prometheus_client import core  # pylint: disable=import-outside-toplevel
        try:
            found, trouble = self._of_ports(core), ""
        except ui.LabError as error:
            found, trouble = [], str(error)
        if trouble and trouble != self._trouble:
            ui.say(trouble)
        self._trouble = trouble
        yield core.GaugeMetricFamily("pib_up", "1 if the switch has answered, else 0", value=0 if trouble else 1)
        yield from found

    def _of_ports(self, core) -> list:
        labels = ["switch", "port"]
        counters: dict[str, Any] = {}
        state = core.GaugeMetricFamily("pib_port_state", "PortState: 1 Down to 4 Active", labels=labels)
        queued = core.GaugeMetricFamily("pib_port_queued_packets", "packets that wait for the port",
                                        labels=labels)
        with control.Control(self._control_path()) as asked:
            for name in asked.switches():
                for port in asked.ask("status", switch=name)["ports"]:
                    at = [name, str(port["port"])]
                    state.add_metric(at, STATES.index(port["state"]) + 1)
                    queued.add_metric(at, port["queued_packets"])
                for port in asked.ask("counters", switch=name)["ports"]:
                    at = [name, str(port.pop("port"))]
                    for counter, value in port.items():
                        family = counters.setdefault(counter, core.CounterMetricFamily(
                            metric_name(counter), f"{counter} of the port, 64 bits wide",
                            labels=labels))
                        family.add_metric(at, value)
        return [state, queued, *counters.values()]


def serve(control_path: Callable[[], pathlib.Path], port: int) -> None:
    """Answers requests for the metrics until interrupted. control_path: as for Collector."""
    try:
        import prometheus_client  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ui.LabError("python3-prometheus-client is not installed. Run as root:  apt-get install "
                          "python3-prometheus-client") from error
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(Collector(control_path))     # type: ignore[arg-type]  # it has collect(), which is called
    try:
        prometheus_client.start_http_server(port, addr=ADDRESS, registry=registry)
    except OSError as error:
        raise ui.LabError(f"port {port}: {error.strerror}. Take another:  ./pib metrics --port N"
                          ) from error
    ui.say(f"http://{ADDRESS}:{port}/metrics until Ctrl-C")
    threading.Event().wait()
