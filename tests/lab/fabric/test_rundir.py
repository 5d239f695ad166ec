# SPDX-License-Identifier: GPL-2.0-or-later
"""The directory of sockets has a short name in /tmp, which another user may take after a clean-up."""

import os
import tempfile

import pytest

from lab.base import process, ui
from lab.fabric import rundir
from lab.fabric.wanted import Wanted


def test_a_directory_that_others_may_have_made_is_not_used(tmp_path):
    good, wide, link, file = (tmp_path / name for name in ("good", "wide", "link", "file"))
    good.mkdir(mode=0o700)
    wide.mkdir()
    wide.chmod(0o777)
    link.symlink_to(good)
    file.touch(mode=0o600)
    assert rundir.ours(good)
    assert not any(map(rundir.ours, (wide, link, file, tmp_path / "missing")))


def test_a_new_directory_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert rundir.ours(rundir.make())


@pytest.mark.parametrize("name", ["x" * 78, "a b", "a,b", "a:b"])
def test_an_unusable_directory_for_temporary_files_is_skipped(tmp_path, monkeypatch, name):
    monkeypatch.setattr(rundir, "FALLBACK", str(tmp_path))
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    made = rundir.make()
    assert made.parent == tmp_path


def test_the_path_of_the_longest_socket_fits():
    assert len(rundir.LONGEST) + len(rundir.FALLBACK) <= rundir.MOST_BYTES


def test_a_log_is_not_written_through_a_link(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "vm0.log").symlink_to(precious)
    with pytest.raises(OSError):
        process.start(["true"], tmp_path / "vm0.log", directory=tmp_path, name="vm0")
    assert precious.read_text() == "kept"


def test_up_does_not_use_a_directory_of_another_user(lab, tmp_path):
    lab.up(Wanted(1), [])
    old = lab.sockets()
    old.rename(tmp_path / "moved")
    old.mkdir()
    old.chmod(0o777)
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for name in ("vm0.log", "vm0.console", "hub.log", "initramfs.cpio"):
        (old / name).symlink_to(precious)
    try:
        with pytest.raises(ui.LabError, match="not the lab's any more"):
            lab.node("vm0")
        lab.up(Wanted(1), [])
        assert lab.sockets() != old and rundir.ours(lab.sockets())
        assert precious.read_text() == "kept" and precious.exists()
        assert sorted(os.listdir(old)) == ["hub.log", "initramfs.cpio", "vm0.console", "vm0.log"]
    finally:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()


def test_the_topology_is_written_at_each_up(lab, tmp_path):
    file = tmp_path / "fabric.topo"
    file.write_text('switchguid=0x1(1)\nSwitch\t4 "leaf"\n[1]\t"vm0"[1]\n\n'
                    'caguid=0x2\nCa\t1 "vm0"\n[1](3)\t"leaf"[1]\n')
    lab.up(Wanted(1, fabric_file=file), [])
    (lab.directory / "topology").unlink()
    lab.up(Wanted(1, fabric_file=file), [])
    assert (lab.directory / "topology").read_bytes() == file.read_bytes()
    assert lab.state.topology == str(lab.directory / "topology")
