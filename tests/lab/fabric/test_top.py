# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib top: loads from two samples, and their text."""

import copy
import os
import pty
import select
import subprocess
import sys
import time
import types

import pytest

from lab.base import paths, process, ui
from lab.fabric import load, switch_process, top
from lab.fabric.load import Sample

PATIENCE_S = 60
STATUS = {"port": 2, "state": "Active", "width": "4X", "speed": "EDR",
          "neighbour": {"node_guid": "0x1", "port_guid": "0xa1", "port": 1, "description": "vm1 pib-hca"}}
COUNTERS = {"port": 2, "PortXmitData": 1000, "PortRcvData": 5000, "PortXmitWait": 0}
QP = {"qpn": 0x41, "type": "RC", "state": "RTS", "retry_cnt": 7, "sq": {"producer": 6, "consumer": 4},
      "rq": {"producer": 9, "consumer": 2}, "requester": {"una": 0xFFFFF0, "retries_left": 3},
      "responder": {"expected_psn": 5}}
OBJECTS = {"ports": {"entries": [{"port": 1, "guid": "0xa1", "lid": 3, "lmc": 0}]}, "qps": {"entries": [QP]},
           "counters": {"tx_packets": 10, "rx_packets": 20, "rx_dropped": 0}}


@pytest.fixture
def samples() -> tuple[Sample, Sample]:
    """Two equal samples, two seconds apart."""
    first = Sample(100.0, {("leaf1", 2): (STATUS, COUNTERS)}, {"vm1": 1.0}, {"vm1": [OBJECTS]})
    second = copy.deepcopy(first)
    second.at = 102.0
    return first, second


def test_an_idle_fabric_has_no_load(samples):
    seen = load.load(*samples)
    assert [(one.cpu, one.sent, one.received, one.qps) for one in seen.guests] == [(0, 0, 0, 1)]
    assert [(one.bytes_out, one.bytes_in, one.share) for one in seen.links] == [(0, 0, 0)]
    assert [(one.requests, one.packets, one.waiting, one.retries) for one in seen.qps] == [(0, 0, 2, "3/7")]


def test_loads_are_differences_by_time(samples):
    before, after = samples
    after.cpu["vm1"] += 3.0
    after.links[("leaf1", 2)][1].update(PortXmitData=1000 + (1 << 30), PortXmitWait=8)
    after.hcas["vm1"][0]["counters"]["tx_packets"] += 100
    qp = after.hcas["vm1"][0]["qps"]["entries"][0]
    qp["sq"]["consumer"], qp["requester"]["una"], qp["responder"]["expected_psn"] = 6, 0x10, 9
    seen = load.load(before, after)
    assert (seen.guests[0].cpu, seen.guests[0].sent) == (1.5, 50)
    link = seen.links[0]
    assert (link.name, link.neighbour, link.bytes_out, link.waited) == ("leaf1[2]", "vm1[1]", 2 << 30, 4)
    assert link.share == pytest.approx((2 << 30) / 12.5e9)
    assert (seen.qps[0].requests, seen.qps[0].packets, seen.qps[0].waiting) == (1, 18, 0)


def test_requests_without_an_answer_wait_although_the_device_has_copied_them(samples):
    before, after = samples
    for sample, copied, in_window in ((before, 4, 4), (after, 6, 3)):
        qp = sample.hcas["vm1"][0]["qps"]["entries"][0]
        qp["sq"]["consumer"], qp["requester"]["in_window"] = copied, in_window
    seen = load.load(before, after).qps[0]
    assert (seen.requests, seen.waiting) == (1.5, 3)


def test_counters_that_were_reset_and_new_objects_do_no_harm(samples):
    before, after = samples
    after.links[("leaf1", 2)][1]["PortRcvData"] = 30
    after.links[("leaf1", 3)] = after.links[("leaf1", 2)]
    after.hcas["vm1"][0]["qps"]["entries"].append({**QP, "qpn": 0x42})
    after.hcas["vm2"], after.cpu["vm2"] = [], 5.0
    seen = load.load(before, after)
    assert [link.bytes_in for link in seen.links] == [30 * 4 / 2]
    assert [qp.qpn for qp in seen.qps] == [0x41]
    assert {guest.name: guest.cpu for guest in seen.guests} == {"vm1": 0, "vm2": 0}


@pytest.mark.parametrize("before_state, after_state, packets", [
    ("INIT", "RTR", 0), ("RTR", "RTS", 50), ("INIT", "RTS", 0), ("RTS", "RESET", 0), ("RTS", "SQE", 550)])
def test_the_first_psn_of_a_connection_counts_as_no_packets(samples, before_state, after_state, packets):
    for sample, state, number in zip(samples, (before_state, after_state), (0, 100)):
        qp = sample.hcas["vm1"][0]["qps"]["entries"][0]
        qp["state"], qp["requester"]["una"], qp["responder"]["expected_psn"] = state, number * 10, number
    assert load.load(*samples).qps[0].packets == packets


@pytest.mark.parametrize("change", [{"dest_qpn": 8}, {"type": "UC"}, {"sq": {"producer": 1, "consumer": 1}},
                                    {"rq": {"producer": 1, "consumer": 1}}])
def test_a_new_qp_with_the_number_of_an_old_one_has_no_load(samples, change):
    before, after = samples
    before.hcas["vm1"][0]["qps"]["entries"][0]["dest_qpn"] = 7
    after.hcas["vm1"][0]["qps"]["entries"][0].update({"dest_qpn": 7, **change})
    assert not load.load(before, after).qps


def test_counters_of_queues_wrap_and_a_connection_begins(samples):
    before, after = samples
    before.hcas["vm1"][0]["qps"]["entries"][0].update(
        dest_qpn=0, sq={"producer": 0xFFFFFFFF, "consumer": 0xFFFFFFFF})        # as the device has it before RTR
    after.hcas["vm1"][0]["qps"]["entries"][0].update(dest_qpn=7, sq={"producer": 3, "consumer": 3})
    assert [qp.requests for qp in load.load(before, after).qps] == [2]


def test_qps_of_a_guest_that_was_started_anew_are_others(samples):
    before, after = samples
    for sample, now_ns in ((before, 90), (after, 5)):
        sample.hcas["vm1"][0]["now_ns"] = now_ns
    assert not load.load(before, after).qps and load.load(after, before).qps


def test_each_sample_is_of_the_lab_as_it_is_then():
    """./pib reboot and ./pib down change the lab meanwhile."""
    nothing = types.SimpleNamespace(switches=lambda: [], nodes=lambda: [])
    other = types.SimpleNamespace(switches=lambda: [], nodes=lambda: ["vm1"], monitor=lambda _name: None,
                                  record=types.SimpleNamespace(processes={"vm1": types.SimpleNamespace(pid=1)}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load.evidence, "objects", lambda _monitor: [])
        found = iter([other, other, other, nothing])
        assert "vm1" in top.once(lambda: next(found), 0.01)
        with pytest.raises(ui.LabError, match="nothing runs"):
            top.once(lambda: next(found), 0.01)


def test_the_busiest_come_first_and_the_terminal_limits_them(samples):
    before, after = samples
    for port in range(3, 40):
        for sample in samples:
            sample.links[("leaf1", port)] = copy.deepcopy(sample.links[("leaf1", 2)])
        after.links[("leaf1", port)][1]["PortXmitData"] += port
    seen = load.load(before, after)
    assert [link.name for link in seen.links[:2]] == ["leaf1[39]", "leaf1[38]"]
    whole, short = top.text(seen), top.text(seen, 20)
    assert all(f"leaf1[{port}]" in whole for port in range(2, 40))
    assert len(short.splitlines()) <= 20 and "leaf1[39]" in short and "leaf1[2]" not in short and "0x41" in short


@pytest.mark.parametrize("rate, wanted", [("4X EDR", 12.5e9), ("1X SDR", 0.25e9), ("", 0), ("? ?", 0)])
def test_a_link_has_the_rate_of_its_width_and_speed(rate, wanted):
    assert load.capacity(rate) == pytest.approx(wanted)


class Lab:
    """A lab of one switch process without guests."""
    def __init__(self, running):
        self.running = running

    def switches(self):
        return [self.running]

    def nodes(self):
        return []


class Screen:
    """A terminal in which these keys are pressed one after the other."""
    def __init__(self, *keys):
        self.keys, self.drawn, self.timeouts = list(keys), 0, []

    def timeout(self, milliseconds):
        self.timeouts.append(milliseconds)

    def getch(self):
        return self.keys.pop(0)

    def refresh(self):
        self.drawn += 1

    def getmaxyx(self):
        return 24, 80

    def erase(self):
        pass

    addstr = addnstr = lambda *_words: None


def test_keys_and_new_sizes_of_the_terminal_take_no_samples(samples, monkeypatch):
    """Rates over the moment between two keys would be wrong."""
    monkeypatch.setattr(top.curses, "use_default_colors", lambda: None)
    monkeypatch.setattr(top.curses, "curs_set", lambda _visible: None)
    taken = []
    monkeypatch.setattr(top, "_sample", lambda _find: taken.append(1) or samples[min(len(taken) - 1, 1)])
    screen = Screen(ord("x"), top.curses.KEY_RESIZE, top.NO_KEY, top.curses.KEY_RESIZE, ord("j"), ord("q"))
    top._watch(screen, None, 60)                # pylint: disable=protected-access
    assert (len(taken), screen.drawn, screen.keys) == (2, 3, [])
    assert all(50_000 < milliseconds <= 60_000 for milliseconds in screen.timeouts)


@pytest.fixture
def lab(tmp_path):
    file = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
    running = switch_process.Switch(tmp_path, topology=str(file))
    started = process.start(running.argv(), tmp_path / "log", directory=tmp_path, name="switch")
    process.wait_for("pib-switch", running.answers, started, tmp_path / "log", PATIENCE_S)
    yield Lab(running)
    started.stop()


def test_the_load_of_a_running_switch_is_shown(lab, capsys):
    top.top(lambda: lab, 0.01, True)
    said = capsys.readouterr().out
    assert "leaf1[1]" in said and "node1[1]" in said and "4X EDR" in said and "Initialize" in said


@pytest.mark.parametrize("interval_s", [0, -1, float("nan"), float("inf")])
def test_impossible_intervals_are_refused(lab, interval_s):
    with pytest.raises(ui.LabError, match="more than 0 and at most"):
        top.top(lambda: lab, interval_s, True)


def test_the_terminal_shows_the_load_until_q_is_typed(lab):
    program = ("import sys; sys.path.insert(0, sys.argv[1])\n"
               "from lab.fabric import switch_process, top\n"
               "import pathlib\n"
               "class Lab:\n"
               "    switches = lambda self: [switch_process.Switch(pathlib.Path(sys.argv[2]))]\n"
               "    nodes = lambda self: []\n"
               "top.top(Lab, 0.05, False)\n")
    leader, follower = pty.openpty()
    running = subprocess.Popen([sys.executable, "-B", "-c", program, str(paths.ROOT), str(lab.running.directory)],
                               stdin=follower, stdout=follower, stderr=follower,
                               env={**os.environ, "TERM": "xterm", "LINES": "40", "COLUMNS": "150"})
    os.close(follower)
    try:
        seen, end = b"", time.monotonic() + PATIENCE_S
        while b"leaf1[" not in seen and time.monotonic() < end:
            if select.select([leader], [], [], 1)[0]:
                seen += os.read(leader, 65536)
        assert b"leaf1[" in seen and b"pib top" in seen, seen
        os.write(leader, b"q")
        while running.poll() is None and time.monotonic() < end:
            if select.select([leader], [], [], 0.2)[0]:
                try:
                    os.read(leader, 65536)
                except OSError:     # the program has closed its end of the terminal
                    break
        assert running.wait(PATIENCE_S) == 0
    finally:
        running.kill()
        os.close(leader)
