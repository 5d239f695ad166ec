# SPDX-License-Identifier: GPL-2.0-or-later
"""The subnet manager's progress as the switch processes see it: nodes with a LID, and ports in Active."""

import dataclasses
import pathlib
import time
from collections.abc import Iterable

from lab import ui
from lab.fabric import control

COUNTED = {"switch", "phantom"}     # without guests, whose ports are read in the guests
SOON = 0.05                         # share of the work from which on the remaining time is estimated
MINUTE_S = 60


@dataclasses.dataclass(frozen=True)
class Progress:
    """Counts of the fabric. up: number of ports with a link; active: number of these ports in Active."""
    nodes: int
    with_lid: int
    up: int
    active: int

    def __str__(self) -> str:
        return f"{self.with_lid:,} of {self.nodes:,} nodes have a LID, {self.active:,} of {self.up:,} ports are ACTIVE"

    @property
    def done(self) -> float:
        """Share of the work, 0 to 1."""
        return (self.with_lid + self.active) / max(self.nodes + self.up, 1)


def look(paths: Iterable[pathlib.Path]) -> Progress:
    """The present progress. paths: control sockets of the fabric's switch processes."""
    found = []
    for path in paths:
        with control.Control(path) as asked:
            found += [node for node in asked.ask("nodes")["nodes"] if node["type"] in COUNTED]
    return Progress(len(found), sum(bool(node["lid"]) for node in found), sum(node["ports_up"] for node in found),
                    sum(node["ports_active"] for node in found))


class Watch:
    """Progress since the beginning of a wait."""

    def __init__(self, paths: list[pathlib.Path]):
        self.paths = paths
        self._begun = time.monotonic()
        self._best = 0.0
        self.last: Progress | None = None

    def look(self) -> Progress | None:
        """The present progress. None: a switch does not answer; the caller's check reports that."""
        try:
            self.last = look(self.paths)
        except ui.LabError:
            self.last = None
        return self.last

    def best(self) -> float:
        """The largest share of the work so far, so that ports that go down and up again do not count as progress."""
        if found := self.look():
            self._best = max(self._best, found.done)
        return self._best

    def __str__(self) -> str:
        if not self.last:
            return ""
        return f"{self.last}{self._left(time.monotonic() - self._begun)}"

    def _left(self, passed_s: float) -> str:
        done = self.last.done if self.last else 0
        if not SOON <= done < 1:
            return ""
        return f"; about {passed_s * (1 - done) / done / MINUTE_S:.0f} min left"
