# SPDX-License-Identifier: GPL-2.0-or-later
"""Meson's tests and pytest's, each from its start to its count."""

import os
import pathlib
import signal

from lab import child, paths, ui
from lab.build import host_build
from lab.testing import counts

SANITIZER_ENV = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                 "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}


def meson(build: pathlib.Path = host_build.SANITIZED, names: tuple[str, ...] = ()) -> counts.Count:
    """names: of tests, without any for all."""
    directory = host_build.build(build)
    log = directory / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    ui.say("running the unit tests")
    # At SIGINT meson ends the test that takes longest, and goes on.
    status, = child.run(child.Program(
        ["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "4", *names],
        env={**os.environ, **SANITIZER_ENV}, stop=signal.SIGTERM))
    return counts.meson(log, status)


def pytest(folder: str, *options: str) -> counts.Count:
    report = paths.RUN / f"{folder.replace('/', '-')}.xml"
    report.unlink(missing_ok=True)
    ui.say(f"running {folder}")
    # No summary of its own: the one line that counts is ours.
    status, = child.run(child.Program(
        ["/usr/bin/python3", "-B", "-m", "pytest", "-v", "--no-header", "-p", "no:cacheprovider",
         f"--rootdir={paths.ROOT}", f"--junitxml={report}", *options, paths.ROOT / folder],
        env={**os.environ, "PYTHONPATH": str(paths.ROOT), "PYTHONUNBUFFERED": "1"}))
    return counts.junit(report, status)
