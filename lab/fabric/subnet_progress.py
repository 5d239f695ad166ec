# SPDX-License-Identifier: GPL-2.0-or-later
"""The subnet manager's progress as the switch processes see it (nodes found, nodes with a LID, blocks of forwarding
tables, ports in Active) and as opensm's log shows it."""

import dataclasses
import pathlib
import time
from collections.abc import Iterable, Mapping

from lab.base import ui
from lab.fabric import control, sm_steps
from lab.fabric.sm_steps import Step

COUNTED = {"switch", "phantom"}     # without guests, whose ports are read in the guests
SOON = 0.05                         # share of the work from which on the remaining time is estimated
MINUTE_S = 60
BLOCK = 64                          # entries of a forwarding table that one SMP sets
BARE = {Step.DISCOVERS: "opensm discovers the fabric", Step.CONFIGURES: "opensm assigns LIDs and computes routes",
        Step.ACTIVATES: "opensm writes forwarding tables and activates ports",
        Step.UP: "opensm has said SUBNET UP", Step.STANDBY: "opensm is in standby"}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


@dataclasses.dataclass(frozen=True)
class Progress:
    """Counts of the fabric. found: number of nodes that have answered a subnet manager; blocks: number of blocks of all
    forwarding tables; written: number of these that the subnet manager has written; up: number of ports with a link;
    active: number of these ports in Active."""
    nodes: int
    found: int
    with_lid: int
    blocks: int
    written: int
    up: int
    active: int

    def __str__(self) -> str:
        return f"{self.with_lid:,} of {self.nodes:,} nodes have a LID, {self.active:,} of {self.up:,} ports are ACTIVE"

    @property
    def done(self) -> float:
        """Share of the work, 0 to 1; each of the four stages counts as much as another."""
        return (_share(self.found, self.nodes) + _share(self.with_lid, self.nodes)
                + _share(self.written, self.blocks) + _share(self.active, self.up)) / 4

    def doing(self, step: Step) -> str:
        """opensm's work in this step of its log, in words and numbers."""
        if step == Step.DISCOVERS:
            return f"opensm discovers: {self.found:,} of {self.nodes:,} nodes found"
        if step in (Step.CONFIGURES, Step.ACTIVATES):
            return self._configures(step)
        return f"{BARE[step]}: {self}" if step else str(self)

    def _configures(self, step: Step) -> str:
        if step == Step.CONFIGURES and self.with_lid < self.found:
            return f"opensm assigns LIDs: {self.with_lid:,} of {self.nodes:,} nodes have one"
        if step == Step.CONFIGURES and self.written in (0, self.blocks):
            return f"opensm computes routes: {self.with_lid:,} of {self.nodes:,} nodes have a LID"
        if self.written < self.blocks:
            return f"opensm writes forwarding tables: {self.written:,} of {self.blocks:,} blocks"
        return f"opensm activates ports: {self.active:,} of {self.up:,} are ACTIVE"


def _blocks(switch: Mapping[str, int], nodes: int) -> tuple[int, int]:
    """(all, written) blocks of a switch's forwarding table. Until the switch knows the highest LID, the number of nodes
    stands for it."""
    top = switch["lft_top"]
    due = (top or nodes) // BLOCK + 1
    return due, min(-(-switch["lft_used"] // BLOCK), due) if top else 0


def look(paths: Iterable[pathlib.Path]) -> Progress:
    """The present progress. paths: control sockets of the fabric's switch processes."""
    nodes = []
    for path in paths:
        with control.Control(path) as asked:
            nodes += [node for node in asked.ask("nodes")["nodes"] if node["type"] in COUNTED]
    tables = [_blocks(node, len(nodes)) for node in nodes if node["type"] == "switch"]
    return Progress(len(nodes), sum(node["smps_answered"] > 0 for node in nodes),
                    sum(bool(node["lid"]) for node in nodes), sum(due for due, _ in tables),
                    sum(written for _, written in tables), sum(node["ports_up"] for node in nodes),
                    sum(node["ports_active"] for node in nodes))


class Watch:
    """Progress since the beginning of a wait. paths: none if the switches run on other hosts."""

    def __init__(self, paths: list[pathlib.Path], manager: sm_steps.Manager | None = None):
        self.paths = paths
        self.manager = manager
        self._begun = time.monotonic()
        self._best: tuple[Step, float] = (Step.UNKNOWN, 0.0)
        self.last: Progress | None = None

    def look(self) -> Progress | None:
        """The present progress. None: a switch does not answer; the caller's check reports that."""
        if self.manager:
            self.manager.look()
        try:
            self.last = look(self.paths) if self.paths else None
        except ui.LabError:
            self.last = None
        return self.last

    @property
    def _step(self) -> Step:
        return self.manager.step if self.manager else Step.UNKNOWN

    def best(self) -> tuple[Step, float]:
        """The last step and the largest share of the work so far, so that ports that go down and up again do not count
        as progress."""
        found = self.look()
        step, share = self._best
        self._best = max(step, self._step), max(share, found.done if found else 0.0)
        return self._best

    def __str__(self) -> str:
        said = self.last.doing(self._step) if self.last else BARE.get(self._step, "")
        error = f"; opensm says: {self.manager.error}" if self.manager and self.manager.error else ""
        return f"{said}{self._left(time.monotonic() - self._begun)}{error}".removeprefix("; ")

    def _left(self, passed_s: float) -> str:
        done = self.last.done if self.last else 0
        if not SOON <= done < 1:
            return ""
        left_s = passed_s * (1 - done) / done
        left = f"{left_s:.0f} s" if left_s < 1.5 * MINUTE_S else f"{left_s / MINUTE_S:.0f} min"
        return f"; about {left} left"
