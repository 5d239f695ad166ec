# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of perftest, and the lab's message when perftest cannot run."""

import os
import signal
import subprocess
import threading

import pytest

from lab.base import ui
from lab.fabric import measure, subnet

PATIENCE_S = 60


def test_perftest_results_are_read():
    text = " #bytes  #iterations  BW peak  BW average  MsgRate\n 65536  500  101.5  99.25  0.0015\n"
    assert measure.columns(text, 65536)[3] == 99.25
    with pytest.raises(ui.LabError):
        measure.columns(text, 8)


class Perftest:
    """A guest in which perftest runs, with these messages on its standard error, one for each run."""
    name = "vm1"
    PORT = subnet.Port("vm1", "pib_0", 1, "0x1", 0, 0, "ACTIVE", "LinkUp", "")

    def __init__(self, *errors):
        self.errors = list(errors)

    def run(self, command, **_):
        measured = "ib_write_bw" in command
        return subprocess.CompletedProcess(command, 0, b"the result" if measured else b"",
                                           self.errors.pop(0) if measured else b"")

    def start(self, *_args, **_options):
        class Serving:
            returncode = 0

            def communicate(self, **_):
                return b"", None

            def end(self):
                pass
        return Serving()


def test_a_signal_while_the_server_is_started_ends_it():
    class Interrupted(Perftest):
        def start(self, *_args, **_options):
            serving = super().start()
            serving.end = lambda: ended.append(serving)
            os.kill(os.getpid(), signal.SIGINT)
            return serving
    ended, node = [], Interrupted()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            measure.perftest(node, node, "ib_write_bw", [], node.PORT, node.PORT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(ended) == 1


def test_the_limit_of_perftest_grows_with_the_fabric():
    class Limited(Perftest):
        def run(self, command, **options):
            if "timeout" in command:
                limits.append((int(command[1]), options["timeout_s"]))
            return super().run(command, **options)
    limits: list[tuple[int, float]] = []
    for nodes in (0, 10000):
        node = Limited(b"")
        measure.perftest(node, node, "ib_write_bw", [], node.PORT, node.PORT, nodes=nodes)
    assert limits[0] == (measure.LIMIT_S, measure.LIMIT_S + 30)
    assert {after - before for before, after in zip(*limits)} == {measure.NODE_S * 10000}


VOID = b"Correlation coefficient r^2: 0.887938 < 0.9\n"


def test_a_run_whose_clock_failed_is_repeated():
    node = Perftest(VOID, VOID, b"")
    assert measure.perftest(node, node, "ib_write_bw", [], node.PORT, node.PORT) == "the result" and not node.errors


def test_a_host_that_is_too_busy_to_measure_is_named():
    node = Perftest(*[VOID] * measure.TRIES)
    with pytest.raises(ui.LabError, match="the host is too busy"):
        measure.perftest(node, node, "ib_write_bw", [], node.PORT, node.PORT)


def test_errors_of_perftest_are_printed_without_control_characters():
    class Failing(Perftest):
        def run(self, command, **_):
            failed = "ib_write_bw" in command
            return subprocess.CompletedProcess(command, int(failed), b"", b"no QP\xff\x1b[2J\n" if failed else b"")
    node = Failing()
    with pytest.raises(ui.LabError) as raised:
        measure.perftest(node, node, "ib_write_bw", [], node.PORT, node.PORT)
    assert "no QP\N{REPLACEMENT CHARACTER}\n" in str(raised.value)


def test_a_guest_without_an_active_port_is_named(monkeypatch):
    class Node:
        name = "vm1"
    monkeypatch.setattr(subnet, "ports_of",
                        lambda node: [subnet.Port(node.name, "pib_0", 1, "0x1", 0, 0, "INIT", "LinkUp", "")])
    with pytest.raises(ui.LabError, match="no port of vm1 is ACTIVE"):
        measure.measure(Node(), Node())


def test_guests_are_asked_in_parallel_and_silent_ones_are_reported(monkeypatch):
    class Lab:
        def nodes(self):
            return ["vm0", "vm1"]

        def node(self, name):
            return name

        def check(self):
            pass

    both = threading.Barrier(2)

    def ports_of(name, _timeout_s):
        both.wait(PATIENCE_S)
        if name == "vm0":
            raise subprocess.TimeoutExpired("ssh", 5)
        return []
    monkeypatch.setattr(subnet, "ports_of", ports_of)
    assert subnet.look(Lab()) == {"vm0": None, "vm1": []}
    with pytest.raises(ui.LabError, match="vm0: no answer"):
        subnet.ports(Lab())


class Listing:
    """A guest whose list of ports is this text."""
    name = "vm1"

    def __init__(self, listed):
        self._listed = listed

    def run(self, command, **_):
        return subprocess.CompletedProcess(command, 0, self._listed, b"")


GOOD = b"pib_0|1|0x0670696200020000|1|2|ACTIVE|LinkUp|100 Gb/sec (4X EDR)\n"


def test_the_ports_of_a_guest_are_read():
    port, = subnet.ports_of(Listing(GOOD))
    assert port == subnet.Port("vm1", "pib_0", 1, "0x0670696200020000", 1, 2, "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)")
    assert port.gbit_s == 100 and subnet.ports_of(Listing(b"")) == []


def test_a_port_that_goes_meanwhile_has_no_state_and_no_rate():
    port, = subnet.ports_of(Listing(b"pib_0|1|0x|0|0|||\n"))
    assert (port.state, port.rate, port.gbit_s, port.connected) == ("", "", 0, False)


@pytest.mark.parametrize("line", [b"", b"hello", b"|".join([b"1"] * 7), b"|".join([b"1"] * 9), b"a|x|b|1|1|c|d|e",
                                  "a|\u00b2|b|1|1|c|d|e".encode(), b"a|1|b|" + b"9" * 5000 + b"|1|c|d|e"],
                         ids=lambda line: f"{len(line)} octets")
def test_lines_of_a_guest_that_are_not_ports_are_refused(line):
    with pytest.raises(ui.LabError, match="vm1: its list of ports has a line that is not a port: .*./pib reboot vm1"):
        subnet.ports_of(Listing(GOOD + line + b"\n"))


def test_ports_of_a_guest_are_printed_without_control_characters():
    port, = subnet.ports_of(Listing(b"a\xff\x1b[2J|1|g\x07|1|1|\x1b[31mACTIVE|LinkUp|nan\x85 Gb\n"))
    assert (port.device, port.guid, port.state) == ("a\N{REPLACEMENT CHARACTER}", "g ", "ACTIVE") and port.gbit_s == 0
