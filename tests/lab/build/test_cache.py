# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of the cache are made once and completely, by steps that run in parallel."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from lab.base import groups, lock, paths, process, ui
from lab.build import cache, steps
from lab.guests import vm

LIMIT_S = 60


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(paths, "RUN", tmp_path / "run")
    return tmp_path / "pib-hca"


def wait_until(ready) -> None:
    end = time.monotonic() + LIMIT_S
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def write(out: pathlib.Path) -> None:
    (out / "file").write_text("whole")


def test_an_entry_is_made_once(place):
    assert cache.entry("a", write) == place / "a"
    assert (place / "a" / "file").read_text() == "whole"
    cache.entry("a", lambda _out: pytest.fail("made again"))


def test_a_lock_names_the_command_that_removes_leftovers(place):
    """The lock's file no longer names the killed command, whose leftovers sweep() removes."""
    (place / "locks").mkdir(parents=True)
    (place / "a.part").mkdir()
    cache.lock_of("a").write_text("process 1, ./pib long ago")
    cache.sweep()
    assert not (place / "a.part").exists()
    assert cache.lock_of("a").read_text().startswith(f"process {os.getpid()}, ./pib")


def test_an_entry_that_fails_leaves_nothing(place):
    def fail(out: pathlib.Path) -> None:
        write(out)
        raise ui.LabError("no")
    with pytest.raises(ui.LabError):
        cache.entry("a", fail)
    assert [path.name for path in place.iterdir()] == ["locks"]


def test_two_makers_make_one_entry(place, monkeypatch):
    said = []
    monkeypatch.setattr(ui, "say", said.append)
    begun, go_on = threading.Event(), threading.Event()
    made = []

    def slow(out: pathlib.Path) -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)
        made.append(out)
        write(out)
    first = threading.Thread(target=cache.entry, args=("a", slow))
    first.start()
    assert begun.wait(LIMIT_S)
    second = threading.Thread(target=cache.entry, args=("a", slow))
    second.start()
    wait_until(lambda: "waiting for another" in "".join(said))
    go_on.set()
    first.join()
    second.join()
    assert len(made) == 1
    assert f"process {os.getpid()}" in "".join(said)


def test_files_of_a_killed_maker_are_removed(place):
    code = ("import time; from lab.build import cache; "
            "cache.entry('a', lambda out: (print(flush=True), time.sleep(600)))")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": str(paths.ROOT)}) as maker:
        maker.stdout.readline()
        cache.entry("b", write)
        assert (place / "a.part").is_dir()      # the entry is being made
        maker.kill()
    cache.entry("c", write)
    assert not (place / "a.part").exists()


STEP = """
import pathlib, signal, sys
from lab.base import paths, ui
from lab.build import cache
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGTERM, stop)
cache.entry("a", lambda out: ui.run("step", ["sh", "-c", "sleep 600 & echo $$ $! > " + sys.argv[1] + "; wait"], "x"))
"""


def ended(pid: int) -> bool:
    try:
        return "State:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.fixture
def command(tmp_path):
    """Starts a command with a step that runs a shell, which runs another program. Yields the command's process, and the
    ids of the shell and of the other program."""
    note = tmp_path / "pids"
    with subprocess.Popen([sys.executable, "-c", STEP, note], stderr=subprocess.DEVNULL,
                          env={**os.environ, "PYTHONPATH": str(paths.ROOT)}) as running:
        wait_until(lambda: note.exists() and len(note.read_text().split()) == 2)
        shell, other = map(int, note.read_text().split())
        yield running, shell, other
        running.kill()
    if not ended(other):
        os.kill(other, signal.SIGKILL)


def test_a_step_ends_with_its_child_processes(place, command):
    running, shell, other = command
    running.terminate()
    running.wait(LIMIT_S)
    wait_until(lambda: ended(shell) and ended(other))
    assert not (place / "a.part").exists()


def test_a_step_ends_when_its_command_is_killed(command):
    running, shell, _ = command
    running.kill()
    wait_until(lambda: ended(shell))


def test_steps_run_side_by_side():
    meet = threading.Barrier(2)
    assert steps.together(lambda: meet.wait(LIMIT_S) >= 0, lambda: meet.wait(LIMIT_S) >= 0) == [True, True]


def test_the_failure_of_a_step_ends_the_others():
    def fail() -> None:
        raise ui.LabError("the reason")
    with pytest.raises(ui.LabError, match="the reason"):
        steps.together(lambda: ui.run("endless", ["sleep", "600"], "x"),
                       lambda: steps.together(lambda: ui.run("endless", ["sleep", "600"], "x"), fail))
    ui.run("afterwards", ["true"], "x")


def test_a_missing_program_is_reported():
    with pytest.raises(ui.LabError, match="no-such-program"):
        ui.run("step", ["no-such-program"], "x")


def test_a_step_that_another_failure_ends_is_not_the_reason():
    with pytest.raises(groups.Ended), groups.RUNNING.block():
        groups.RUNNING.end()
        ui.run("never", ["true"], "x")


def test_an_entry_that_is_being_changed_stays(place):
    with cache.changing("tree") as directory:
        (directory / "file").write_text("half")
        with pytest.raises(ui.LabError, match="another ./pib command"):
            cache.remove(directory)
    with cache.changing("tree") as directory:
        assert directory == place / "tree" and (directory / "file").read_text() == "half"
    cache.remove(directory)
    assert not directory.exists()


def test_a_link_to_another_containers_image_is_replaced(place):
    """Containers with a common volume have links there to entries that each has in its own file system."""
    place.mkdir()
    (place / "a").symlink_to("/nowhere")
    assert cache.entry("a", write).is_dir() and not (place / "a").is_symlink()


def test_a_link_to_a_containers_image_is_not_freed(place):
    (place / "a").mkdir(parents=True)
    (place / "b").symlink_to("a")
    assert cache.entries() == [place / "a"]


def test_an_entry_in_which_a_build_runs_stays(place):
    cache.entry("results", write)
    with lock.held(place / "results" / cache.BUILD_LOCK), pytest.raises(ui.LabError, match="another ./pib command"):
        cache.remove(place / "results")


@pytest.mark.parametrize("name", ["plain", "a,b"])
def test_programs_that_name_an_entry_use_it(monkeypatch, tmp_path, name):
    """QEMU's options have two commas for a comma in a path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    made = cache.entry("packages-x", write)
    monkeypatch.setattr(cache.process, "marked", lambda: [(tmp_path, "vm0", process.Process(1, 1))])
    monkeypatch.setattr(cache, "_command_line", lambda _running: f"-drive file={vm.value(made / 'file')},if=none")
    assert cache.users(made) == [f"vm0 of {tmp_path}"]
    assert cache.users(made.with_name("packages-y")) == []


def test_a_directory_of_one_command_stays_until_its_end(place):
    with cache.scratch("tree") as directory:
        (directory / "file").write_text("half")
        assert cache.is_locked(directory) and cache.entries() == [directory]
        with pytest.raises(ui.LabError, match="another ./pib command"):
            cache.remove(directory)
        cache.entry("other", write)         # sweeps
        assert (directory / "file").exists()
    assert cache.entries() == [place / "other"] and [path.name for path in (place / "locks").iterdir()] == ["other"]


def test_an_entry_that_another_command_removes_meanwhile_is_not_an_error(place, monkeypatch):
    for name in ("a", "b"):
        cache.entry(name, write)
    (place / "a" / "builder" / "work" / "x").mkdir(parents=True)
    (place / "a" / "builder" / "work" / "x" / ".lock").touch()
    found, glob = [place / "a", place / "b"], pathlib.Path.glob
    monkeypatch.setattr(pathlib.Path, "glob", lambda path, words: iter(found) if path == place else glob(path, words))
    stat = pathlib.Path.stat

    def removed(path, **options):
        """The other command removes the entry between two looks at it."""
        answer = stat(path, **options)
        if path == place / "a" and path.name in os.listdir(place):
            shutil.rmtree(path)
        return answer
    monkeypatch.setattr(pathlib.Path, "stat", removed)
    assert {path.name for path in cache.entries()} == {"a", "b"}
    cache.remove(place / "a")
    assert [path.name for path in cache.entries()] == ["b"]
