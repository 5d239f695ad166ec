# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of the lab that need no guest."""

import subprocess

import pytest

from lab import paths, ui
from lab.build import builder
from lab.guests import debug_kernel, guest_kernel, image, initramfs, nested


def test_guest_modules_are_loaded_after_their_dependencies(tmp_path):
    (tmp_path / "modules.dep").write_text(
        "k/ext4.ko: k/jbd2.ko k/crc16.ko\nk/jbd2.ko: \nk/crc16.ko:\n"
        "k/virtio-blk.ko: k/virtio.ko k/virtio_ring.ko\nk/virtio.ko: k/virtio_ring.ko\n"
        "k/virtio_ring.ko:\n")
    order = initramfs.module_order(tmp_path, ("virtio_blk", "ext4", "builtin"))
    assert order == ["k/virtio_ring.ko", "k/virtio.ko", "k/virtio-blk.ko", "k/crc16.ko",
                     "k/jbd2.ko", "k/ext4.ko"]


def test_parts_of_a_recipe_are_separated():
    assert paths.recipe_hash("ab", "c") != paths.recipe_hash("a", "bc")


def test_only_changed_sources_are_touched(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.c", "b.c", "c.o"):
        (source / name).write_text(name)
    tools = builder.Builder(tmp_path)
    tools.bring(source, "x")
    kept = (tools.work / "x" / "a.c").stat().st_mtime_ns
    (tools.work / "x" / "a.o").write_text("product")
    (source / "b.c").unlink()
    (source / "d.c").write_text("d")
    tools.bring(source, "x")
    assert sorted(path.name for path in (tools.work / "x").iterdir()) == ["a.c", "a.o", "d.c"]
    assert (tools.work / "x" / "a.c").stat().st_mtime_ns == kept


def test_an_option_that_the_kernel_drops_is_an_error():
    wanted = "# why\nCONFIG_A=y\nCONFIG_B=\"x\"\n"
    assert debug_kernel.missing(wanted, "CONFIG_B=\"x\"\n# CONFIG_A is not set\n") == ["CONFIG_A=y"]
    assert not debug_kernel.missing(wanted, "CONFIG_A=y\nCONFIG_B=\"x\"\nCONFIG_C=y\n")


def test_an_unknown_guest_release_is_refused(monkeypatch):
    monkeypatch.setenv(image.VARIABLE, "woody")
    with pytest.raises(ui.LabError, match="bookworm"):
        image.directory()


def test_each_release_has_an_image_of_its_own(monkeypatch):
    names = set()
    for release in image.RELEASES:
        monkeypatch.setenv(image.VARIABLE, release)
        names.add(image.directory())
    assert len(names) == len(image.RELEASES)


def test_an_unknown_guest_kernel_is_refused(monkeypatch):
    monkeypatch.setenv(guest_kernel.VARIABLE, "best")
    with pytest.raises(ui.LabError, match="lockdep"):
        guest_kernel.image()


def test_an_emulated_host_runs_the_same_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'a b'")
    script = tmp_path / "command"
    script.write_text(nested.command(["sh", "-c", 'echo "$PIB_ACCEL|$PYTEST_ADDOPTS|$PWD|$1"', "sh", "x y"]))
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout == f"kvm|-k 'a b'|{paths.ROOT}|x y\n"
