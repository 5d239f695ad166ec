# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the tables of a manual in Markdown."""

from collections.abc import Iterator


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _add_row(rows: list[list[str]], row: list[str]) -> None:
    """Adds a row. A row with an empty first cell continues the row above."""
    if row[0] or len(rows) < 3:
        rows.append(row)
    else:
        rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], row)]


def tables(text: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yields (text between the previous table and this one, header cells, rows) for each table."""
    before: list[str] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            _add_row(rows, cells(line))
            continue
        if rows:
            yield "\n".join(before), rows[0], rows[2:]
            before, rows = [], []
        before.append(line)
