# SPDX-License-Identifier: GPL-2.0-or-later
"""up() leaves the wanted guests running or, when it fails, the earlier ones."""

import fcntl
import os
import pathlib
import signal
import threading

import pytest

from lab.base import process, signals, ui, waiting
from lab.build import cache, guest_build
from lab.fabric import cluster, state
from lab.fabric.wanted import Wanted
from lab.guests import initramfs, vm


def strays(lab):
    return [name for directory, name, _ in process.marked() if directory == lab.directory]


def has_console(lab):
    now = state.load(lab.file)
    return now and "vm0" in now.processes and "starting" in ui.tail(pathlib.Path(now.sockets) / "vm0.console")


def test_up_starts_the_wanted_guests_and_down_ends_them(lab):
    lab.up(Wanted(2), [])
    assert lab.nodes() == ["vm0", "vm1"] and sorted(strays(lab)) == ["hub", "vm0", "vm1"]
    assert lab.node("vm1").port == 4321             # the port that the simulated QEMU reports
    pids = {name: running.pid for name, running in lab.running().items()}
    cluster.Cluster().up(Wanted(1), [])
    again = cluster.Cluster()
    assert again.running().keys() == {"hub", "vm0"} and again.running()["vm0"].pid == pids["vm0"]
    sockets = again.sockets()
    assert sorted(again.down()) == ["hub", "vm0"]
    assert not strays(lab) and not sockets.exists() and again.down() == []


@pytest.mark.parametrize("kind, limit, more, said", [
    ("no-monitor", 1, 0, "QEMU of vm0: not ready after 1 s"),
    ("ends", 60, 0, "(?s)QEMU of vm0 ended after .*a bad option"),
    ("no-boot", 60, -59, "booting: no progress for 1 s.*vm0 starting")])
def test_a_guest_that_does_not_come_up_leaves_nothing_behind(lab, monkeypatch, kind, limit, more, said):
    """limit: seconds in which QEMU must answer. more: seconds that the boot of the guest may take in addition. With the
    small sum of the last row the boot fails soon, but a slow machine has time to start the stand-in for QEMU."""
    monkeypatch.setenv("FAKE_QEMU", kind)
    monkeypatch.setattr(vm, "BOOT_S", limit)
    monkeypatch.setattr(vm, "BOOT_EACH_S", more)
    with pytest.raises(ui.LabError, match=said):
        lab.up(Wanted(1), [])
    assert not strays(lab) and not lab.file.exists()


def test_earlier_guests_survive_a_failure(lab, monkeypatch):
    lab.up(Wanted(1), [])
    before = dict(lab.state.processes)
    monkeypatch.setenv("FAKE_QEMU", "ends")
    with pytest.raises(ui.LabError, match="vm1 ended"):
        lab.up(Wanted(2), [])
    assert cluster.Cluster().state.processes == before and sorted(strays(lab)) == sorted(before)


def test_a_full_disk_leaves_no_new_guest_behind(lab, monkeypatch):
    lab.up(Wanted(1), [])
    before = sorted(strays(lab))
    save, full_since = state.State.save, []

    def full(self, file):
        full_since.extend({"vm2"} & set(self.processes))
        if full_since:
            raise OSError(28, "No space left on device")
        save(self, file)
    monkeypatch.setattr(state.State, "save", full)
    with pytest.raises(OSError, match="No space left"):
        lab.up(Wanted(3), [])
    assert sorted(strays(lab)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_up_ends_its_guests_at_a_signal(lab, monkeypatch, capfd, number):
    monkeypatch.setenv("FAKE_QEMU", "no-boot")
    handlers = {ending: signal.getsignal(ending) for ending in signals.ENDING}
    signal.signal(number, signal.default_int_handler)       # a shell's background job ignores SIGINT
    signals.raise_on_end()

    def interrupt():
        waiting.poll("vm0", lambda: "vm0" in strays(lab), 60)
        os.kill(os.getpid(), number)
    teller = threading.Thread(target=interrupt)
    teller.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lab.up(Wanted(1), [])
    finally:
        teller.join()
        for ending, handler in handlers.items():
            signal.signal(ending, handler)
    assert not strays(lab) and not lab.file.exists()
    assert "ending what this command had started: hub, vm0" in capfd.readouterr().err


def test_the_next_up_takes_over_guests_of_a_killed_one(lab, monkeypatch):
    monkeypatch.setenv("FAKE_QEMU", "no-boot")
    child = os.fork()
    if not child:
        try:
            lab.up(Wanted(1), [])
        finally:
            os._exit(1)
    waiting.poll("its console", lambda: has_console(lab), 60)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = cluster.Cluster()
    assert found.nodes() == ["vm0"]
    with pytest.raises(ui.LabError, match="has not booted"):
        found.node("vm0")
    (found.sockets() / "vm0.console").write_text(vm.READY)
    before = found.state.processes["vm0"]
    found.up(Wanted(1), [])
    assert found.state.processes["vm0"] == before and found.node("vm0").connected()


def test_an_unrecorded_process_does_not_disturb_a_new_one(lab):
    lab.up(Wanted(1), [])
    stray = lab.state.processes.pop("vm0")      # as if the command was killed before it recorded vm0
    lab.save()
    lab.up(Wanted(1), [])
    assert not stray.alive() and lab.alive("vm0") and sorted(strays(lab)) == ["hub", "vm0"]


def test_up_stops_waiting_for_a_lab_that_has_ended(lab):
    lab.up(Wanted(1), [])
    lab.check()
    other = cluster.Cluster()
    other.state.processes["vm0"].stop(signal.SIGKILL)
    with pytest.raises(ui.LabError, match="vm0 has ended"):
        lab.check()
    other.down()
    with pytest.raises(ui.LabError, match="another ./pib command has ended this lab"):
        lab.check()


def test_guests_that_run_are_connected_by_a_later_up(lab):
    """An earlier up was killed before it connected the guests."""
    lab.up(Wanted(1), [])
    lab.node("vm0").control.unlink()
    lab.up(Wanted(1), [])
    assert lab.node("vm0").control.exists()


def test_a_key_without_its_public_half_is_made_again(lab):
    lab.up(Wanted(1), [])
    public = lab.key().with_suffix(".pub")
    before = public.read_text()
    public.unlink()
    lab.up(Wanted(1), [])
    assert public.read_text() == before
    lab.key().unlink()
    first = lab.state.processes["vm0"]
    lab.up(Wanted(1), [])
    assert public.read_text() != before and lab.state.processes["vm0"] != first     # guests have the old key


def test_a_second_command_waits_and_names_the_first(lab, monkeypatch):
    said = []
    monkeypatch.setattr(ui, "say", said.append)
    began, end = threading.Event(), threading.Event()

    def hold():
        with cluster.Cluster().locked():
            began.set()
            end.wait(60)
    holder, waiter = threading.Thread(target=hold), threading.Thread(target=lab.down)
    holder.start()
    began.wait(60)
    waiter.start()
    waiting.poll("its word", lambda: said, 60)
    end.set()
    holder.join()
    waiter.join()
    assert f"process {os.getpid()}, ./pib" in said[0]


def test_locks_of_one_command_do_not_wait_for_each_other(lab):
    with lab.locked(), lab.locked():
        lab.up(Wanted(1), [])
        lab.down()
    assert not lab.running()


def test_a_process_that_does_not_end_keeps_no_other_running(lab):
    lab.up(Wanted(2), [])
    stop, stuck = process.Process.stop, lab.state.processes["vm1"]      # down() ends vm1 first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process.Process, "stop", lambda one, *first: one != stuck and stop(one, *first))
        with pytest.raises(ui.LabError, match=f"^vm1 .process {stuck.pid}. does not end, not even by SIGKILL"):
            lab.down()
    assert list(lab.running()) == ["vm1"] and lab.file.exists()
    assert cluster.Cluster(lab.directory).down() == ["vm1"] and not lab.file.exists()


def test_guests_of_a_rebuilt_image_are_started_again(lab, tmp_path):
    lab.up(Wanted(1), [])
    before = lab.state.processes["vm0"]
    lab.up(Wanted(1), [])
    assert lab.state.processes["vm0"] == before
    (tmp_path / "identity").write_text("packages of tomorrow")
    lab.up(Wanted(1), [])
    assert lab.state.processes["vm0"] != before and not before.alive()


def test_up_says_what_differs_and_that_disks_are_lost(lab, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(Wanted, "disk", lambda wanted, base: base / "-".join(("disk", *wanted.packages)))
    lab.up(Wanted(1, packages=("fio",)), [])
    assert "lost" not in capfd.readouterr().err
    cluster.Cluster().up(Wanted(1, size=vm.Size(2048)), [])
    said = capfd.readouterr().err
    assert ("the running guests differ in packages: none (now: fio); memory (MiB): 2048 (now: 1024). All guests start "
            "anew: what they have written to their disks is lost") in said
    assert said.index("is lost") < said.index("booting vm0")
    (tmp_path / "identity").write_text("packages of tomorrow")
    cluster.Cluster().up(Wanted(1, size=vm.Size(2048)), [])
    assert "the guests' image, driver or programs, or the switch, have changed" in capfd.readouterr().err


def test_up_with_fewer_guests_names_those_whose_disks_are_lost(lab, capfd):
    lab.up(Wanted(2), [])
    cluster.Cluster().up(Wanted(1), [])
    assert ("stopping vm1, because the wanted number of guests is 1: what these guests have written to their disks is "
            "lost") in capfd.readouterr().err


def test_no_other_command_replaces_what_guests_get_while_up_reads_it(lab, monkeypatch, tmp_path):
    tree, read = tmp_path / "driver", []
    tree.mkdir()

    def is_locked():
        with open(tmp_path / "results" / cache.BUILD_LOCK) as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def reads(name, answer):
        def read_it(*_):
            is_locked()
            read.append(name)
            return answer
        return read_it
    monkeypatch.setattr(guest_build, "OUT", tmp_path / "results")
    monkeypatch.setattr(initramfs, "stamp", reads("stamp", "hash"))
    monkeypatch.setattr(initramfs, "make", reads("initramfs", None))
    lab.up(Wanted(1), [tree])
    lab.up(Wanted(1), [tree])           # the guest runs
    assert read == ["stamp", "initramfs", "stamp"]
