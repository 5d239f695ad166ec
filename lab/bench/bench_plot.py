# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of ./pib bench as an SVG image: bars for each figure, as multiples of one comparator."""

import math
import xml.sax.saxutils

from lab.bench import bench_figures

BAR, GAP, LEFT, WIDTH, TOP = 14, 16, 250, 520, 48
COLOURS = ("#2a6f97", "#c9732b", "#6b8e4e", "#8a5a83", "#7a7a7a", "#b8a13a")


def text(x: float, y: float, words: str, size: int = 12, anchor: str = "start") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
            f"{xml.sax.saxutils.escape(words)}</text>")


def _bars(figure: bench_figures.Figure, against: str, subjects: list[str]) -> list[tuple]:
    """(subject, its advantage over the comparator)."""
    return [(what, factor) for what in subjects
            if (factor := figure.times_better(what, against)) is not None]


def svg(results: bench_figures.Results, against: str) -> str:
    """Draws the bars on a logarithmic scale between the powers of ten that enclose all factors and 1."""
    subjects = results.subjects()
    groups = [(figure, bars) for figure in results.figures
              if len(bars := _bars(figure, against, subjects)) > 1]
    factors = [factor for _, bars in groups for _, factor in bars] or [1.0]
    low = math.floor(math.log10(min(*factors, 1.0)))
    high = max(math.ceil(math.log10(max(factors))), low + 1)

    def place(factor: float) -> float:
        return LEFT + WIDTH * (math.log10(factor) - low) / (high - low)

    parts, y = [], TOP
    for figure, bars in groups:
        parts.append(text(LEFT - 8, y + BAR * len(bars) / 2 + 4, figure.kind.title,
                           anchor="end"))
        for what, factor in bars:
            colour = COLOURS[subjects.index(what) % len(COLOURS)]
            start, end = sorted((place(1.0), place(factor)))
            parts.append(f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" '
                         f'height="{BAR - 2}" fill="{colour}"/>')
            label = f"{what} {bench_figures.number(figure.median(what))} {figure.kind.unit}"
            parts.append(text(end + 4, y + BAR - 4, label, 10))
            y += BAR
        y += GAP
    grid = [f'<line x1="{place(10 ** n):.1f}" y1="{TOP - 8}" x2="{place(10 ** n):.1f}" y2="{y}" '
            f'stroke="#ccc"/>' + text(place(10 ** n), TOP - 14, f"{10 ** n:g}×", 10, "middle")
            for n in range(low, high + 1)]
    title = f"times better than {against} · {results.machine.get('commit', '')}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 170}" '
            f'height="{y + 10}" font-family="sans-serif">\n'
            + "\n".join([text(LEFT, 18, title, 14), *grid, *parts]) + "\n</svg>\n")
