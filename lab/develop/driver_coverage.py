# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib driver coverage: how much of the device its driver has used: registers, commands with the values of their
fields, WQEs, CQEs, EQEs, statuses, rules. Counts of several guests, and of several runs by a file, are merged."""

import argparse
import json
import os
import pathlib
import tempfile

from lab.base import ui
from lab.develop import coverage_page, coverage_points
from lab.develop.coverage_points import Counts, Point
from lab.fabric import cluster
from lab.guests import vm
from lab.interface import description

PROPERTY, TAKEN = "coverage", "coverage-taken"
WIDTH = 100


def of_guest(lab: cluster.Cluster, name: str, anew: bool = False) -> Counts:
    """The counts of a guest's HCA. anew: the device counts from 0 afterwards."""
    found = vm.device_property(lab.monitor(name), TAKEN if anew else PROPERTY)
    return found or coverage_points.empty()


def read(file: pathlib.Path, more: Counts | None = None) -> Counts:
    """The counts in the file, together with other ones."""
    try:
        found = coverage_points.merged(json.loads(file.read_text(encoding="utf-8")), more or coverage_points.empty())
        # Raises an exception for another version of the interface, which has structures of other lengths.
        coverage_points.points(description.interface(), found)
        return found
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ui.LabError(f"{file} has no counts of a driver ({error}), or those of another version of the interface. "
                          "Name a file that --merge of this version has written, or one that does not exist"
                          ) from error


def merge(file: pathlib.Path, counts: Counts) -> Counts:
    """Merges the counts into the file, which need not exist, and replaces it atomically; returns the merged counts."""
    together = read(file, counts) if file.exists() else counts
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with open(handle, "w", encoding="utf-8") as out:
            json.dump(together, out)
        os.replace(name, file)
    except OSError as error:
        raise ui.LabError(f"cannot write {file}: {error.strerror}. Name a file that can be written") from error
    return together


def share(points: list[Point]) -> float:
    """The share of points used, without points that are errors."""
    wanted = [point for point in points if not point.error]
    return sum(point.uses > 0 for point in wanted) / len(wanted)


def _folded(about: str, names: list[str]) -> list[str]:
    lines = [f"  {about}:"]
    for name in names:
        if len(lines[-1]) + len(name) > WIDTH:
            lines.append("   ")
        lines[-1] += f" {name}"
    return lines


def text(points: list[Point]) -> str:
    """The share, the points that were not used, and the errors that have happened."""
    wanted = [point for point in points if not point.error]
    lines = [f"{sum(point.uses > 0 for point in wanted)} of {len(wanted)} used, {share(points):.1%}"]
    for title, chosen in (("not used:", [point for point in wanted if not point.uses]),
                          ("errors that happened:", [point for point in points if point.error and point.uses])):
        by_about: dict[str, list[str]] = {}
        for point in chosen:
            by_about.setdefault(point.about, []).append(
                f"{point.name} ({point.uses})" if point.error else point.name.replace(" ", "\N{NO-BREAK SPACE}"))
        lines += [title] + [line for about, names in by_about.items() for line in _folded(about, names)] \
            if by_about else []
    return "\n".join(lines)


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of coverage to ./pib driver."""
    group = command.add_argument_group("coverage", "./pib driver coverage [NODE...]: how much of the device the "
                                       "guests' driver has used")
    group.add_argument("--merge", type=pathlib.Path, metavar="FILE", help="add the counts to those in the file, and "
                       "show both; the file need not exist")
    group.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write a page: the manual's tables, with what "
                       "was used")
    group.add_argument("--reset", action="store_true", help="have the devices count from 0 afterwards")


def _check(options: argparse.Namespace, nodes: list[str]) -> None:
    """Refuses options that would have no effect, or that would destroy the counts."""
    if options.watch:
        raise ui.LabError("--watch compiles a driver when its files change, and coverage compiles none. Leave it out; "
                          "to see the counts change:  watch ./pib driver coverage")
    if options.reset and not nodes:
        raise ui.LabError("--reset: no guest runs whose device could count from 0. Leave it out, or start guests:  "
                          "./pib up")
    if options.merge and options.html and options.merge.resolve() == options.html.resolve():
        raise ui.LabError(f"--merge and --html are both {options.html}: the page would replace the counts. Name two "
                          "files")


def show(lab: cluster.Cluster, named: list[str], options: argparse.Namespace) -> None:
    nodes = list(dict.fromkeys(named or lab.nodes()))
    _check(options, nodes)
    if not nodes and not options.merge:
        raise ui.LabError("no guest runs. Start some:  ./pib up   or name a file of counts:  --merge FILE")
    for name in nodes:
        lab.node(name)          # raises LabError if the guest does not run
    if options.merge and options.reset:     # an unusable file ends this before the reset
        merge(options.merge, coverage_points.empty())
        read(options.merge, coverage_points.of_all([of_guest(lab, name) for name in nodes]))
    counts = coverage_points.of_all([of_guest(lab, name, options.reset) for name in nodes])
    if options.merge:
        counts = merge(options.merge, counts)
    points = coverage_points.points(description.interface(), counts)
    print(text(points))
    if options.html:
        coverage_page.write(options.html, points)
        ui.say(f"{options.html}: the manual's tables with what was used")
