# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of docs/fuzzing.md: sums over all recorded runs."""

import dataclasses
import pathlib
import re

from lab.base import paths, ui

FILE = paths.ROOT / "docs" / "fuzzing.md"
HEAD = "| target | executions | seconds | edges reached | edges in the program |\n|---|---|---|---|---|\n"
LINE = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
SUM = re.compile(r"^\| all \|.*\n", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table. edges: reached by all inputs at the end of the last run. all_edges: edges of the program."""
    executions: int
    seconds: int
    edges: int
    all_edges: int

    def plus(self, later: "Row") -> "Row":
        return Row(self.executions + later.executions, self.seconds + later.seconds, later.edges, later.all_edges)


def _number(pattern: str, output: str) -> int:
    found = re.findall(pattern, output)
    if not found:
        raise ui.LabError(f"libFuzzer's output has no {pattern}. Correct the pattern. The output:\n{output[-2000:]}")
    return int(found[-1])


def parse(output: str, seconds: int) -> Row:
    """The figures of a run, from libFuzzer's output."""
    return Row(_number(r"stat::number_of_executed_units:\s*(\d+)", output), seconds, _number(r"\bcov: (\d+)", output),
               sum(map(int, re.findall(r"Loaded \d+ modules\s+\((\d+) inline", output))))


def _numbers(match: re.Match) -> Row:
    return Row(*(int(match[group].replace(",", "")) for group in range(2, 6)))


def load(path: pathlib.Path = FILE) -> dict[str, Row]:
    return {match[1]: _numbers(match) for match in LINE.finditer(path.read_text())} if path.exists() else {}


def _table(rows: dict[str, Row]) -> str:
    lines = [f"| `{name}` | {row.executions:,} | {row.seconds:,} | {row.edges:,} | {row.all_edges:,} |"
             for name, row in sorted(rows.items())]
    executions, seconds = (sum(getattr(row, field) for row in rows.values()) for field in ("executions", "seconds"))
    return HEAD + "\n".join([*lines, f"| all | {executions:,} | {seconds:,} | | |"]) + "\n"


def add(name: str, row: Row, path: pathlib.Path = FILE) -> None:
    """Adds a run to the target's row."""
    rows = load(path)
    rows[name] = rows[name].plus(row) if name in rows else row
    text = SUM.sub("", LINE.sub("", path.read_text()))
    before, found, after = text.partition(HEAD)
    if not found:
        raise ui.LabError(f"{path}: the head of its table is missing. Add it:\n{HEAD}")
    path.write_text(before + _table(rows) + "\n" + after.lstrip("\n"))
