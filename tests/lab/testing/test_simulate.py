# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test simulate: its options, and those of the program."""

import os
import pathlib

import pytest

from lab import __main__ as command
from lab.base import child, paths
from lab.build import host_build
from lab.testing import parts, simulate
from lab.testing.progress import History, Progress
from lab.testing.simulate import Wanted


def test_options_become_arguments_of_the_program():
    assert Wanted(seconds=3, seed=4).arguments() == ["--seed", "4", "--seconds", "3"]
    assert Wanted(seed=0, seeds=5).arguments() == ["--seed", "0", "--seeds", "5"]
    assert Wanted(script=pathlib.Path("/x/y")).arguments() == ["--script", "/x/y"]


def test_each_run_has_another_seed():
    assert len({Wanted().arguments()[1] for _ in range(8)}) > 1


def test_options_reach_their_part(monkeypatch):
    seen = []
    monkeypatch.setattr(parts, "test", lambda *arguments: seen.append(arguments) or 0)
    monkeypatch.setattr("sys.argv", ["pib", "test", "simulate", "--seed", "7", "--seeds", "2"])
    assert command.main() == 0
    assert seen == [("simulate", Wanted(seed=7, seeds=2), None)]


def test_options_of_another_part_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(parts, "test", lambda *_arguments: pytest.fail("a part runs"))
    monkeypatch.setattr("sys.argv", ["pib", "test", "unit", "--seed", "7"])
    assert command.main() != 0
    assert "./pib test simulate" in capsys.readouterr().err


@pytest.mark.parametrize("wanted, expected", [(Wanted(seed=7, seeds=2), "7,2"), (Wanted(seed=7), "7,100")])
def test_the_adversary_has_seeds_as_well(monkeypatch, wanted, expected):
    seen = []
    monkeypatch.setattr(parts.up, "prepare", lambda: None)
    monkeypatch.setattr(parts.runners, "pytest", lambda *_arguments, **_names: seen.append(os.environ["PIB_ADVERSARY"]))
    parts.adversary(parts.Run(Progress([]), simulation=wanted))
    assert seen == [expected]


def test_the_program_is_built_with_the_lab(monkeypatch, tmp_path):
    """The lab's build has a lock. Two ninjas in one directory would disturb each other."""
    asked, ran = [], []
    monkeypatch.setattr(paths, "RUN", tmp_path)
    monkeypatch.setattr(host_build, "build", lambda more: asked.append(more) or tmp_path)
    monkeypatch.setattr(child, "run", lambda program: ran.append(program.argv[0]) or [0])
    assert simulate.simulate(Progress([simulate.STAGE], History(tmp_path / "seconds")), Wanted(seeds=1)).passed == 1
    assert asked == [(simulate.PROGRAM,)] and ran == [tmp_path / simulate.PROGRAM]
    assert not list(tmp_path.glob("log/*"))
