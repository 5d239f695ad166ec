# SPDX-License-Identifier: GPL-2.0-or-later
"""The cached results of probes for KVM. A script takes QEMU's place."""

import json
import os
import time

import pytest

from lab import status
from lab.base import signals, ui
from lab.fabric import rundir, state
from lab.guests import guest_kernel, initramfs, kvm, vm

GOOD = f"#!/bin/sh\necho {kvm.MARK.decode()}\n"
BAD = "#!/bin/sh\necho >&2 'first'; echo >&2 'ioctl(KVM_CREATE_VM) failed: 16 Device or resource busy'; exit 1\n"


@pytest.fixture
def qemu(tmp_path, monkeypatch):
    """Puts a script into QEMU's place; the KVM device is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(kvm.VARIABLE, raising=False)
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(initramfs, "make", lambda _image, path: path)
    monkeypatch.setattr(vm, "QEMU", str(tmp_path / "qemu"))
    (tmp_path / "pib-hca").mkdir()

    def put(script: str) -> None:
        (tmp_path / "qemu").write_text(script)
        (tmp_path / "qemu").chmod(0o755)
    return put


def test_the_accelerator_can_be_chosen(monkeypatch, tmp_path):
    for name in kvm.ACCELERATORS:
        monkeypatch.setenv(kvm.VARIABLE, name)
        assert kvm.accelerator(tmp_path) == name
    monkeypatch.setenv(kvm.VARIABLE, "KVM")
    with pytest.raises(ui.LabError, match="kvm, tcg"):
        kvm.accelerator(tmp_path)


def test_a_working_kvm_is_cached(qemu, tmp_path):
    qemu(GOOD)
    assert kvm.accelerator(tmp_path) == "kvm"
    memory = tmp_path / "pib-hca" / "kvm.json"
    memory.write_text(json.dumps({**json.loads(memory.read_text()), "time": 0}))
    qemu(f"#!/bin/sh\n[ \"$1\" = --version ] && echo {kvm.MARK.decode()}\n")    # runs no guest any more
    assert kvm.accelerator(tmp_path) == "kvm"


def test_a_failure_of_kvm_is_cached_for_an_hour_with_its_reason(qemu, tmp_path, capsys):
    qemu(BAD)
    for _ in range(2):
        assert kvm.accelerator(tmp_path) == "tcg"
        assert "Device or resource busy" in capsys.readouterr().err
    memory = tmp_path / "pib-hca" / "kvm.json"
    known = json.loads(memory.read_text())
    qemu(GOOD.replace("#!/bin/sh", "#!/bin/sh\n[ \"$1\" = --version ] && exit"))
    assert kvm.accelerator(tmp_path) == "tcg"
    memory.write_text(json.dumps({**known, "time": time.time() - kvm.FAILURE_COUNTS_S - 1}))
    assert kvm.accelerator(tmp_path) == "kvm"


def test_a_guest_that_kvm_has_stopped_is_not_waited_for(qemu, tmp_path, capsys):
    waited = tmp_path / "waited"
    qemu("#!/bin/sh\n[ \"$1\" = --version ] && exit\necho 'KVM internal error. Suberror: 1'\n"
         f"echo RAX=0 >&2\nsleep {kvm.PROBE_S - 10}\ntouch {waited}\n")
    assert kvm.accelerator(tmp_path) == "tcg"
    assert "KVM is there but fails: KVM internal error. Suberror: 1. It is tried" in capsys.readouterr().err
    assert not waited.exists()


def test_a_guest_that_does_not_run_is_given_up(qemu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kvm, "PROBE_S", 0.1)
    qemu("#!/bin/sh\n[ \"$1\" = --version ] && exit\nexec sleep 60\n")
    assert kvm.accelerator(tmp_path) == "tcg"
    assert "no guest has run within 0.1 s" in capsys.readouterr().err


def test_a_signal_ends_the_probe(qemu, tmp_path, monkeypatch):
    """KVM may have stopped the probe's guest, whose QEMU then never ends."""
    def interrupt(*_):
        raise signals.Stopped(15)
    qemu(f"#!/bin/sh\n[ $1 = --version ] || {{ sleep 2; : >{tmp_path}/ended-by-itself; }}\n")
    monkeypatch.setattr(kvm, "_read", interrupt)
    with pytest.raises(KeyboardInterrupt):
        kvm.accelerator(tmp_path)
    assert not (tmp_path / "ended-by-itself").exists()


@pytest.mark.parametrize("script, wanted", [(GOOD, "kvm"), (BAD, "tcg")])
def test_a_result_that_cannot_be_kept_counts_for_this_command(qemu, tmp_path, capsys, script, wanted):
    """The cache may be read-only for this user."""
    (tmp_path / "pib-hca" / "kvm.json").mkdir()
    qemu(script)
    assert kvm.accelerator(tmp_path) == wanted
    assert ("Device or resource busy" in capsys.readouterr().err) == (wanted == "tcg")


def test_the_status_of_a_lab_has_the_reason(qemu, lab, capsys, monkeypatch):
    qemu(BAD)
    monkeypatch.delenv(kvm.VARIABLE)
    assert kvm.accelerator(lab.directory) == "tcg"
    lab.state = state.State(state.Place.of(lab.directory), str(rundir.make()), "tcg", "stamp")
    lab.save()
    status.status(lab)
    shown = capsys.readouterr().out
    assert "Device or resource busy" in shown and "./pib kvm --again" in shown
    lab.state.accel = "kvm"
    status.status(lab)
    assert "busy" not in capsys.readouterr().out


def test_a_user_who_may_not_open_the_device_gets_advice(tmp_path, monkeypatch, capsys):
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(kvm.VARIABLE, raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(kvm, "DEVICE", device)
    assert kvm.accelerator(tmp_path) == "tcg"
    assert f"may not open {device}" in (said := capsys.readouterr().err) and f"--groups {device.group()} " in said
    device.unlink()
    assert kvm.accelerator(tmp_path) == "tcg" and not capsys.readouterr().err


def test_a_container_without_the_groups_of_its_user_gets_advice(tmp_path, monkeypatch, capsys):
    device, number = tmp_path / "kvm", tmp_path / "number"
    device.touch()
    number.write_text(f"{device.stat().st_gid}\n")
    monkeypatch.delenv(kvm.VARIABLE, raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(kvm, "DEVICE", device)
    monkeypatch.setattr(kvm, "NO_GROUP", number)
    assert kvm.accelerator(tmp_path) == "tcg"
    assert "--group-add keep-groups" in (said := capsys.readouterr().err) and "usermod" not in said


def test_a_cache_of_an_older_version_is_ignored(qemu, tmp_path):
    qemu(GOOD)
    (tmp_path / "pib-hca" / "kvm.json").write_text('{"accel": "tcg"}')
    assert kvm.accelerator(tmp_path) == "kvm"


def test_kvm_with_again_forgets_a_cached_failure(qemu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guest_kernel, "image", lambda: tmp_path)
    qemu(BAD)
    assert status.accelerator(False) == 0 and "emulation (TCG)" in capsys.readouterr().out
    qemu(GOOD.replace("#!/bin/sh", "#!/bin/sh\n[ \"$1\" = --version ] && exit"))
    status.accelerator(False)
    assert "./pib kvm --again" in capsys.readouterr().err
    status.accelerator(True)
    assert capsys.readouterr().out == "processor: KVM\n"
