# SPDX-License-Identifier: GPL-2.0-or-later
"""A pytest plugin: writes the names of the collected tests, and each finished test with its duration in seconds, as
lines of JSON to the file that PIB_TEST_EVENTS names."""

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
