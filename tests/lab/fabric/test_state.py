# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of running processes: its owner, and commands that cannot use it."""

import dataclasses
import json
import os
import shutil

import pytest

from checkouts import copy_checkout, pib
from lab.base import paths, process
from lab.fabric import labs, recorded, rundir, state


@pytest.fixture
def file(tmp_path):
    return tmp_path / state.NAME


def saved(file, **changes):
    """Writes a state of this machine with some values changed."""
    place = dataclasses.replace(state.Place.of(file.parent), **changes)
    state.State(place, "/nowhere", "tcg", "stamp").save(file)


def test_a_saved_state_is_loaded(file):
    assert state.load(file) is None
    one = state.State(state.Place.of(file.parent), "/tmp/x", "kvm", "s", {"vm0": process.Process(1, 2)},
                      {"vm0": state.Command(["qemu"], {"A": "b"})}, {"vm0": 3})
    one.save(file)
    assert state.load(file) == one


def test_a_state_of_an_earlier_boot_is_ignored(file):
    saved(file, boot="earlier")
    assert state.load(file) is None
    saved(file, boot="earlier", namespace="pid:[1]")
    assert state.load(file) is None


@pytest.mark.parametrize("change", [{"machine": "other", "boot": "other"}, {"namespace": "pid:[1]"}])
def test_another_host_or_container_is_named(file, change):
    saved(file, **change, host="elsewhere")
    with pytest.raises(state.Unusable, match="elsewhere"):
        state.load(file)


def test_a_copied_state_is_not_used(tmp_path):
    (tmp_path / "original").mkdir()
    saved(tmp_path / "original" / state.NAME)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    assert state.load(tmp_path / "copy" / state.NAME) is None
    (tmp_path / "original").rename(tmp_path / "moved")
    assert state.load(tmp_path / "moved" / state.NAME).place.directory == str(tmp_path / "moved")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": 2, "place": {}}', b"\xff"])
def test_a_damaged_state_is_an_error_with_advice(file, text):
    file.write_bytes(text)
    with pytest.raises(state.Unusable, match="pib down"):
        state.load(file)


def test_a_full_disk_keeps_the_former_state(file, monkeypatch):
    saved(file)
    before = file.read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        saved(file, host="new")
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]


@pytest.fixture
def start_one():
    """Starts a process in the lab of a checkout."""
    made = []

    def start(where):
        lab = recorded.Recorded(where / ".lab")
        made.append(rundir.make())
        lab.state = state.State(state.Place.of(lab.directory), str(made[-1]), "tcg", "stamp")
        return lab, lab.start("hub", ["sleep", "1000"])
    yield start
    for directory in made:
        rundir.remove(directory)


def test_down_in_a_copied_checkout_leaves_the_original_alone(checkout, tmp_path, start_one):
    lab, running = start_one(checkout)
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy)
    assert "Nothing runs" in pib(copy, "status").stdout
    assert "nothing ran" in pib(copy, "down").stdout
    assert running.alive() and lab.sockets().is_dir()
    assert "ended: hub" in pib(checkout, "down").stdout
    assert not running.alive()


def test_down_in_a_moved_checkout_ends_its_guests(tmp_path, start_one):
    _, running = start_one(copy_checkout(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert "ended: hub" in pib(tmp_path / "new", "down").stdout
    assert not running.alive()


@pytest.mark.parametrize("loss", ["damaged", "removed"])
def test_down_finds_processes_whose_record_is_lost(checkout, loss, start_one):
    lab, running = start_one(checkout)
    if loss == "damaged":
        lab.file.write_text("")
        assert "damaged" in pib(checkout, "status").stderr
    else:
        shutil.rmtree(checkout / ".lab")        # git clean -fdx
        assert "hub: runs without a record" in pib(checkout, "status").stdout
    assert "ended: hub" in pib(checkout, "down").stdout
    assert not running.alive()


def test_other_labs_of_a_checkout_are_shown_and_ended(checkout, start_one):
    lab, running = start_one(checkout / ".lab" / "test")    # its directory is .lab/test/.lab
    name = str(lab.directory.relative_to(checkout / ".lab"))
    shown = pib(checkout, "status").stdout
    assert name in shown and "hub" in shown and "down --all" in shown
    assert "nothing ran" in pib(checkout, "down").stdout and running.alive()
    assert f"ended: hub of {name}" in pib(checkout, "down", "--all").stdout
    assert not running.alive()


def test_a_state_of_another_version_is_forgotten_by_down(checkout):
    (checkout / ".lab").mkdir()
    (checkout / ".lab" / state.NAME).write_text(json.dumps({"version": 1}))
    assert pib(checkout, "status").returncode == 1
    assert pib(checkout, "down").returncode == 0
    assert "Nothing runs" in pib(checkout, "status").stdout


def test_two_commands_may_forget_a_state_at_once(file, monkeypatch):
    """The other command removes the file when this one has found it unusable."""
    file.write_text("damaged")

    def say(_text):
        file.unlink()
    monkeypatch.setattr(labs.ui, "say", say)
    assert labs.down(file.parent) == []


def test_labs_of_other_checkouts_are_not_counted(tmp_path, start_one, monkeypatch):
    lab, running = start_one(tmp_path)
    try:
        assert lab.directory not in labs.running()
        monkeypatch.setattr(paths, "RUN", lab.directory)
        assert labs.running() == {lab.directory: ["hub"]}
    finally:
        running.stop()
