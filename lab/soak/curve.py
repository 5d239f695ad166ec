# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of ./pib soak as an SVG image: a diagram for each kind of value, with a line for each process or guest."""

from lab.bench.bench_plot import COLOURS, text
from lab.soak import rule
from lab.soak.samples import QUIET, Sample, columns

LEFT, WIDTH, HEIGHT, GAP, TOP = 90, 640, 120, 46, 40


def _scale(values: list[float]) -> tuple[float, float]:
    """Ends of an axis for these values. A constant line is in the middle."""
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or max(abs(high) * 0.05, 1.0)
    return low - room, high + room


def _diagram(kind: str, names: list[str], samples: list[Sample], top: float) -> list[str]:
    seen = [sample.values[name] for sample in samples for name in names if name in sample.values]
    low, high = _scale(seen)
    last = samples[-1].seconds or 1.0
    parts = [f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#ccc"/>',
             text(LEFT - 8, top + 10, f"{high:.6g}", 10, "end"), text(LEFT - 8, top + HEIGHT, f"{low:.6g}", 10, "end"),
             text(LEFT, top - 6, kind + (" (KiB)" if kind == "memory" else ""))]
    for number, name in enumerate(names):
        points = [(LEFT + WIDTH * sample.seconds / last,
                   top + HEIGHT * (high - sample.values[name]) / (high - low), sample.phase)
                  for sample in samples if name in sample.values]
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-opacity="0.4"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>'
                  for x, y, phase in points if phase == QUIET]
        parts.append(f'<rect x="{LEFT + WIDTH + 10}" y="{top + 14 * number}" width="10" height="10" fill="{colour}"/>')
        parts.append(text(LEFT + WIDTH + 26, top + 14 * number + 9, name.partition(" ")[2], 10))
    return parts


def svg(samples: list[Sample], title: str) -> str:
    """The image. Dots mark quiet samples, on which the verdict is based."""
    names = columns(samples)
    parts, top = [text(LEFT, 18, title, 14)], float(TOP)
    for kind in rule.LIMITS:
        if mine := [name for name in names if rule.kind(name) == kind]:
            parts += _diagram(kind, mine, samples, top)
            top += HEIGHT + GAP
    parts.append(text(LEFT + WIDTH, top - GAP + 16, f"{samples[-1].seconds / 60:.0f} minutes", 10, "end"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 130}" height="{top:.0f}" '
            'font-family="sans-serif">\n' + "\n".join(parts) + "\n</svg>\n")
