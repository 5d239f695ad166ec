# SPDX-License-Identifier: GPL-2.0-or-later
"""Passed and failed tests are counted in the reports of their runners."""

import json
import xml.sax.saxutils

import pytest

from lab.base import counts
from lab.base.counts import Count


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
