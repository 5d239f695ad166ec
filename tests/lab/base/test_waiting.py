# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's waiting loop."""

import types

import pytest

from lab.base import ui, waiting
from lab.fabric import subnet, topology_kinds
from lab.guests import vm


def test_poll_returns_the_first_true_value():
    values = iter([0, None, "", "here"])
    assert waiting.poll("it", lambda: next(values), 60, every_s=0) == "here"


def test_a_timeout_reports_the_last_value():
    with pytest.raises(ui.LabError, match="^it: not ready after 0 s. vm1 still boots$"):
        waiting.poll("it", lambda: False, 0, doing=lambda: "vm1 still boots", every_s=0)


@pytest.fixture(name="clock")
def _clock(monkeypatch):
    """Time passes by sleeping only."""
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_the_limit_counts_from_the_last_progress(clock):
    """30 steps of 10 s each are longer than the limit; then there are no more."""
    with pytest.raises(waiting.TooLate, match="it: no progress for 60 s. step 30"):
        waiting.poll("it", lambda: False, 60, every_s=1, progress=lambda: min(clock[0] // 10, 30),
                     doing=lambda: f"step {min(clock[0] // 10, 30):.0f}")
    assert clock[0] > 300 + 60 - ui.HEARTBEAT_S


def test_waiting_ends_when_its_check_fails():
    def gone():
        raise ui.LabError("gone")
    with pytest.raises(ui.LabError, match="gone"):
        waiting.poll("it", lambda: False, 60, check=gone)


def test_a_long_wait_prints_a_message(monkeypatch, capsys):
    monkeypatch.setattr(ui, "HEARTBEAT_S", 0)
    rounds = iter([False, False, True])
    waiting.poll("it", lambda: next(rounds), 60, doing=lambda: "first\n\x1b[31mlast line", every_s=0)
    assert capsys.readouterr().err.count("… it: 0 s — last line") == 2


@pytest.mark.parametrize("wait, each", [
    (lambda guests: vm.wait_ready([None] * guests), vm.BOOT_EACH_S),
    (lambda guests: subnet.wait_devices(lab_of(guests)), subnet.WAIT_EACH_S),
    (lambda guests: subnet.wait_connected(lab_of(guests)), subnet.WAIT_EACH_S),
    (lambda guests: subnet.wait_active(lab_of(guests)), subnet.WAIT_EACH_S)])
def test_limits_grow_with_the_number_of_guests(monkeypatch, wait, each):
    limits = []
    monkeypatch.setattr(waiting, "poll", lambda what, ready, limit_s, **others: limits.append(limit_s) or [])
    for guests in (2, 32):
        wait(guests)
    assert each >= 10 and limits[-len(limits) // 2] - limits[0] == 30 * each


def test_the_limit_grows_with_a_fabric_on_other_hosts(monkeypatch, tmp_path):
    limits, tree = [], tmp_path / "tree"
    tree.write_text(topology_kinds.make("fat-tree", [], "4xEDR"))
    monkeypatch.setattr(waiting, "poll", lambda what, ready, limit_s, **others: limits.append(limit_s) or [])
    for file in ("", str(tree)):
        subnet.wait_connected(lab_of(2, file, ["qemu:///system"]))
    assert limits[1] - limits[0] == pytest.approx(subnet.NODE_S * 22)


def lab_of(guests, topology="", hosts=()):
    return types.SimpleNamespace(node=None, nodes=lambda: [f"vm{number}" for number in range(guests)],
                                 check=lambda: None, record=types.SimpleNamespace(topology=topology, hosts=list(hosts)))


def test_a_console_that_prints_something_new_is_progress(tmp_path):
    console = tmp_path / "console"
    heard = []
    for line in ("Starting udev", "[*  ] A start job is running (5s / no limit)",
                 "[ * ] A start job is running (7s / no limit)", "Reached target"):
        with open(console, "a", encoding="utf-8") as out:
            out.write(f"\x1b[K{line}\r")
        heard.append(vm._heard(console))
    assert heard[0] < heard[1] == heard[2] < heard[3]


def test_the_limit_of_a_boot_counts_from_the_last_new_line(monkeypatch):
    progress = []
    monkeypatch.setattr(waiting, "poll", lambda *_words, **others: progress.append(others["progress"]))
    monkeypatch.setattr(vm, "_heard", lambda console: console)
    vm.wait_ready([(types.SimpleNamespace(console=5), None)])
    assert progress[0]() == [5]


@pytest.mark.parametrize("text, shown", [
    ("\x1b[!p\x1b]104\x07\x1b[?7hStarting", "Starting"), ("\x1b]0;title\x1b\\a", "a"), ("\x1b[1;31mred\x1b[0m", "red"),
    ("\x1b(Bx\x1bc", "x"), ("\x9b31mx", "x"), ("a\x1b]8;never ends\nb", "a\nb"), ("a\tb\x07", "a b "),
    ("é 5[3]", "é 5[3]"), ("\x1b", " ")])
def test_terminal_sequences_are_removed(text, shown):
    assert ui.printable(text) == shown
