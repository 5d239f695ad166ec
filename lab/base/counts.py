# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts passed and failed tests in the reports of their runners.

A Catch2 program counts as many tests as it reports, any other program counts as one."""

import dataclasses
import json
import pathlib
import re
import xml.etree.ElementTree

CATCH2 = re.compile(r"^test cases: +(\d+) \|(.*)$|"
                    r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)$", re.MULTILINE)
SKIPPED = re.compile(r"^test cases: .*\b(\d+) skipped\b.*$", re.MULTILINE)
REASON = re.compile(r"SKIPPED:\nexplicitly with message:\n +(.*)$", re.MULTILINE)
NOTHING_TO_RUN = 5              # exit status of pytest without tests
ALL_SKIPPED = 4                 # exit status of a Catch2 program that has skipped all its tests


@dataclasses.dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.passed + other.passed, self.failed + other.failed)

    def with_status(self, bad: bool) -> "Count":
        """The count with the runner's status: a runner that fails without a failed test is one failure. bad: the runner
        has failed."""
        return Count(self.passed, 1) if bad and not self.failed else self


FAILURE = Count(failed=1)


def catch2(output: str) -> Count | None:
    """Counts from the last summary in a Catch2 program's output; None if it has none."""
    found = list(CATCH2.finditer(output))
    if not found:
        return None
    total, parts, all_passed = found[-1].groups()
    if all_passed:
        return Count(passed=int(all_passed))
    numbers = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", parts)}
    failed = numbers.get("failed", 0)
    return Count(numbers.get("passed", int(total) - failed - numbers.get("skipped", 0)), failed)


def _has_skipped_all(entry: dict) -> bool:
    """Whether a program has skipped all its tests, which meson takes for a failure."""
    return entry.get("returncode") == ALL_SKIPPED and SKIPPED.search(entry.get("stdout", "")) is not None


def program(entry: dict) -> Count:
    """Counts from one line of meson's testlog.json."""
    if entry["result"] in ("SKIP", "IGNORED") or _has_skipped_all(entry):
        return Count()
    passed = entry["result"] in ("OK", "EXPECTEDFAIL")
    count = catch2(entry.get("stdout", ""))
    if count is None:
        return Count(passed=int(passed), failed=int(not passed))
    return count.with_status(not passed)    # a program may fail after its last test, for example because of a leak


def meson(log: pathlib.Path, status: int) -> Count:
    """Counts from meson's testlog.json and exit status. A missing or unreadable log is a failure of meson."""
    try:
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        count = sum(map(program, entries), Count())
    except (OSError, ValueError, KeyError):
        return FAILURE
    return count.with_status(status != 0 and not any(map(_has_skipped_all, entries)))


def skipped(log: pathlib.Path) -> list[str]:
    """A line for each program in meson's testlog.json that passed but skipped test cases."""
    try:
        entries = [json.loads(line) for line in log.read_text().splitlines()]
    except (OSError, ValueError):
        return []
    return [f"{entry['name']}: {found[1]} test cases skipped: {'; '.join(sorted(set(REASON.findall(found.string))))}"
            for entry in entries if (found := SKIPPED.search(entry.get("stdout", "")))]


def junit(path: pathlib.Path, status: int) -> Count:
    """Counts from pytest's report and exit status. A missing or unreadable report is a failure of pytest."""
    try:
        count = sum((_suite(suite) for suite in xml.etree.ElementTree.parse(path).getroot().iter("testsuite")),
                    Count())
    except (OSError, xml.etree.ElementTree.ParseError, ValueError):
        return FAILURE
    return count.with_status(status not in (0, NOTHING_TO_RUN))


def _suite(suite: xml.etree.ElementTree.Element) -> Count:
    bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    total = int(suite.get("tests", 0)) - int(suite.get("skipped", 0))
    return Count(max(total - bad, 0), bad)
