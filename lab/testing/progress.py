# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows the tests' progress and the remaining time, estimated from the durations of the last run or, for stages that
have not run here, from their usual durations."""

import contextlib
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable

from lab.base import paths
from lab.base.counts import Count
from lab.testing import usual

SHOW_S = 30                     # interval between two progress lines
FILE = "test-seconds.json"


class History:
    """Durations in seconds of tests and stages in the last run, by name. All checkouts share the file in the cache."""

    def __init__(self, file: pathlib.Path | None = None):
        self.file = file or paths.cache() / FILE
        self.seconds = self._load()

    def of_stage(self, name: str) -> float | None:
        """Duration of a whole stage; None if it is unknown."""
        return self.seconds.get(name, usual.SECONDS.get(name))

    def _load(self) -> dict[str, float]:
        try:
            return {str(name): float(seconds) for name, seconds in json.loads(self.file.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def save(self, new: dict[str, float]) -> None:
        """Keeps these durations, if the cache can be written."""
        self.seconds = self._load() | {name: round(seconds, 2) for name, seconds in new.items()}
        with contextlib.suppress(OSError):
            self._write()

    def _write(self) -> None:
        """Replaces the file atomically, because another checkout may read or save it at the same time."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=self.file.parent, prefix=FILE)
        try:
            with os.fdopen(number, "w") as file:
                json.dump(self.seconds, file)
            os.replace(name, self.file)
        except OSError:
            os.unlink(name)
            raise


class Stage:
    """The tests of one runner, in one or several parallel shares. Their names are known after the runner has collected
    them; some runners only count."""

    def __init__(self, name: str, history: History, whole: bool = True):
        """history: earlier durations. whole: the stage runs all of its tests, so its duration is kept."""
        self.name, self.history, self.whole = name, history, whole
        self.began = time.monotonic()
        self.left: dict[str, list[str]] = {}    # names of the remaining tests, by share
        self.took: dict[str, float] = {}
        self.done = self.total = 0

    def plan(self, share: str, tests: list[str]) -> None:
        self.left[share] = list(tests)
        self.total += len(tests)

    def finish(self, share: str, test: str, seconds: float) -> None:
        self.left[share].remove(test)
        self.took[self._key(test)] = seconds
        self.done += 1

    def count(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def end(self, count: Count) -> None:
        if self.whole and not count.failed:
            self.took[self.name] = time.monotonic() - self.began
        self.history.save(self.took)

    def _key(self, test: str) -> str:
        return f"{self.name} {test}"

    def left_s(self) -> float | None:
        """Remaining time of the slowest share, or else of the stage; None if it is unknown."""
        shares = _total((self._share_s(tests) for tests in self.left.values() if tests), max) if self.left else None
        before = self.history.of_stage(self.name)
        if shares is not None or before is None or self.left and not self.whole:
            return shares
        return max(before - (time.monotonic() - self.began), 0)

    def _share_s(self, tests: list[str]) -> float | None:
        """Remaining time of a share with these tests. A new test counts as the mean of the known tests."""
        known = [self.history.seconds[key] for test in tests if (key := self._key(test)) in self.history.seconds]
        return sum(known) * len(tests) / len(known) if known else None


class Progress:
    """Progress of all stages of a command."""

    def __init__(self, stages: list[str], history: History | None = None, whole: bool = True):
        self.history, self.whole, self.coming = history or History(), whole, list(stages)
        self.began = self.shown = time.monotonic()

    def begin(self, name: str) -> Stage:
        """Begins a stage. name: the next stage, or a later one if the stages before it have nothing to run."""
        self.coming = self.coming[self.coming.index(name) + 1:]
        return Stage(name, self.history, self.whole)

    def show(self, stage: Stage) -> None:
        """Prints a progress line, unless the last one was printed within SHOW_S."""
        if time.monotonic() - self.shown >= SHOW_S:
            self.shown = time.monotonic()
            print(self.line(stage), flush=True)

    def line(self, stage: Stage) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        left = _total([stage.left_s(), *map(self.history.of_stage, self.coming)], sum)
        text = f"[{minutes}m{seconds:02}s] {stage.name} {stage.done}/{stage.total}"
        return text if left is None else f"{text}, about {_minutes(left)} left"


def _total(parts: Iterable[float | None], combine: Callable[[list[float]], float]) -> float | None:
    """Combines remaining times, for example by sum(); None if one of them is unknown."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return combine([0, *known]) if len(known) == len(found) else None


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else "a minute"
