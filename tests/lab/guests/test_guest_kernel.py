# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of guests, their initramfs, and the emulated host."""

import subprocess

import pytest

from lab.base import paths, ui
from lab.build import debug_kernel, image, preflight
from lab.fabric import up
from lab.fabric.wanted import Wanted
from lab.guests import extra_packages, guest_kernel, initramfs, nested


def test_guest_modules_are_loaded_after_their_dependencies(tmp_path):
    (tmp_path / "modules.dep").write_text(
        "k/ext4.ko: k/jbd2.ko k/crc16.ko\nk/jbd2.ko: \nk/crc16.ko:\n"
        "k/virtio-blk.ko: k/virtio.ko k/virtio_ring.ko\nk/virtio.ko: k/virtio_ring.ko\n"
        "k/virtio_ring.ko:\n")
    order = initramfs.module_order(tmp_path, ("virtio_blk", "ext4", "builtin"))
    assert order == ["k/virtio_ring.ko", "k/virtio.ko", "k/virtio-blk.ko", "k/crc16.ko",
                     "k/jbd2.ko", "k/ext4.ko"]


def test_the_space_for_missing_images_is_computed_before_they_are_made(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = image.directory()
    assert list(guest_kernel.missing().values()) == [5]
    assert list(guest_kernel.missing(("fio",)).values()) == [5, 3]
    base.mkdir(parents=True)
    (base / "identity").write_text("packages")
    assert guest_kernel.missing() == {} and list(guest_kernel.missing(("fio",)).values()) == [3]
    assert guest_kernel.needed(("fio",), builds=False) == preflight.Needed(3)   # no tree for compilers is made
    extra_packages.directory(base, ("fio",)).mkdir()
    assert guest_kernel.missing(("fio",)) == {}
    monkeypatch.setenv(guest_kernel.VARIABLE, "lockdep")
    assert list(guest_kernel.missing(("fio",)).values()) == [8, 3]
    made = debug_kernel.directory(base, "lockdep")
    made.mkdir()
    (made / "identity").write_text("packages and kernel")
    assert guest_kernel.missing() == {} and list(guest_kernel.missing(("fio",)).values()) == [3]


@pytest.mark.parametrize("wanted, needed", [
    (Wanted(1), preflight.Needed(5, compiles=True)), (Wanted(1, packages=("fio",)), preflight.Needed(8, compiles=True)),
    (Wanted(1, image_file=paths.ROOT / "README.md"), preflight.Needed(5, run=0.5, compiles=True))])
def test_up_checks_the_space_of_its_options_before_it_builds(lab, monkeypatch, tmp_path, wanted, needed):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen = []

    def machine(**words):
        seen.append(words["needed"])
        raise ui.LabError("too little space")
    monkeypatch.setattr(up, "machine", machine)
    with pytest.raises(ui.LabError, match="too little space"):
        up.boot(lab, wanted)
    assert seen == [needed]


def test_an_unknown_guest_kernel_is_refused(monkeypatch):
    monkeypatch.setenv(guest_kernel.VARIABLE, "best")
    with pytest.raises(ui.LabError, match="lockdep"):
        guest_kernel.image()


@pytest.mark.parametrize("kind", debug_kernel.KINDS)
@pytest.mark.parametrize("release", image.RELEASES[1:])
def test_a_kernel_that_the_release_cannot_have_is_refused_before_anything_is_made(monkeypatch, kind, release):
    monkeypatch.setenv(guest_kernel.VARIABLE, kind)
    monkeypatch.setenv(image.VARIABLE, release)
    said = f"{kind} kernel .* these are of {release}. Choose --guest trixie .*PIB_KERNEL=debian"
    for function in (guest_kernel.needed, guest_kernel.written, guest_kernel.missing, guest_kernel.image):
        with pytest.raises(ui.LabError, match=said):
            function()


def test_an_emulated_host_runs_the_same_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'a b'")
    script = tmp_path / "command"
    script.write_text(nested.command(["sh", "-c", 'echo "$PIB_ACCEL|$PYTEST_ADDOPTS|$PWD|$1"', "sh", "x y"]))
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout == f"kvm|-k 'a b'|{paths.ROOT}|x y\n"
