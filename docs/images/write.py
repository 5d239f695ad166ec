# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws write.svg, the picture in observability.md, from write.json, a recording of ./pib trace --output that was cut
to one WRITE:  python3 docs/images/write.py"""

import json
import pathlib
from typing import Any
from xml.sax.saxutils import escape

SVG = pathlib.Path(__file__).with_suffix(".svg")
RECORDING = SVG.with_suffix(".json")
WIDTH, LEFT, RIGHT, TOP, ROW_H = 860, 150, 22, 62, 34
BAR_H = 14
STYLE = """
text { font: 12px "DejaVu Sans", Verdana, sans-serif; fill: #1c2733 }
.small { font-size: 11px; fill: #4a5a6a }
.page { fill: #f7f9fb }
.row { stroke: #dde4ea }
.slice { fill: #2f7d5d }
.arrow { fill: none; stroke: #c06a2b; stroke-width: 1.5 }
"""
Event = dict[str, Any]


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


class Picture:
    def __init__(self, events: list[Event]) -> None:
        self._names = {(event["name"], event["pid"], event["tid"]): event["args"]["name"]
                       for event in events if event["ph"] == "M" and "name" in event["args"]}
        self._slices = sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])
        self._points = sorted((event for event in events if event["ph"] in "stf"), key=lambda event: event["ts"])
        self._begin = self._slices[0]["ts"]
        self._us = max(event["ts"] + event["dur"] for event in self._slices) - self._begin
        self._rows = list(dict.fromkeys((event["pid"], event["tid"]) for event in self._slices))
        self.height = TOP + ROW_H * len(self._rows) + 12

    def _x(self, ts: float) -> float:
        return LEFT + (ts - self._begin) / self._us * (WIDTH - LEFT - RIGHT)

    def _y(self, event: Event) -> float:
        return TOP + ROW_H * self._rows.index((event["pid"], event["tid"])) + 18

    def _row(self, pid: int, tid: int) -> list[str]:
        y = self._y({"pid": pid, "tid": tid})
        group, track = self._names["process_name", pid, 0].partition(" ")[2], self._names["thread_name", pid, tid]
        return [f'<path class="row" d="M{LEFT} {y + BAR_H}H{WIDTH - RIGHT}"/>',
                text(LEFT - 10, y + 11, f"{group}: {track}", anchor="end")]

    def _slice(self, event: Event) -> list[str]:
        x, y = self._x(event["ts"]), self._y(event)
        wide = max(self._x(event["ts"] + event["dur"]) - x, 2)
        name = event["name"] if len(event["name"]) < 34 else event["name"][:33] + "…"
        after = x + 6.2 * len(name) < WIDTH
        return [f'<rect class="slice" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{BAR_H}" rx="2"/>',
                text(x if after else x + wide, y - 3, name, "small", "start" if after else "end")]

    def _arrow(self) -> str:
        points = [f"{self._x(event['ts']):.1f},{self._y(event) + BAR_H / 2:.1f}" for event in self._points]
        return f'<polyline class="arrow" marker-end="url(#head)" points="{" ".join(points)}"/>'

    def _scale(self) -> list[str]:
        step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10 ** 9) if self._us / step < 9)
        return [text(self._x(self._begin + us), 44, f"{us} us", "small", "middle")
                for us in range(0, int(self._us) + 1, step)]

    def svg(self) -> str:
        parts = [f'<rect class="page" width="{WIDTH}" height="{self.height}"/>',
                 text(14, 22, "One RDMA WRITE on the time line of its requester"),
                 *self._scale(),
                 *(part for row in self._rows for part in self._row(*row)),
                 self._arrow(),
                 *(part for event in self._slices for part in self._slice(event))]
        head = ('<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                '<path d="M0 0L8 4L0 8z" fill="#c06a2b"/></marker>')
        body = "\n".join(parts)
        return ("<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n"
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img" '
                'aria-label="Doorbell, WQE, memory accesses, packets, completion of one RDMA WRITE">\n'
                "<!-- Drawn by write.py. -->\n"
                f"<style>{STYLE}</style>\n<defs>{head}</defs>\n{body}\n</svg>\n")


def picture() -> str:
    return Picture(json.loads(RECORDING.read_text())["traceEvents"]).svg()


if __name__ == "__main__":
    SVG.write_text(picture())
