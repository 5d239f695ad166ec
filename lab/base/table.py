# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain text tables."""


def table(heading: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    def line(cells: list[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
    return "\n".join([line(heading), line(["-" * width for width in widths]), *map(line, rows)])
