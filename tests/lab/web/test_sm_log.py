# SPDX-License-Identifier: GPL-2.0-or-later
"""opensm's log as events of the time line."""

import calendar
import shutil
import time

import pytest

from lab.base import paths, waiting
from lab.fabric import sm_log, topology
from lab.web import timeline, watch
import simulated_fabric

PATIENCE_S = 60
FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
LOG = """\
Nov 23 14:40:01 000100 [7F3C1700] 0x03 -> OpenSM 3.3.23
Nov 23 14:40:01 000200 [7F3C1700] 0x80 -> Entering DISCOVERING state
Nov 23 14:40:02 000300 [6E9FD700] 0x02 -> osm_ucast_mgr_process: ftree tables configured on all switches
Nov 23 14:40:02 000400 [6E9FD700] 0x02 -> SUBNET UP
a line without a stamp
Nov 23 14:40:09 000500 [6E1FC700] 0x01 -> log_trap_info: Received Generic Notice type:1 num:128 (Link state change)
Nov 23 14:40:09 000600 [6E1FC700] 0x01 -> sm_mad_ctrl_send_err_cb: ERR 3113: MAD completed in error (IB_TIMEOUT)
Nov 23 14:40:09 000700 [6E1FC700] 0x04 -> osm_state_mgr_process: Received something
"""
TEXTS = ["Entering DISCOVERING state", "ftree tables configured on all switches", "SUBNET UP",
         "Received Generic Notice type:1 num:128 (Link state change)", "ERR 3113: MAD completed in error (IB_TIMEOUT)"]
UP = calendar.timegm((2026, 11, 23, 14, 40, 2)) + 0.0004


def read(clock: str, now: float) -> list[sm_log.Decision]:
    reader = sm_log.Reader()
    return [found for line in [clock, *LOG.splitlines()] if (found := reader.read(line, now))]


@pytest.mark.parametrize("clock, ahead_s", [("2026 11 23 14 41 00", 0), ("2026 11 23 15 41 00", 3600),
                                            ("2026 11 23 14 40 30", -30)])
def test_decisions_have_the_hosts_time_whatever_the_guests_clock_says(clock, ahead_s):
    found = read(clock, calendar.timegm((2026, 11, 23, 14, 41, 0)))
    assert [one.text for one in found] == TEXTS
    assert found[2].at == pytest.approx(UP - ahead_s, abs=0.001)


def test_the_year_of_a_line_is_that_of_the_guests_clock():
    """Lines of December are read in January, and a reader goes on over the turn of the year."""
    reader, new_year = sm_log.Reader(), calendar.timegm((2027, 1, 1, 0, 0, 0))
    found = [reader.read(line, now) for line, now in [
        ("2026 12 31 23 59 50", new_year - 10), ("Dec 31 23:59:40 000000 [1] 0x80 -> SUBNET UP", new_year - 10),
        ("Jan  1 00:00:10 000000 [1] 0x80 -> SUBNET UP", new_year + 10),
        ("Dec 31 23:59:50 000000 [1] 0x80 -> SUBNET UP", new_year + 10)]]
    assert [one.stamp - new_year for one in found if one] == [-20, 10, -10]
    assert [one.at - new_year for one in found if one] == [-20, 10, -10]


def test_a_decision_is_never_later_than_its_reading():
    now = calendar.timegm((2026, 11, 23, 14, 40, 2))
    assert {one.at for one in read("2026 11 23 14 40 02", now)[3:]} == {now}


def test_equal_decisions_are_one_event_and_many_are_counted():
    line = timeline.Timeline()
    line.read_manager("vm0", [])
    line.read_manager("vm0", [sm_log.Decision(at, text) for at, text in ((1.0, "a"), (2.0, "b"), (3.0, "b"))])
    assert [(event.at, event.kind, event.text) for event in line.events] == [
        (1.0, "sm", "opensm in vm0: a"), (3.0, "sm", "opensm in vm0: b (2 times)")]
    line.read_manager("vm0", [sm_log.Decision(4.0, str(number)) for number in range(timeline.MOST_DECISIONS + 7)])
    assert line.events[-1].text == "opensm in vm0 has written 7 more lines before"
    assert len(line.events) == 2 + timeline.MOST_DECISIONS + 1


@pytest.fixture(name="log")
def _log(tmp_path):
    (tmp_path / "opensm.log").write_text(LOG)
    return tmp_path / "opensm.log"


def took(followed: sm_log.Followed, guest: str, argv: list[str], count: int) -> list[str]:
    found: list[str] = []

    def enough() -> bool:
        found.extend(one.text for one in followed.take(guest, lambda: argv))
        return len(found) >= count
    waiting.poll(f"{count} decisions", enough, PATIENCE_S)
    return found


def test_a_log_is_followed_and_no_decision_is_reported_twice(log):
    argv = [word.replace("/var/log/opensm.log", str(log)) for word in sm_log.WORDS]
    followed = sm_log.Followed()
    assert took(followed, "vm0", argv, len(TEXTS)) == TEXTS
    with open(log, "a", encoding="utf-8") as out:
        out.write(LOG.splitlines()[3].replace("14:40:02", "14:40:15") + "\n")
    assert took(followed, "vm0", argv, 1) == ["SUBNET UP"]
    followed.stop()                                     # as when the guest is started anew
    with open(log, "a", encoding="utf-8") as out:
        out.write(LOG.splitlines()[1].replace("14:40:01", "14:40:16") + "\n")
    assert took(followed, "vm0", argv, 1) == ["Entering DISCOVERING state"]
    assert followed.take("", list) == [] and not followed.guest
    assert took(followed, "vm1", argv, len(TEXTS) + 2)[:len(TEXTS)] == TEXTS
    with open(log, "a", encoding="utf-8") as out:
        out.write(LOG.splitlines()[3].replace("14:40:02", "14:40:17") + "\n")
    assert took(followed, "vm0", argv, 1) == ["SUBNET UP"]      # the subnet manager is back at the first guest
    followed.stop()


@pytest.mark.parametrize("before", ["echo 99999999999999999999 1 1 0 0 0",
                                    f"yes | head -c {2 * sm_log.MOST_LINE} | tr '\\n' y"])
def test_no_output_of_a_guest_ends_the_reader(log, before):
    """The guest prints a time beyond all calendars, or a line without an end, which is read in parts."""
    shell, option, line = (word.replace("/var/log/opensm.log", str(log)) for word in sm_log.WORDS)
    followed = sm_log.Followed()
    assert took(followed, "vm0", [shell, option, f"{before}; {line}"], len(TEXTS)) == TEXTS
    followed.stop()


def test_the_time_line_has_the_decisions_of_the_guest_with_the_subnet_manager(log, tmp_path):
    assert shutil.which("tail")
    fabric = simulated_fabric.Fabric(topology.load(FILE), {"node1": "vm0", "node16": "vm1"})
    manager = next(name for name, lid in fabric.lids.items() if lid == fabric.sm_lid)
    running = simulated_fabric.Process(tmp_path / "control", fabric)
    source = simulated_fabric.Source(running, {"vm0": simulated_fabric.guest(fabric.net, fabric, manager, [])})
    source.log = log
    watcher = watch.Watcher(source)
    try:
        def told():
            return [event.text for event in watcher.timeline.events if event.guest == "vm0"]

        def enough() -> bool:
            watcher.read_guests()
            watcher.read_fabric()
            return len(told()) >= len(TEXTS)
        waiting.poll("the events", enough, PATIENCE_S)
        assert told() == [f"opensm in vm0: {text}" for text in TEXTS]
        assert watcher.routing.engine(time.time()) == "ftree"
    finally:
        watcher.stop()
        running.end()
