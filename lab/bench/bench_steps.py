# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs measurements in sequence: prints a line at the start of each, and continues after a failed one."""

import dataclasses
import traceback
from typing import Callable, Iterable

from lab.base import ui
from lab.bench import bench_figures


@dataclasses.dataclass(frozen=True)
class Step:
    """One measurement. title: shown while it runs."""
    title: str
    take: Callable[[], None]


def note_failure(results: bench_figures.Results, what: str, error: BaseException) -> None:
    """Adds a note about a measurement that failed, for example because a command in a guest failed."""
    said = str(error) or repr(error)
    if not isinstance(error, ui.LabError):      # a LabError's text is a whole sentence
        said += "\n" + "".join(traceback.format_exception(error))
    results.notes.append(f"{what}: failed: {said.splitlines()[0]}")
    ui.say(f"  {what} failed:\n{said}")


def take_all(results: bench_figures.Results, name: str, steps: Iterable[Step],
             mend: Callable[[], None] = lambda: None) -> None:
    """Runs all steps. name: that of their group. mend: cleans up after a failed step."""
    def failed(what: str, error: Exception) -> None:
        note_failure(results, what, error)
        mend()

    try:
        for step in steps:
            ui.say(f"  {name}: {step.title}")
            try:
                step.take()
            except Exception as error:  # pylint: disable=broad-exception-caught
                failed(f"{name}, {step.title}", error)
    except Exception as error:  # raised between two steps; pylint: disable=broad-exception-caught
        failed(name, error)
