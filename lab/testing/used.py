# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of the device our driver and provider use in the guest tests of ./pib test all.

A point that they do not use needs a reason in tests/unused-by-the-driver.md; one without a reason is a failed test. A
share of used points below LEAST is a failed test, too."""

import fnmatch
import os
from collections.abc import Callable, Iterable

from lab.base import paths, ui
from lab.base.counts import Count, FAILURE
from lab.develop import coverage_points, driver_coverage
from lab.develop.coverage_points import Point
from lab.interface import description
from lab.testing import runners
from lab.testing.reasons import names

VARIABLE = "PIB_TEST_COVERAGE"  # file to which guest tests add the counts of their devices
FILE = "driver-coverage.json"
REASONS = "tests/unused-by-the-driver.md"
LEAST = 0.95                    # share of the points that must be used


def reasons() -> list[str]:
    """The points, and patterns of points, that have a reason."""
    return names((paths.ROOT / REASONS).read_text())


def without_reason(points: Iterable[Point], patterns: list[str]) -> list[Point]:
    """Points that were not used, do not stand for an error, and match no pattern."""
    return [point for point in points if not point.uses and not point.error
            and not any(fnmatch.fnmatchcase(point.title, pattern) for pattern in patterns)]


def check(points: list[Point]) -> Count:
    print(f"used of the device in the guest tests:\n{driver_coverage.text(points)}", flush=True)
    missing, share = without_reason(points, reasons()), driver_coverage.share(points)
    if share < LEAST:
        ui.say(f"the guest tests use {share:.1%} of the device, and have to use {LEAST:.0%}: write a test for a point "
               "that is not used")
    if not missing:
        return Count(passed=1) if share >= LEAST else FAILURE
    ui.say(f"the guest tests do not use {len(missing)} points that have no reason in {REASONS}: write a test, or give "
           "a reason")
    print("\n".join(f"  {point.title}" for point in missing), flush=True)
    return FAILURE


def checked(tests: Callable[[], Count]) -> Count:
    """Runs guest tests; prints and checks what they have used, unless the user has named a file for that."""
    if os.environ.get(VARIABLE):
        return tests()
    file = paths.RUN / FILE
    file.unlink(missing_ok=True)
    with runners.environment({VARIABLE: str(file)}):
        count = tests()
    if not file.exists():
        return count
    return count + check(coverage_points.points(description.interface(), driver_coverage.read(file)))
