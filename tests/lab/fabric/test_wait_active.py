# SPDX-License-Identifier: GPL-2.0-or-later
"""The wait for Active ports ends at the end of opensm's sweep, and reports what opensm does."""

import subprocess
import sys
import types

import pytest

from lab.base import ui, waiting
from lab.fabric import sm_log, sm_steps, subnet

STAMP = "Nov 23 14:40:01 000200 [7F3C1700] 0x80 -> "
LOG = [f"{STAMP}Entering DISCOVERING state", f"{STAMP}Entering MASTER state",
       f"{STAMP}ucast: minhop tables configured on all switches", f"{STAMP}SUBNET UP"]
STEP_S = 50                     # time between two lines of opensm


@pytest.fixture(name="now")
def _now(monkeypatch):
    """Time passes by sleeping only."""
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


class Guest:
    """A guest whose port is ACTIVE after `active_s`, and whose opensm writes one line of `log` every STEP_S."""
    name = "vm0"

    def __init__(self, now, log, active_s):
        self.now, self.log, self.active_s = now, log, active_s

    def run(self, command, timeout_s=0):
        assert timeout_s
        if command == sm_steps.WORDS:
            said = "\n".join(["2026 11 23 14 41 00", *self.log[:int(self.now[0] / STEP_S)]])
        else:
            state = "ACTIVE" if self.now[0] >= self.active_s else "INIT"
            said = f"pib_0|1|0x1|1|1|{state}|LinkUp|100 Gb/sec (4X EDR)\n"
        return subprocess.CompletedProcess(command, 0, said.encode())


@pytest.fixture(name="lab_with")
def _lab_with(now):
    def made(log, active_s):
        guest = Guest(now, log, active_s)
        return types.SimpleNamespace(nodes=lambda: ["vm0"], node=lambda _name: guest, check=lambda: None,
                                     switches=lambda: [], record=types.SimpleNamespace(topology="", hosts=[]))
    return made


def test_the_wait_ends_when_opensm_says_subnet_up(lab_with, now, capfd):
    subnet.wait_active(lab_with(LOG, 2.5 * STEP_S))
    assert now[0] == pytest.approx(len(LOG) * STEP_S, abs=1)
    said = capfd.readouterr().err
    for step in (sm_steps.Step.DISCOVERS, sm_steps.Step.CONFIGURES, sm_steps.Step.ACTIVATES):
        assert subnet.subnet_progress.BARE[step] in said
    assert "SUBNET UP: " in said and "has not come" not in said


def test_the_limit_counts_from_the_last_step_of_opensm(lab_with, now):
    slow = subnet.WAIT_S + 2 * STEP_S
    subnet.wait_active(lab_with(LOG, slow))
    assert slow <= now[0] < slow + 1


def test_a_sweep_that_does_not_end_is_reported_and_is_not_a_failure(lab_with, now, capfd):
    assert [port.state for port in subnet.wait_active(lab_with(LOG[:-1], STEP_S * 3))] == ["ACTIVE"]
    assert "opensm has not come to the end of its sweep" in capfd.readouterr().err
    assert now[0] > 3 * STEP_S + subnet.SWEEP_S - ui.HEARTBEAT_S


def test_opensm_is_started_so_that_its_log_has_its_steps(tmp_path):
    class Fresh:
        def run(self, command):
            lines.append(command[-1])
            return subprocess.CompletedProcess(command, int(command[0] == "pidof"))
    lines: list[str] = []
    subnet.start_manager(Fresh())
    opensm = tmp_path / "opensm"            # prints its command line
    opensm.write_text("#!/bin/sh\nprintf '%s ' opensm \"$@\"\n")
    opensm.chmod(0o755)
    started = lines[-1].replace("udevadm settle", f"PATH={tmp_path}:$PATH").replace(">/var/log/opensm.out", "")
    said = subprocess.run(["sh", "-c", started], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"{sm_log.FLUSH} " in said and sm_log.FILE in said       # sm_steps.WORDS looks for both


def test_ports_are_enough_if_no_opensm_runs_there(lab_with, now):
    subnet.wait_active(lab_with([], 2))
    assert now[0] == pytest.approx(2, abs=1)


@pytest.fixture(name="rebooted")
def _rebooted(lab_with, monkeypatch):
    """Waits for vm1, which was rebooted; returns the other guests that were asked something."""
    def wait(active_s, *, manager_answers=True, answers=sys.maxsize):
        """answers: number of times that the manager's guest answers before it ends."""
        lab, asked = lab_with([], active_s), []
        vm1 = lab.node("vm1")

        def node(name):
            if name == "vm1":
                return vm1
            asked.append(name)
            if not manager_answers or len(asked) > answers:
                raise ui.LabError(f"{name} is not running")
            return types.SimpleNamespace(run=lambda command, **_: subprocess.CompletedProcess(command, 0, b"its log"))
        monkeypatch.setattr(lab, "node", node)
        monkeypatch.setattr(lab, "nodes", lambda: ["vm0", "vm1"])
        subnet.wait_active_again(lab, "vm1", "vm0")
        return asked
    return wait


def test_a_rebooted_guest_waits_for_its_own_ports_alone(rebooted, now):
    """A driver may have crashed all guests, and they are rebooted one after the other."""
    assert rebooted(2) == [] and now[0] == pytest.approx(2, abs=1)


def test_a_slow_subnet_manager_is_waited_for(rebooted, now):
    assert rebooted(100) == ["vm0"] and now[0] == pytest.approx(100, abs=1)
    with pytest.raises(ui.LabError, match="(?s)every port of vm1 ACTIVE: .*pib_0 port 1: INIT.*pib why .*its log"):
        rebooted(10000)


def test_a_subnet_manager_that_dies_meanwhile_hides_no_port(rebooted):
    with pytest.raises(ui.LabError, match="(?s)every port of vm1 ACTIVE: .*pib_0 port 1: INIT.*vm0 is not running"):
        rebooted(10000, answers=1)


def test_a_rebooted_guest_does_not_wait_for_a_subnet_manager_that_has_died(rebooted, now, capfd):
    rebooted(10000, manager_answers=False)
    assert now[0] == pytest.approx(subnet.ALONE_S, abs=1)
    assert "ports of vm1 are not ACTIVE, as vm0, " in (said := capfd.readouterr().err) and "pib reboot vm0" in said


def test_the_rebooted_subnet_manager_comes_to_the_end_of_its_sweep(lab_with, now):
    lab = lab_with(LOG, 1.5 * STEP_S)
    lab.check = lambda: pytest.fail("vm1 has ended")
    subnet.wait_active_again(lab, "vm0", "vm0")
    assert now[0] == pytest.approx(len(LOG) * STEP_S, abs=1)


def test_bytes_of_opensms_output_do_not_reach_the_terminal():
    class Failing:
        name = "vm0"

        def run(self, command):
            return subprocess.CompletedProcess(command, 1, b"node \x1b]0;title\x07 \xff ends")
    with pytest.raises(ui.LabError, match="(?s)opensm did not start in vm0.*\nnode  \ufffd ends"):
        subnet.start_manager(Failing())
