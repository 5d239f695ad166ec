# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines in which ./pib test shows its progress."""

import json

import pytest

from lab.base.counts import Count
from lab.testing import parts, progress as module, usual
from lab.testing.progress import History, Progress


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_without_an_earlier_run_only_numbers_are_shown(clock, tmp_path):
    progress = Progress(["guests"], History(tmp_path / "none"))
    stage = progress.begin("guests")
    stage.plan("", ["a", "b"])
    clock.now += 723
    stage.finish("", "a", 5)
    assert progress.line(stage) == "[12m03s] guests 1/2"


def test_the_time_left_is_that_of_the_longest_share_and_of_later_stages(clock, tmp_path):
    file = tmp_path / "seconds"
    file.write_text(json.dumps({"guests a": 60, "guests b": 120, "guests c": 240, "guests d": 30, "later": 600}))
    progress = Progress(["guests", "later"], History(file))
    stage = progress.begin("guests")
    stage.plan("one", ["a", "b", "new"])        # 90 s on average
    stage.plan("other", ["c", "d"])
    assert progress.line(stage) == "[0m00s] guests 0/5, about 14 min left"
    stage.finish("other", "c", 1)
    stage.finish("one", "a", 1)
    assert progress.line(stage) == "[0m00s] guests 2/5, about 14 min left"
    for test in ("b", "new"):
        stage.finish("one", test, 1)
    assert progress.line(progress.begin("later")) == "[0m00s] later 0/0, about 10 min left"
    clock.now += 590
    assert progress.line(stage).endswith("guests 4/5, about a minute left")


def test_the_time_left_of_a_runner_without_durations_is_that_of_its_last_run(clock, tmp_path):
    file = tmp_path / "seconds"
    file.write_text(json.dumps({"units": 300}))
    progress = Progress(["units"], History(file))
    stage = progress.begin("units")
    clock.now += 60
    stage.count(7, 90)
    assert progress.line(stage) == "[1m00s] units 7/90, about 4 min left"


def test_a_first_run_estimates_by_usual_durations(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(usual, "SECONDS", {"guests": 600, "later": 300})
    progress = Progress(["guests", "later"], History(tmp_path / "seconds"))
    stage = progress.begin("guests")
    stage.plan("one", ["a", "b"])
    clock.now += 120
    stage.finish("one", "a", 120)
    assert progress.line(stage) == "[2m00s] guests 1/2, about 13 min left"
    some = Progress(["guests", "later"], History(tmp_path / "seconds"), whole=False).begin("guests")
    some.plan("one", ["a"])
    assert some.left_s() is None


def test_every_stage_of_the_day_has_a_usual_duration():
    assert {stage for name in parts.DEFAULT for stage in parts.PARTS[name].stages} == set(usual.SECONDS)


def test_durations_are_kept_beside_those_of_other_checkouts(clock, tmp_path):
    file = tmp_path / "cache" / "seconds"
    history, other = History(file), History(file)
    stage = Progress(["guests"], history).begin("guests")
    stage.plan("", ["a", "b"])
    stage.finish("", "a", 2.004)
    other.save({"guests b": 3.0})
    clock.now += 9
    stage.end(Count(1, 0))
    assert History(file).seconds == {"guests a": 2.0, "guests b": 3.0, "guests": 9.0}
    assert [path.name for path in file.parent.iterdir()] == ["seconds"]


@pytest.mark.parametrize("whole, count", [(False, Count(1, 0)), (True, Count(1, 1))])
def test_incomplete_and_failed_stages_are_not_in_the_history(clock, tmp_path, whole, count):
    stage = Progress(["units"], History(tmp_path / "seconds"), whole).begin("units")
    stage.end(count)
    assert "units" not in History(tmp_path / "seconds").seconds


def test_a_broken_history_is_ignored(tmp_path):
    for text in ("", "[]", '{"a": "b"}', '{"a": nu'):
        (tmp_path / "seconds").write_text(text)
        assert History(tmp_path / "seconds").seconds == {}


def test_lines_of_progress_have_intervals(clock, tmp_path, capsys):
    progress = Progress(["units"], History(tmp_path / "none"))
    stage = progress.begin("units")
    progress.show(stage)
    assert capsys.readouterr().out == ""
    clock.now += module.SHOW_S
    progress.show(stage)
    progress.show(stage)
    assert capsys.readouterr().out == "[0m30s] units 0/0\n"


def test_durations_that_cannot_be_saved_are_not_an_error(tmp_path, monkeypatch):
    """The cache may be read-only for this user, or its disk full."""
    def full(*_):
        raise OSError(28, "No space left on device")
    for file in (tmp_path / "file" / "seconds", tmp_path / "seconds"):
        (tmp_path / "file").touch()
        monkeypatch.setattr(module.json, "dump", full)
        history = History(file)
        history.save({"units": 3.0})
        assert history.seconds == {"units": 3.0} and [path.name for path in tmp_path.iterdir()] == ["file"]
