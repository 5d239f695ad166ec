# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of unit tests on an emulated Arm machine are read from its console; a tree takes packages of two
architectures."""

import pathlib
import shlex
import subprocess

import pytest

from lab.arm import host, machine, tree
from lab.build import debian
from lab.testing.counts import FAILURE, Count

GOOD = """[    0.1] a word of the kernel\r
lab: pages of 64 kB\r
lab: begin link-endpoint\r
All tests passed (10 assertions in 2 test cases)\r
lab: end link-endpoint 0\r
lab: begin copier\r
test cases: 3 | 2 passed | 1 failed\r
lab: end copier 1\r
"""


def test_results_are_those_of_catch2():
    assert machine.parse(GOOD, ["link-endpoint", "copier"], 64) == Count(4, 1)


def test_a_machine_that_ends_early_fails_its_unfinished_tests():
    assert machine.parse(GOOD[:GOOD.index("lab: end copier")], ["link-endpoint", "copier", "other"], 64) == Count(2, 2)


@pytest.mark.parametrize("console", ["", GOOD])
def test_pages_of_another_size_are_a_failure(console):
    assert machine.parse(console, ["link-endpoint"], 16) == FAILURE


def test_a_program_that_ends_badly_after_its_tests_has_failed():
    console = GOOD.replace("lab: end link-endpoint 0", "lab: end link-endpoint 139")
    assert machine.parse(console, ["link-endpoint"], 64) == Count(2, 1)


def test_a_program_that_skips_all_its_tests_is_not_counted():
    console = "lab: pages of 64 kB\nlab: begin capture\ntest cases: 1 | 1 skipped\nlab: end capture 4\n"
    assert machine.parse(console, ["capture"], 64) == Count()


def test_a_tests_environment_is_passed_to_the_machine(tmp_path, monkeypatch):
    tools = Tools(tmp_path)
    (tools.work / "topologies").mkdir(parents=True)
    (tools.work / "topologies" / "one").write_text("a file")
    (tools.work / "program").touch()
    packed = []
    monkeypatch.setattr(machine.initramfs, "cpio", lambda stage, _archive: packed.extend(stage.rglob("*")))
    test = {"name": "t", "cmd": [f"{tools.inside}/program"], "env": {"A": f"{tools.inside}/topologies", "B": "word"}}
    machine._initramfs(tools, [test], tmp_path / "archive")
    stage = tools.work / "boot"
    assert stage / "work" / "x" / "topologies" / "one" in packed and stage / "init" in packed
    assert f"set -- {tools.inside}/program\n" in tools.ran[0]


@pytest.mark.parametrize("status, log, count", [
    (0, '{"result": "OK", "stdout": "All tests passed (2 assertions in 2 test cases)"}', Count(passed=2)),
    (1, '{"result": "OK", "stdout": "All tests passed (2 assertions in 2 test cases)"}', Count(2, 1)),
    (0, None, FAILURE)])
def test_emulated_tests_count_by_mesons_log_and_status(tmp_path, status, log, count):
    def run(_title, script, _log):
        tools.ran.append(script)
        (tools.work / "arm" / "status").write_text(f"{status}\n")
        if log:
            (tools.work / "arm" / "build" / "meson-logs" / "testlog.json").write_text(log + "\n")
    tools = Tools(tmp_path)
    tools.sh = run
    (tools.work / "arm" / "build" / "meson-logs").mkdir(parents=True)
    tests = [{"name": "copier", "env": {}},
             {"name": "fabric", "env": {"PIB_SWITCH": f"{tools.inside}/arm/build/fabric-switch/pib-switch"}}]
    assert host.test_emulated(tools, tests) == count
    assert " copier " in tools.ran[0] and "fabric" not in tools.ran[0]


class Tools:
    """A builder that notes scripts in place of running them."""
    inside = "/work/x"

    def __init__(self, tree_: pathlib.Path):
        self.tree, self.work, self.ran = tree_, tree_ / "work" / "x", []

    def sh(self, _title, script, _log):
        self.ran.append(script)
        (self.work / "boot").mkdir()


def test_tests_run_with_mesons_environment_and_their_status_is_reported(tmp_path):
    program = tmp_path / "a program"
    program.write_text("#!/bin/sh\necho $VALUE $1\nexit 3\n")
    program.chmod(0o755)
    test = {"name": "a test", "cmd": [str(program), "x"], "env": {"VALUE": "two words"}}
    script = machine._script([test])
    said = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True).stdout
    assert said == "lab: begin a-test\ntwo words x\nlab: end a-test 3\n"
    assert shlex.split(script)                      # quotes are closed


def test_an_archive_has_packages_of_the_wanted_architectures(tmp_path):
    debian.Archive(tmp_path / "two", [], ("deb",), tree.ARCHITECTURES)
    assert 'APT::Architectures { "amd64"; "arm64"; };' in (tmp_path / "two" / "apt.conf").read_text()
    debian.Archive(tmp_path / "own", [])
    assert "Architectures" not in (tmp_path / "own" / "apt.conf").read_text()
