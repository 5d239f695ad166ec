# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of ./pib bench: medians over the rounds, next to the comparators' medians, as JSON and as a table."""

import dataclasses
import json
import pathlib
import statistics

from lab.base import ui

VERSION = 1
MORE, LESS = "more is better", "less is better"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A quantity that is measured. key: its name in files."""
    key: str
    title: str
    unit: str
    better: str                 # MORE or LESS


@dataclasses.dataclass
class Figure:
    """The values of one quantity: one per round, for the device and for each comparator."""
    kind: Kind
    samples: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def add(self, what: str, value: float) -> None:
        self.samples.setdefault(what, []).append(value)

    def median(self, what: str) -> float | None:
        return statistics.median(self.samples[what]) if self.samples.get(what) else None

    def times_better(self, what: str, than: str) -> float | None:
        """The factor by which the first median is better than the second; None if there is none: a difference of two
        measurements may be 0 or negative."""
        ours, theirs = self.median(what) or 0, self.median(than) or 0
        if ours <= 0 or theirs <= 0:
            return None
        return ours / theirs if self.kind.better == MORE else theirs / ours


@dataclasses.dataclass
class Results:
    """The figures of one run. machine: description of the host; notes: remarks on the measurement."""
    machine: dict[str, str]
    rounds: int
    figures: list[Figure] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def figure(self, kind: Kind) -> Figure:
        """The figure of this kind; a new one if it does not exist yet."""
        for figure in self.figures:
            if figure.kind.key == kind.key:
                return figure
        self.figures.append(Figure(kind))
        return self.figures[-1]

    def subjects(self) -> list[str]:
        """All subjects and comparators, in the order of their first measurement."""
        return list(dict.fromkeys(what for figure in self.figures for what in figure.samples))


def to_json(results: Results) -> str:
    figures = [{**dataclasses.asdict(figure.kind), "samples": figure.samples,
                "median": {what: figure.median(what) for what in figure.samples}}
               for figure in results.figures]
    return json.dumps({"version": VERSION, "machine": results.machine, "rounds": results.rounds,
                       "notes": results.notes, "figures": figures}, indent=1) + "\n"


def from_json(text: str) -> Results:
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise ui.LabError(f"results of version {data['version']}, expected {VERSION}. Measure again:  ./pib bench")
        fields = [field.name for field in dataclasses.fields(Kind)]
        return Results(data["machine"], data["rounds"],
                       [Figure(Kind(**{name: figure[name] for name in fields}), figure["samples"])
                        for figure in data["figures"]], data["notes"])
    except (ValueError, KeyError, TypeError) as error:
        raise ui.LabError(f"these are not the results of ./pib bench: {error!r}. Name a file of  ./pib bench --output"
                          ) from error


def load(path: pathlib.Path) -> Results:
    try:
        return from_json(path.read_text())
    except OSError as error:
        raise ui.LabError(f"{path}: {error.strerror}. Name a file with results of ./pib bench") from error


def number(value: float | None) -> str:
    """A number with three significant digits: 1234, 56.7, 0.0123; "-" for None."""
    if value is None:
        return "-"
    if abs(value) >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _beside(figure: Figure, subject: str, other: str) -> str:
    """A comparator's median, and the subject's advantage if both were measured."""
    factor = figure.times_better(subject, other)
    return number(figure.median(other)) + ("" if factor is None else f" ({number(factor)}×)")


def rows(results: Results, subject: str) -> list[list[str]]:
    """The table: one row per figure, with title, median and range of the subject, then each comparator."""
    others = [what for what in results.subjects() if what != subject]
    out = []
    for figure in results.figures:
        seen = figure.samples.get(subject)
        out.append([f"{figure.kind.title}, {figure.kind.unit}", number(figure.median(subject)),
                    f"{number(min(seen))} … {number(max(seen))}" if seen else "-",
                    *(_beside(figure, subject, other) for other in others)])
    return out


def heading(results: Results, subject: str) -> list[str]:
    return ["figure", subject, "range",
            *(what for what in results.subjects() if what != subject)]
