# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib clean shows the entries of the cache and frees unused ones."""

import os
import re
import time

import pytest

from lab import clean
from lab.base import lock, paths, ui
from lab.build import cache
from lab.fabric.wanted import Wanted

DAY_S = 24 * 3600


@pytest.fixture(name="entry")
def _entry(tmp_path, monkeypatch):
    """Makes an entry that was used some days ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")

    def make(name, days=0, size=300_000):
        made = cache.entry(name, lambda out: (out / "file").write_bytes(bytes(size)))
        then = time.time() - days * DAY_S - 60
        os.utime(made, (then, then))
        return made
    return make


def names():
    return [path.name for path in cache.entries()]


def test_entries_are_shown_with_size_and_last_use(entry, capsys):
    entry("old", 9)
    entry("new")
    assert clean.clean([], None, False) == 0
    said = capsys.readouterr().out
    assert re.search(r"old +0\.3 MB +9 days ago\nnew +0\.3 MB +today\n", said) and "holds 0.6 MB" in said
    assert names() == ["old", "new"]


def test_a_user_without_subordinate_ids_can_clean(entry, monkeypatch, tmp_path, capsys):
    tool = tmp_path / "unshare"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    entry("old", 9)
    assert clean.clean([], None, False) == 0 and "0.3 MB" in capsys.readouterr().out
    assert clean.clean(["old"], None, False) == 0 and names() == []


def test_the_age_of_an_entry_begins_at_its_last_use(entry):
    entry("a", 9)
    cache.entry("a", lambda _out: pytest.fail("made again"))
    clean.clean([], 1, False)
    assert names() == ["a"]


def test_an_empty_cache_is_shown(entry, capsys):
    clean.clean([], None, False)
    assert "holds 0.0 MB" in capsys.readouterr().out
    clean.clean([], None, True)


@pytest.mark.parametrize("chosen, left", [((["b"], None, False), ["a", "c"]), (([], 5, False), ["b", "c"]),
                                          (([], None, True), []), ((["c"], 5, False), ["b"])])
def test_the_chosen_entries_are_freed(entry, capsys, chosen, left):
    for name, days in (("a", 7), ("b", 2), ("c", 0)):
        entry(name, days)
    results = paths.guest_results() / "b"
    results.mkdir(parents=True)
    assert clean.clean(*chosen) == 0
    assert names() == left and results.exists() == ("b" in left)
    assert f"freed: {(3 - len(left)) * 0.3:.1f} MB" in capsys.readouterr().out
    assert not list(paths.cache().glob("*.part"))


@pytest.mark.parametrize("chosen", [(["a"], None, False), ([], None, True)])
def test_an_entry_is_freed_after_a_removal_that_was_stopped(entry, chosen):
    """Ctrl-C has stopped the removal of an entry, which was made again since."""
    entry("a")
    rest = paths.cache() / "a.part"
    rest.mkdir()
    (rest / "file").touch()
    assert clean.clean(*chosen) == 0 and names() == []


@pytest.mark.parametrize("name", ["no-such", "../run", "locks", "a/file"])
def test_only_entries_can_be_freed(entry, name):
    entry("a")
    with pytest.raises(ui.LabError, match="the cache has no"):
        clean.clean([name], None, False)
    assert names() == ["a"]


def test_a_negative_number_of_days_is_refused(entry):
    with pytest.raises(ui.LabError, match="--unused -1"):
        clean.clean([], -1, False)


@pytest.mark.parametrize("file", ["cache/pib-hca/locks/a", "cache/pib-hca/a/builder/work/x/.lock"])
def test_an_entry_in_use_by_another_command_stays(entry, tmp_path, capfd, file):
    entry("a")
    entry("b")
    with lock.held(tmp_path / file):
        with pytest.raises(ui.LabError, match="another ./pib command uses it"):
            clean.clean(["a"], None, False)
        clean.clean([], None, True)
    assert names() == ["a"] and "kept: a: another" in capfd.readouterr().err


def test_an_image_that_guests_run_from_stays(lab, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent))
    monkeypatch.setattr(paths, "cache", lambda: tmp_path.parent)
    lab.up(Wanted(1), [])
    try:
        with pytest.raises(ui.LabError, match="vm0 of .* runs from it"):
            clean.clean([tmp_path.name], None, False)
        clean.show()
        assert re.search(rf"{tmp_path.name} .* now\n", capsys.readouterr().out) and lab.file.exists()
    finally:
        lab.down()


def test_unfinished_entries_are_marked(entry, capsys):
    entry("a")
    (paths.cache() / "b.part").mkdir()
    (paths.cache() / "c.part").mkdir()
    with lock.held(cache.lock_of("c")):
        clean.show()
    said = capsys.readouterr().out
    assert re.search(r"b\.part .* unfinished: its command was stopped\n", said)
    assert re.search(r"c\.part .* being made\n", said)


@pytest.mark.parametrize("chosen", [([], None, False), ([], 5, False), ([], None, True)])
def test_two_commands_at_once_clean(entry, monkeypatch, capsys, chosen):
    """The other command frees an entry after this one has listed it."""
    entry("a", 7)
    gone, listed = paths.cache() / "gone", cache.entries()
    monkeypatch.setattr(cache, "entries", lambda: [gone, *listed])
    assert clean.clean(*chosen) == 0
    said = capsys.readouterr().out
    assert re.search(r"gone .* freed by another command\n", said) if chosen == ([], None, False) else "gone" not in said
