# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of ./pib driver coverage: the manual's tables, each row with what the driver has used of it."""

import html
import pathlib
import re

from lab.base import paths, ui
from lab.develop.coverage_points import Point
from lab.interface import description
from lab.interface.description import Interface
from lab.interface.tables import tables

MANUAL = paths.ROOT / "docs" / "device-spec.md"
HEADING = re.compile(r"^#{2,4} (.+)$", re.MULTILINE)
STRUCT = re.compile(r"`struct (\w+)`, \d+ bytes")
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
CODE = re.compile(r"`([^`]+)`")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #1c2024 }
table { border-collapse: collapse; margin: .5em 0 1.5em; width: 100% }
th, td { border: 1px solid #c9ced6; padding: .2em .5em; text-align: left; vertical-align: top }
.used { background: #dcf2e0 } .part { background: #fdf1cf } .not { background: #f9dcdc } .error { background: #e8eaee }
"""
# Lists of points, by the prefix of the constants that name them.
LISTS = {"PIB_HCA_CMD_STATUS_": "status", "PIB_HCA_CMD_": "command", "PIB_HCA_WQE_": "send WQE",
         "PIB_HCA_CQE_FLAG_": "CQE: flag ", "PIB_HCA_CQE_": "CQE", "PIB_HCA_WC_": "CQE status",
         "PIB_HCA_PORT_EVENT_": "EQE PORT", "PIB_HCA_EVENT_": "EQE", "PIB_HCA_FATAL_": "fatal cause",
         "PIB_HCA_CONTROL_": "PIB_HCA_REG_CONTROL"}


class Rows:
    """Finds the points of a table's row."""

    def __init__(self, interface: Interface, points: list[Point]) -> None:
        self._interface = interface
        self._by_title = {point.title: point for point in points}
        self._points = points

    def _of_field(self, struct: str, field: str) -> list[Point]:
        """Points of a field of a command's input, also of a structure nested in the input (pages, address vectors)."""
        ends = self._names_of(struct, field)
        return [point for point in self._points if point.about in ends]

    def _names_of(self, struct: str, name: str) -> list[str]:
        """Names of a structure's field in the inputs of commands: CREATE_MR.pages.root, REREG_MR.mr.pages.root, …"""
        found = [f"{one.name}.{name}" for one in self._interface.commands if one.input == struct]
        for outer in self._interface.structs.values():
            for part in outer.fields:
                if part.kind == struct:
                    found += self._names_of(outer.name, f"{part.name}.{name}")
        return found

    def _of_constant(self, name: str) -> list[Point]:
        for prefix, about in LISTS.items():
            if name.startswith(prefix):
                short = name.removeprefix(prefix)
                found = self._by_title.get(about + short if about.endswith(" ") else f"{about}: {short}")
                return [found] if found else []
        known = [point for point in self._points if point.about == name]
        return known or self._of_values(name)

    def _of_values(self, name: str) -> list[Point]:
        """Points for one value of an enumeration, in all fields that have this enumeration."""
        ids = [names for names in self._interface.names.values()
               if name.startswith(names.prefix) and name.removeprefix(names.prefix) in names.of]
        ends = {(struct.name, field.name) for struct in self._interface.structs.values() for field in struct.fields
                if any(field.names is names for names in ids)}
        return [point for struct, field in ends for point in self._of_field(struct, field)
                if any(point.name == name.removeprefix(names.prefix) for names in ids)]

    def of(self, head: list[str], row: list[str], struct: str) -> list[Point]:
        if head[:3] == ["offset", "size", "field"]:
            return self._of_field(struct, row[2].strip("`"))
        if head[3:5] == ["reset", "name"]:
            name = row[4].strip("`")
            return [point for point in self._points if point.about == name]
        if head[0] == "rule":
            return [self._by_title[f"rule: {row[0]}"]]
        return self._of_constant(row[0].strip("`")) if head[:2] == ["name", "value"] else []


def _words(cell: str) -> str:
    return CODE.sub(r"<code>\1</code>", html.escape(LINK.sub(r"\1", cell)))


def _used(points: list[Point]) -> tuple[str, str]:
    """CSS class and text of a row's last cell."""
    if not points:
        return "", ""
    if all(point.error for point in points):
        return "error", f"{sum(point.uses for point in points)} times"
    used = [point for point in points if point.uses]
    kind = "used" if len(used) == len(points) else "part" if used else "not"
    if len(points) == 1:
        return kind, f"{points[0].uses} times" if points[0].uses > 1 else "used" if used else "not used"
    missing = [f"{point.about.rpartition('.')[0] or point.about}: {point.name}" for point in points if not point.uses]
    return kind, f"{len(used)} of {len(points)}" + (", not " + "; ".join(missing) if missing else "")


def _table(head: list[str], shown: list[tuple[list[str], list[Point]]]) -> str:
    lines = ["<table><tr>" + "".join(f"<th>{_words(cell)}</th>" for cell in head) + "<th>used</th></tr>"]
    for row, points in shown:
        kind, words = _used(points)
        lines.append(f'<tr class="{kind}">' + "".join(f"<td>{_words(cell)}</td>" for cell in row) +
                     f"<td>{html.escape(words)}</td></tr>")
    return "\n".join([*lines, "</table>"])


def page(manual: str, interface: Interface, points: list[Point]) -> str:
    rows = Rows(interface, points)
    wanted = [point for point in points if not point.error]
    used = sum(point.uses > 0 for point in wanted)
    body, struct, heading = [], "", ""
    left = {point.title: point for point in points}
    for before, head, found in tables(manual):
        struct = ([struct] + STRUCT.findall(before))[-1]
        headings = HEADING.findall(before)
        heading = headings[-1] if headings else heading
        shown = [(row, rows.of(head, row, struct)) for row in found]
        for point in (point for _, of_row in shown for point in of_row):
            left.pop(point.title, None)
        if any(of_row for _, of_row in shown):
            body += ([f"<h2>{_words(heading)}</h2>"] if heading else []) + [_table(head, shown)]
            heading = ""
    if left:
        body += ["<h2>In no table</h2>", _table(["point"], [([title], [point]) for title, point in left.items()])]
    return (f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>Use of the device</title>\n'
            f"<style>{STYLE}</style>\n<h1>What the driver has used of the device</h1>\n"
            f"<p>{used} of {len(wanted)} ({used / len(wanted):.1%}), errors left out.</p>\n" + "\n".join(body) +
            "\n</html>\n")


def write(file: pathlib.Path, points: list[Point]) -> None:
    try:
        manual = MANUAL.read_text(encoding="utf-8")
    except OSError as error:
        raise ui.LabError(f"the page has the manual's tables, and {MANUAL} cannot be read. Run the lab of a checkout, "
                          "or leave --html out") from error
    try:
        file.write_text(page(manual, description.interface(), points), encoding="utf-8")
    except OSError as error:
        raise ui.LabError(f"cannot write {file}: {error.strerror}. Name a file that can be written") from error
