# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints how much of the device our driver and provider have used in the guest tests of ./pib test all."""

import contextlib
import os
from collections.abc import Iterator

from lab import paths
from lab.develop import coverage_points, driver_coverage
from lab.interface import description
from lab.testing import runners

VARIABLE = "PIB_TEST_COVERAGE"  # file to which guest tests add the counts of their devices
FILE = "driver-coverage.json"


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Prints what guest tests during the block have used, unless the user has named a file for that."""
    if os.environ.get(VARIABLE):
        yield
        return
    file = paths.RUN / FILE
    file.unlink(missing_ok=True)
    with runners.environment({VARIABLE: str(file)}):
        yield
    if file.exists():
        points = coverage_points.points(description.interface(), driver_coverage.read(file))
        print(f"used of the device in the guest tests:\n{driver_coverage.text(points)}", flush=True)
