# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of ./pib test, and its end at an interrupt."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from lab.base import paths
from lab.base.counts import Count
from lab.build import host_build
from lab.testing import events, runners
from lab.testing.progress import History, Progress


def test_results_of_an_earlier_run_are_not_counted(monkeypatch, tmp_path):
    """meson ends before it replaces the results that an earlier run has left."""
    old = tmp_path / "meson-logs" / "testlog.json"
    old.parent.mkdir()
    old.write_text('{"result": "OK", "stdout": ""}\n')
    meson = tmp_path / "bin" / "meson"
    meson.parent.mkdir()
    meson.write_text("#!/bin/sh\nexit 1\n")
    meson.chmod(0o755)
    monkeypatch.setenv("PATH", f"{meson.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(host_build, "build", lambda directory: directory)
    progress = Progress([tmp_path.name], History(tmp_path / "seconds"))
    assert runners.meson(progress, tmp_path) == Count(0, 1)


def test_a_stage_holds_its_lock_while_its_tests_run(monkeypatch, tmp_path):
    """Two runs would write the same files: the report, and the names of the tests that have ended."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_lock.py").write_text(f"""import subprocess
def test_lock():
    assert subprocess.run(["flock", "--nonblock", {str(tmp_path / 'stage.lock')!r}, "true"]).returncode
""")
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    progress = Progress(["stage"], History(tmp_path / "seconds"))
    assert runners.pytest(progress, str(tmp_path / "tests"), name="stage") == Count(1, 0)


# A fixture that takes its time to end what it has started, as one with booted guests does.
FIXTURE = """
import pathlib, time
import pytest
HERE = pathlib.Path(__file__).parent
@pytest.fixture
def guests():
    yield
    (HERE / "ending").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    (HERE / "ended").touch()
def test_for_ever(guests):
    (HERE / "running").touch()
    while True:
        time.sleep(0.01)
"""
RUN_PYTEST = """
import pathlib, sys
from lab.base import paths
from lab.testing import progress, runners
paths.RUN = pathlib.Path(sys.argv[1])
history = progress.History(paths.RUN / "seconds")
runners.pytest(progress.Progress([sys.argv[1]], history), sys.argv[1])
"""


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def command(script, *arguments):
    """Runs a Python program that imports the lab, as ./pib does, during the block."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    running = subprocess.Popen([sys.executable, "-B", "-c", script, *map(str, arguments)], stdin=subprocess.DEVNULL,
                               cwd=paths.ROOT, env=env | {"PYTHONPATH": str(paths.ROOT)})
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_waits_for_the_fixtures_of_the_tests(tmp_path, number):
    (tmp_path / "test_it.py").write_text(FIXTURE)
    with command(RUN_PYTEST, tmp_path) as running:
        wait_for((tmp_path / "running").exists)
        running.send_signal(number)
        wait_for((tmp_path / "ending").exists)
        running.send_signal(number)             # is not passed on, because it would interrupt the fixture
        time.sleep(0.5)                         # more than subprocess.run() waits for a child that it interrupts
        assert running.poll() is None
        (tmp_path / "go").touch()
        assert running.wait(120) != 0
        assert (tmp_path / "ended").exists()


def test_shares_run_in_parallel_and_are_counted_together(tmp_path, monkeypatch, capfd):
    """A test of one share waits for a test of the other."""
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "test_it.py").write_text("""
import pathlib, time
import pytest
HERE = pathlib.Path(__file__).parent
@pytest.mark.parametrize("mine, other", [("one", "two"), ("two", "one")])
def test_meets(mine, other):
    (HERE / mine).touch()
    while not (HERE / other).exists():
        time.sleep(0.01)
def test_fails_one():
    assert False
""")
    history = History(tmp_path / "seconds")
    count = runners.pytest(Progress(["both"], history), str(tmp_path), name="both",
                           shares={"1": ("-k", "one-two or fails"), "2": ("-k", "two-one")})
    assert count == Count(2, 1)
    assert len(History(history.file).seconds) == 3
    assert "test_meets[one-two] PASSED" in capfd.readouterr().out


def test_skipped_tests_of_pytest_are_named_with_their_reasons(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.skipif(True, reason='wants libvirtd')\n"
                                         "def test_domain(): pass\ndef test_other(): assert False\n")
    assert runners.pytest(Progress(["x"], History(tmp_path / "seconds")), str(tmp_path), name="x") == Count(0, 1)
    said = capfd.readouterr().out
    assert re.search(r"^SKIPPED \[1\] .*: wants libvirtd$", said, re.MULTILINE), said
    assert re.search(r"^FAILED .*test_other", said, re.MULTILINE), said


RUN_NESTED = """
import pathlib, sys
from lab.guests import nested
nested._initramfs = lambda base, argv, archive: archive
nested._qemu = lambda base, archive: ["sh", "-c", "echo $$ >$0; exec sleep 1000", sys.argv[1]]
nested.run(pathlib.Path("base"), [])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_emulated_host(tmp_path, number):
    file = tmp_path / "pid"
    with command(RUN_NESTED, file) as running:
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        running.send_signal(number)
        assert running.wait(120) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


@pytest.mark.parametrize("folder, words", [("lab", []), ("style", []), ("driver", []), ("qemu", []),
                                           ("guest", ["--nightly"])])
def test_every_file_of_tests_is_collected(folder, words, tmp_path):
    """pytest passes over some names of folders, in silence."""
    there = {str(file.relative_to(paths.ROOT)) for file in (paths.ROOT / "tests" / folder).rglob("test_*.py")}
    file = tmp_path / "events"
    done = subprocess.run([*runners.PYTEST, "--collect-only", f"tests/{folder}", *words], cwd=paths.ROOT,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(paths.ROOT), events.VARIABLE: str(file)})
    assert done.returncode == 0, done.stdout + done.stderr
    found = {name.partition("::")[0] for name in json.loads(file.read_text().splitlines()[0])["tests"]}
    assert there and there == found


def test_the_tests_in_clean_trees_come_last(tmp_path):
    """These tests take as long as the others of their folder together."""
    file, folder = tmp_path / "events", paths.ROOT / "tests" / "lab"
    subprocess.run([*runners.PYTEST, "--collect-only", folder / "build" / "test_clean_trees.py",
                    folder / "base" / "test_paths.py"], cwd=paths.ROOT, capture_output=True, check=True,
                   env={**os.environ, "PYTHONPATH": str(paths.ROOT), events.VARIABLE: str(file)})
    names = [name.partition("::")[0] for name in json.loads(file.read_text().splitlines()[0])["tests"]]
    assert names[0].endswith("/test_paths.py") and names[-1].endswith("/test_clean_trees.py")
