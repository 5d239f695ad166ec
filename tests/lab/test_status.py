# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib status shows running processes and does not wait long for a silent guest."""

import re
import signal

import pytest

from lab import status
from lab.base import paths, ui
from lab.build import debug_kernel, image
from lab.fabric import cluster, subnet, switch_process
from lab.fabric.wanted import Wanted
from lab.guests import guest_kernel

PORT = subnet.Port("vm0", "pib_0", 1, "0x0670696200020000", 1, 1, "ACTIVE", "LinkUp", "100 Gb/sec (4X EDR)")


def test_running_processes_are_shown(lab, capsys):
    assert status.status(lab) == 1 and "Nothing runs" in capsys.readouterr().out
    lab.up(Wanted(1), [])
    assert status.status(cluster.Cluster()) == 0
    shown = capsys.readouterr().out
    assert shown.count("running") == 2 and "hub" in shown and "vm0" in shown and lab.state.sockets in shown


def test_a_guest_that_does_not_answer_is_named_and_the_others_are_shown(lab, capsys, monkeypatch):
    ask = subnet.ports_of

    def ports_of(node, timeout_s):
        return [PORT] if node.name == "vm0" else ask(node, timeout_s)
    monkeypatch.setattr(subnet, "ports_of", ports_of)
    lab.up(Wanted(2), [])
    monkeypatch.setattr(status, "ANSWER_S", 1)
    monkeypatch.setenv("FAKE_SSH", "hangs")
    assert status.status(cluster.Cluster()) == 1
    shown = capsys.readouterr().out
    assert "\nvm1: does not answer within 1 s" in shown and re.search(rf"^vm0 .*{PORT.guid}.* ACTIVE ", shown, re.M)


def test_advice_names_the_installed_command(lab, capsys, monkeypatch):
    lab.up(Wanted(1), [])
    monkeypatch.setattr(paths, "COMMAND", "pib")
    monkeypatch.setattr(guest_kernel, "is_current", lambda *_: False)
    monkeypatch.setattr(status.labs, "running", lambda: {lab.directory / "guest": ["vm0"]})
    monkeypatch.setattr(status.subnet_progress, "look", lambda _controls: "SUBNET UP")
    status.status(lab)
    said = capsys.readouterr().out + status.seen_by(switch_process.Switch(lab.sockets(), topology="a"))
    assert "./pib" not in said and all(f"  pib {word}" in said for word in ("up", "down --all")) and "pib map" in said


def test_ended_processes_are_shown(lab, capsys):
    lab.up(Wanted(1), [])
    lab.state.processes["vm0"].stop(signal.SIGKILL)
    assert status.status(cluster.Cluster()) == 1
    assert "vm0      ended" in capsys.readouterr().out


def test_down_names_the_ended_processes(lab, capsys):
    lab.up(Wanted(1), [])
    assert status.down(False) == 0
    assert capsys.readouterr().out == "ended: hub, vm0\n"
    assert status.down(True) == 0
    assert capsys.readouterr().out == "nothing ran\n"


@pytest.mark.parametrize("error, said", [
    (ui.LabError("vm0 (process 7) does not end"), r"a: vm0 \(process 7\) does not end"),
    (PermissionError(13, "Permission denied", "/x/lock"), "a: /x/lock: Permission denied")], ids=["stuck", "sudo"])
def test_a_lab_that_does_not_end_keeps_no_other_lab_running(lab, capsys, monkeypatch, error, said):
    lab.up(Wanted(1), [])
    stuck = lab.directory / "a"         # it is ended after the user's lab, and before b
    other = cluster.Cluster(lab.directory / "b")
    other.up(Wanted(1), [])
    monkeypatch.setattr(status.labs, "running", lambda: {stuck: ["vm0"]})
    down = status.labs.down

    def down_but_one(directory):
        if directory == stuck:
            raise error
        return down(directory)
    monkeypatch.setattr(status.labs, "down", down_but_one)
    try:
        with pytest.raises(ui.LabError, match=f"^{said}$"):
            status.down(True)
        assert capsys.readouterr().out == "ended: hub, vm0\nended: hub, vm0 of b\n"
        assert not other.running() and not lab.running()
    finally:
        other.down()


@pytest.mark.parametrize("change", ["recipe", "packages", "removed", None])
def test_an_image_older_than_its_recipe_is_reported(lab, capsys, monkeypatch, tmp_path, change):
    monkeypatch.setattr(image, "directory", lambda name="": tmp_path / ("" if name == image.RELEASES[0] else name))
    lab.up(Wanted(1), [])
    if change == "recipe":
        monkeypatch.setattr(image, "directory", lambda name="": tmp_path / f"{name}-new")
    elif change == "packages":
        (tmp_path / "identity").write_text("others")
    elif change:
        (tmp_path / "identity").unlink()
    status.status(cluster.Cluster())
    assert ("older than its recipe" in capsys.readouterr().out) == bool(change)


@pytest.mark.parametrize("kind", debug_kernel.KINDS)
def test_a_debug_kernel_is_outdated_when_its_base_image_changes(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = image.directory(image.RELEASES[0])
    base.mkdir(parents=True)
    (base / "identity").write_text("base")
    made = debug_kernel.directory(base, kind)
    made.mkdir()
    (made / "identity").write_text("its own")
    assert guest_kernel.is_current(made, "its own") and guest_kernel.is_current(base, "base")
    (base / "identity").write_text("another base")
    assert not guest_kernel.is_current(made, "its own")
