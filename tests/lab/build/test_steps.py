# SPDX-License-Identifier: GPL-2.0-or-later
"""A step in parallel with others: it runs at the same time, its failure is reported, and it ends with them."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lab.base import paths, ui
from lab.build import steps

LIMIT_S = 60
INTERRUPTED = """
import pathlib, sys
from lab.base import child, paths, signals, ui
from lab.build import steps
paths.RUN = pathlib.Path(sys.argv[1])
signals.raise_on_end()
with steps.beside(lambda: ui.run("endless", ["sh", "-c", "echo $$ >$0/build; exec sleep 1000", sys.argv[1]], "x")):
    child.run(child.Program(["sh", "-c", "echo $$ >$0/tests; exec sleep 1000", sys.argv[1]], stop=15))
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN", tmp_path)


def fail() -> None:
    raise ui.LabError("the reason")


def test_the_words_of_a_step_need_not_be_utf_8(tmp_path):
    ui.run("odd", ["test", os.fsdecode(b"b\xfccher")], "x")
    assert b"b\xfccher" in (tmp_path / "log" / "x.log").read_bytes()


def test_a_step_runs_beside_the_block_at_lower_priority():
    meet, niceness = threading.Barrier(2), []

    def step() -> None:
        meet.wait(LIMIT_S)
        done = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], check=True, capture_output=True)
        niceness.append(int(done.stdout))
    with steps.beside(step):
        meet.wait(LIMIT_S)
    assert niceness == [min(os.nice(0) + steps.BEHIND, 19)]


def test_the_failure_of_a_step_is_raised_when_the_block_has_ended():
    ran = []
    with pytest.raises(ui.LabError, match="the reason"):
        with steps.beside(fail):
            time.sleep(0.1)
            ran.append("block")
    assert ran == ["block"]
    ui.run("afterwards", ["true"], "x")


def test_a_failure_of_the_block_ends_the_step():
    with pytest.raises(ui.LabError, match="the reason"):
        with steps.beside(lambda: ui.run("endless", ["sleep", "600"], "x")):
            fail()
    ui.run("afterwards", ["true"], "x")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_step_and_the_block(tmp_path, number):
    notes = tmp_path / "build", tmp_path / "tests"
    with subprocess.Popen([sys.executable, "-B", "-c", INTERRUPTED, tmp_path], stdin=subprocess.DEVNULL, cwd=paths.ROOT,
                          env={**os.environ, "PYTHONPATH": str(paths.ROOT)}) as running:
        end = time.monotonic() + LIMIT_S
        while not all(note.exists() and note.read_text().endswith("\n") for note in notes):
            assert time.monotonic() < end
            time.sleep(0.01)
        running.send_signal(number)
        assert running.wait(LIMIT_S) != 0
    for note in notes:
        with pytest.raises(ProcessLookupError):
            os.kill(int(note.read_text()), 0)
