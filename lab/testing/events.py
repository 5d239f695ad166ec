# SPDX-License-Identifier: GPL-2.0-or-later
"""A plugin of pytest: writes the names of the tests that it will run, and each test that has ended with the seconds it
took, into the file that PIB_TEST_EVENTS names; lines of JSON."""

import collections
import json
import os

VARIABLE = "PIB_TEST_EVENTS"
_seconds: collections.Counter[str] = collections.Counter()


def _write(event: dict) -> None:
    with open(os.environ[VARIABLE], "a") as file:
        file.write(json.dumps(event) + "\n")


def pytest_collection_finish(session) -> None:
    _write({"tests": [item.nodeid for item in session.items]})


def pytest_runtest_logreport(report) -> None:
    _seconds[report.nodeid] += report.duration
    if report.when == "teardown":
        _write({"test": report.nodeid, "seconds": _seconds.pop(report.nodeid)})
