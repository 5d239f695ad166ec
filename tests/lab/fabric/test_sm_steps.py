# SPDX-License-Identifier: GPL-2.0-or-later
"""The step of opensm's sweep, from opensm's log."""

import pathlib
import subprocess

import pytest

from lab.base import ui, waiting
from lab.fabric import sm_log, sm_steps
from lab.fabric.sm_steps import Step

BEGUN = "Nov 23 14:40:01 000200 [7F3C1700] 0x80 -> Entering DISCOVERING state"
MASTER = "Nov 23 14:40:05 000300 [6E9FD700] 0x80 -> Entering MASTER state"
ROUTED = "Nov 23 14:40:06 000300 [6E9FD700] 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches"
UP = "Nov 23 14:40:07 000400 [6E9FD700] 0x02 -> SUBNET UP"
STANDBY = "Nov 23 14:40:05 000300 [6E9FD700] 0x80 -> Entering STANDBY state"
ERROR = "Nov 23 14:40:09 000600 [6E1FC700] 0x01 -> send_err_cb: ERR 3113: MAD completed in error (IB_TIMEOUT)"
TRAP = "Nov 23 14:40:06 400000 [6E9FD700] 0x01 -> log_trap_info: Received Generic Notice type:1 num:128"
FAILED = "Nov 23 14:40:06 500000 [6E9FD700] 0x80 -> Errors during initialization"
PHASES = [([], Step.UNKNOWN), ([BEGUN], Step.DISCOVERS), ([BEGUN, MASTER], Step.CONFIGURES),
          ([BEGUN, MASTER, ROUTED], Step.ACTIVATES), ([BEGUN, MASTER, ROUTED, UP], Step.UP),
          ([BEGUN, STANDBY], Step.STANDBY), ([BEGUN, MASTER, ROUTED, UP, BEGUN], Step.DISCOVERS)]


class Guest:
    """A guest whose commands run on this host. lines: those of opensm's log; opensm: a process that stands for it, or
    None."""

    def __init__(self, log, lines, opensm):
        self.log, self.opensm = log, opensm
        log.write_text("".join(f"{line}\n" for line in lines))

    def run(self, command, timeout_s):
        line = command[2].replace(sm_log.FILE, str(self.log))
        line = line.replace("pidof opensm", f"echo {self.opensm.pid if self.opensm else ''}")
        return subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, timeout=timeout_s, check=False)


@pytest.fixture(name="manager_with")
def _manager_with(tmp_path):
    """Yields a function that makes a Manager for a guest whose log has these lines. options: those of opensm, with LOG
    for the log's path; "": opensm does not run."""
    running = []

    def made(lines, options=f"-B {sm_log.FLUSH} -f LOG"):
        if options:             # a shell that waits for input stands for opensm
            words = options.replace("LOG", str(tmp_path / "opensm.log")).split()
            running.append(subprocess.Popen(["sh", "-c", "read line", *words], stdin=subprocess.PIPE))
            command_line = pathlib.Path("/proc", str(running[-1].pid), "cmdline")
            waiting.poll("the words of its command line", command_line.read_bytes, 60)
        guest = Guest(tmp_path / "opensm.log", lines, running[-1] if options else None)
        return sm_steps.Manager(lambda: guest)
    yield made
    for one in running:
        one.communicate()


@pytest.mark.parametrize("lines, step", PHASES)
def test_the_last_line_about_a_step_decides(manager_with, lines, step):
    manager = manager_with(lines)
    assert manager.look() == step and manager.error == ""
    assert manager.has_finished() == (step in (Step.UNKNOWN, Step.UP, Step.STANDBY))


def test_lines_of_a_long_log_do_not_hide_the_step(manager_with):
    manager = manager_with([BEGUN, *[ERROR] * 5000, "a line without a stamp"])
    assert manager.look() == Step.DISCOVERS and manager.error.startswith("ERR 3113")


def test_neither_an_error_of_an_earlier_step_nor_a_trap_is_reported(manager_with):
    manager = manager_with([BEGUN, ERROR, MASTER, TRAP])
    assert manager.look() == Step.CONFIGURES and manager.error == ""


def test_errors_of_a_whole_sweep_are_reported_while_opensm_begins_anew(manager_with):
    manager = manager_with([BEGUN, MASTER, ROUTED, FAILED])
    assert manager.look() == Step.DISCOVERS and manager.error == "Errors during initialization"
    assert not manager.has_finished()


@pytest.mark.parametrize("options", ["", "-B -d 2 -f /var/log/another.log", "-B -f LOG"])
def test_an_opensm_that_buffers_its_log_has_no_known_step(manager_with, options):
    assert manager_with([BEGUN, MASTER], options).look() == Step.UNKNOWN


def gone():
    raise ui.LabError("vm0 is not running")


class Silent:
    def run(self, _command, timeout_s):
        raise subprocess.TimeoutExpired("ssh", timeout_s)


@pytest.mark.parametrize("guest", [gone, Silent])
def test_a_guest_that_does_not_answer_changes_no_step(guest):
    """At first no step is known, which does not hold up the caller."""
    manager = sm_steps.Manager(guest)
    assert manager.look() == Step.UNKNOWN and manager.has_finished()
    manager.read(["2026 11 23 14 41 00", BEGUN, MASTER, ERROR])
    assert manager.look() == Step.CONFIGURES and manager.error.startswith("ERR 3113") and not manager.has_finished()
