# SPDX-License-Identifier: GPL-2.0-or-later
"""The reasons why our driver does not use parts of the device."""
import fnmatch

import pytest

from lab.base.counts import Count, FAILURE
from lab.develop import coverage_points
from lab.develop.coverage_points import Point
from lab.interface import description
from lab.testing import used


def test_points_without_a_reason_are_found():
    points = [Point("A", "load", 0), Point("B", "load", 0), Point("C", "load", 1), Point("D", "x", 0, error=True),
              Point("E.pages.levels", "most", 0)]
    assert [point.title for point in used.without_reason(points, ["A: load", "*.levels: most"])] == ["B: load"]


@pytest.mark.parametrize("uses, reason, passed", [(95, "A: 9*", True), (94, "A: 9*", False), (95, "A: 99", False)])
def test_a_reason_does_not_make_up_for_a_small_share(monkeypatch, capsys, uses, reason, passed):
    monkeypatch.setattr(used, "reasons", lambda: [reason])
    count = used.check([Point("A", str(number), int(number < uses)) for number in range(100)])
    assert count == (Count(passed=1) if passed else FAILURE)
    assert f"{uses} of 100 used" in capsys.readouterr().out


def test_each_reason_is_of_a_point():
    titles = [point.title for point in coverage_points.points(description.interface(), coverage_points.empty())
              if not point.error]
    patterns = used.reasons()
    assert patterns and [pattern for pattern in patterns if not fnmatch.filter(titles, pattern)] == []


def test_a_reason_is_about_one_command():
    """A pattern for all commands would also hide that tests have ceased to use a value."""
    points = [point for point in coverage_points.points(description.interface(), coverage_points.empty())
              if not point.error]
    for pattern in used.reasons():
        of = {point.about.split(".")[0] for point in points if fnmatch.fnmatchcase(point.title, pattern)}
        assert len(of) == 1, (pattern, of)


def test_each_value_that_a_rule_forbids_is_of_the_interface():
    interface = description.interface()
    commands = {command.name: interface.structs.get(command.input) for command in interface.commands}
    for title, rule in coverage_points.FORBIDDEN.items():
        about, _, name = title.partition(": ")
        command, *path = about.split(".")
        struct = commands[command]
        for part in path:
            field = next(field for field in struct.fields if field.name == part)
            struct = interface.structs.get(field.kind)
        assert not name or name in field.of, title
        assert rule in {one.number for one in interface.rules}, title
