# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs meson's tests and pytest's tests, and returns their counts."""

import contextlib
import json
import os
import pathlib
import re
import signal
import threading
from collections.abc import Iterator

from lab.base import child, counts, lock, paths, ui
from lab.build import host_build
from lab.testing import events
from lab.testing.progress import Progress, Stage

SANITIZER_ENV = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                 "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
MESON_TEST = re.compile(r" *(\d+)/(\d+) ")
# Folders without tests. By default pytest also skips folders that are named build; the tests have such a folder.
NO_TESTS = ".* __pycache__"
# pytest prints no header and no percentages, which would be about one share only: the lab prints its own progress. -r
# makes pytest list skipped tests with reasons at the end.
PYTEST = ("/usr/bin/python3", "-B", "-m", "pytest", "-v", "-rfEs", "--no-header", "-p", "no:cacheprovider",
          "-p", events.__name__, "-o", "console_output_style=classic", "-o", f"norecursedirs={NO_TESTS}",
          f"--rootdir={paths.ROOT}")


def meson(progress: Progress, build: pathlib.Path = host_build.SANITIZED, names: tuple[str, ...] = ()) -> counts.Count:
    """Builds and runs meson's tests. names: those of the tests; empty: all."""
    directory = host_build.build(build)
    stage = progress.begin(build.name)

    def show(line: str) -> None:
        print(line, flush=True)
        if test := MESON_TEST.match(line):
            stage.count(int(test[1]), int(test[2]))
            progress.show(stage)

    # SIGTERM, because after SIGINT meson ends only the longest running test, and continues.
    program = child.Program(
        ["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "4", *names],
        env={**os.environ, **SANITIZER_ENV}, stop=signal.SIGTERM, show=show)
    ui.say("running the unit tests")
    with _alone(f"{build.name} tests"):
        count = _meson(directory / "meson-logs" / "testlog.json", program)
    stage.end(count)
    return count


def _meson(log: pathlib.Path, program: child.Program) -> counts.Count:
    log.unlink(missing_ok=True)
    status, = child.run(program)
    for line in counts.skipped(log):
        ui.say(line)
    return counts.meson(log, status)


@contextlib.contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Sets environment variables during the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "-", name.strip())


def _alone(name: str) -> contextlib.AbstractContextManager[None]:
    """Lock for one run at a time of a stage in this checkout, because the files of its results have the stage's
    name."""
    return lock.held(paths.RUN / f"{_file_name(name)}.lock")


class _Share:
    """One pytest process of a stage. options: select the tests of this share."""
    printing = threading.Lock()

    def __init__(self, name: str, options: tuple[str, ...], stage: Stage, progress: Progress):
        self.name, self.options, self.stage, self.progress = name, options, stage, progress
        file = _file_name(f"{stage.name} {name}")
        self.report, self.events = paths.RUN / f"{file}.xml", paths.RUN / f"{file}.events"
        self.read = 0
        self.report.unlink(missing_ok=True)
        self.events.write_text("")

    def program(self, folder: str) -> child.Program:
        return child.Program([*PYTEST, f"--junitxml={self.report}", *self.options, paths.ROOT / folder],
                             env={**os.environ, "PYTHONPATH": str(paths.ROOT), events.VARIABLE: str(self.events)},
                             show=self._show)

    def _show(self, line: str) -> None:
        with self.printing:
            print(line, flush=True)
            for event in self._new_events():
                if "tests" in event:
                    self.stage.plan(self.name, event["tests"])
                else:
                    self.stage.finish(self.name, event["test"], event["seconds"])
            self.progress.show(self.stage)

    def _new_events(self) -> list[dict]:
        with open(self.events) as file:
            file.seek(self.read)
            lines = [line for line in file.readlines() if line.endswith("\n")]
        self.read += sum(map(len, lines))
        return [json.loads(line) for line in lines]


def pytest(progress: Progress, folder: str, *options: str, name: str | None = None,
           shares: dict[str, tuple[str, ...]] | None = None) -> counts.Count:
    """Runs pytest in a folder. name: that of the stage, by default the folder's. shares: options of each parallel
    pytest, by name; None: one pytest runs all tests."""
    stage = progress.begin(name or folder)
    ui.say(f"running {stage.name}")
    with _alone(stage.name):
        running = [_Share(share, (*options, *more), stage, progress) for share, more in (shares or {"": ()}).items()]
        statuses = child.run(*(share.program(folder) for share in running))
        count = sum((counts.junit(share.report, status) for share, status in zip(running, statuses)), counts.Count())
    stage.end(count)
    return count
