# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of ./pib test, and its end at an interrupt."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.sax.saxutils

import pytest

from lab import paths
from lab.build import host_build
from lab.testing import counts, events, runners
from lab.testing.counts import Count
from lab.testing.progress import History, Progress


@pytest.mark.parametrize("text, expected", [
    ("All tests passed (45 assertions in 12 test cases)\n", Count(12, 0)),
    ("All tests passed (1 assertion in 1 test case)\n", Count(1, 0)),
    ("test cases:  12 |  11 passed | 1 failed\nassertions: 45 | 44 passed | 1 failed\n",
     Count(11, 1)),
    ("test cases: 3 | 3 failed\nassertions: 3 | 3 failed\n", Count(0, 3)),
    ("hello\n", None),
])
def test_results_of_catch2_are_counted(text, expected):
    assert counts.catch2(text) == expected


@pytest.mark.parametrize("entry, expected", [
    ({"result": "OK", "stdout": ""}, Count(1, 0)),
    ({"result": "FAIL", "stdout": ""}, Count(0, 1)),
    ({"result": "SKIP", "stdout": ""}, Count(0, 0)),
    ({"result": "FAIL", "stdout": "All tests passed (2 assertions in 2 test cases)\n"},
     Count(2, 1)),
])
def test_results_of_a_program_are_counted(entry, expected):
    assert counts.program(entry) == expected


def test_skipped_cases_are_named_with_their_reasons(tmp_path):
    log = tmp_path / "testlog.json"
    assert not counts.skipped(log)
    output = ("a.cc:1: SKIPPED:\nexplicitly with message:\n  tshark is missing\n\n"
              "a.cc:9: SKIPPED:\nexplicitly with message:\n  tshark is missing\n\n"
              "test cases:  42 |  40 passed | 2 skipped\nassertions: 855 | 855 passed |  0 skipped\n")
    entries = [{"name": "pcap", "result": "OK", "stdout": output},
               {"name": "ib", "result": "OK", "stdout": "All tests passed (1 assertion in 1 test case)\n"},
               {"name": "style", "result": "OK"}]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert counts.skipped(log) == ["pcap: 2 test cases skipped: tshark is missing"]


def test_results_of_junit_files_are_counted(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/>'
                      "</testsuites>")
    assert counts.junit(report, 0) == Count(3, 3)
    report.write_text("<testsuites>" + xml.sax.saxutils.escape("<cut"))
    assert counts.junit(report, 0).failed == 1


def test_a_runner_that_ends_badly_without_a_failed_test_is_a_failure(tmp_path):
    report, log = tmp_path / "report.xml", tmp_path / "testlog.json"
    report.write_text('<testsuites><testsuite tests="9" failures="0" errors="0" skipped="0"/></testsuites>')
    log.write_text('{"result": "OK", "stdout": ""}\n')
    assert counts.junit(report, 3) == counts.meson(log, 2) + Count(8, 0)
    assert counts.meson(log, 2) == Count(1, 1)
    log.write_text('{"result": "FAIL", "stdout": ""}\n')
    assert counts.meson(log, 1) == Count(0, 1)
    log.write_text('{"result": "OK", "std')
    assert counts.meson(log, 0) == counts.meson(tmp_path / "none", 0) == Count(0, 1)


def test_a_program_that_skips_all_its_tests_is_not_a_failure(tmp_path):
    """The exit status of a Catch2 program is then 4, which meson takes for a failure."""
    log = tmp_path / "testlog.json"
    skipped = {"name": "seccomp", "result": "FAIL", "returncode": 4, "stdout": "test cases: 3 | 3 skipped\n"}
    log.write_text(json.dumps(skipped) + '\n{"result": "OK", "stdout": ""}\n')
    assert counts.meson(log, 1) == Count(1, 0)
    assert counts.skipped(log) == ["seccomp: 3 test cases skipped: "]
    log.write_text(json.dumps(skipped | {"stdout": "test cases: 3 | 1 failed | 2 skipped\n", "returncode": 1}) + "\n")
    assert counts.meson(log, 1) == Count(0, 1)


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
from lab import paths
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
                    folder / "test_paths.py"], cwd=paths.ROOT, capture_output=True, check=True,
                   env={**os.environ, "PYTHONPATH": str(paths.ROOT), events.VARIABLE: str(file)})
    names = [name.partition("::")[0] for name in json.loads(file.read_text().splitlines()[0])["tests"]]
    assert names[0].endswith("/test_paths.py") and names[-1].endswith("/test_clean_trees.py")
