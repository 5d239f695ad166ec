# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of a disk image of the user's own: files that fit, errors for others, and the command line of QEMU."""

import io
import os
import pathlib
import subprocess
import tarfile

import pytest

from lab.base import ui
from lab.build import host_build
from lab.develop import commands
from lab.fabric import up
from lab.fabric.wanted import Wanted
from lab.guests import own_image

VERSION = "6.12.1-amd64"
FILES = {"systemd": "usr/lib/systemd/systemd", "udev": "usr/lib/systemd/systemd-udevd", "sshd": "usr/sbin/sshd",
         "ip": "usr/bin/ip", "opensm": "usr/sbin/opensm", "infiniband-diags": "usr/sbin/perfquery",
         "perftest": "usr/bin/ib_write_bw", "rdma-core": "usr/lib/udev/rules.d/90-rdma-hw-modules.rules",
         "provider": "usr/lib/x86_64-linux-gnu/libibverbs/libpib-rdmav59.so", "kernel": f"boot/vmlinuz-{VERSION}",
         "driver": f"usr/lib/modules/{VERSION}/modules.dep"}
KERNEL = f"lab: kernel {{}}/boot vmlinuz-{VERSION} initrd.img-{VERSION}\n"
FITS = f"lab: fits vda1 vmlinuz-{VERSION} initrd.img-{VERSION}\r\n"
EXT4 = bytes(1080) + b"\x53\xef" + bytes(1 << 20)


@pytest.fixture(name="root")
def _root(tmp_path):
    """A root file system with all that guests need, and an older kernel."""
    root = tmp_path / "root"
    for name in (*FILES.values(), "boot/vmlinuz-6.9.9-amd64", "usr/lib/modules/6.9.9-amd64/modules.dep"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("updates/dkms/pib_hca.ko.xz: kernel/ib_core.ko.xz\n")
    (root / FILES["systemd"]).write_bytes(b"\x7fELF".ljust(18, b"\0") + b"\x3e\0")
    for version in (VERSION, "6.9.9-amd64"):
        (root / f"boot/initrd.img-{version}").touch()
    (root / "lib").symlink_to("usr/lib")
    return root


def look(root: pathlib.Path) -> str:
    return subprocess.run(["sh", own_image.LOOK, root, root / "boot", root], capture_output=True, text=True,
                          check=True).stdout


def test_a_root_file_system_with_all_that_guests_need_fits(root):
    assert look(root) == KERNEL.format(root)


@pytest.mark.parametrize("name", FILES)
def test_each_missing_part_is_named(root, name):
    file = root / FILES[name]
    if name == "driver":
        for modules in root.glob("usr/lib/modules/*/modules.dep"):
            modules.write_text("kernel/ib_core.ko.xz:\n")
    elif name == "kernel":
        for initramfs in root.glob("boot/initrd*"):
            initramfs.unlink()
    else:
        file.unlink()
    assert f"lab: lacks {name}\n" in look(root)


def test_an_image_of_another_processor_is_named(root):
    (root / FILES["systemd"]).write_bytes(b"\x7fELF".ljust(18, b"\0") + b"\xb7\0")
    assert look(root) == "lab: lacks x86\n" + KERNEL.format(root)


def test_an_older_kernel_with_the_driver_is_better_than_a_newer_one_without(root):
    (root / FILES["driver"]).write_text("")
    assert look(root) == KERNEL.format(root).replace(VERSION, "6.9.9-amd64")


def test_the_scripts_report_each_name_that_is_explained():
    said = own_image.LOOK.read_text() + own_image.INIT.read_text()
    for name in own_image.LACKS:
        assert f"lacks {name}" in said or f"needs {name} " in said or f"missing={name}\n" in said, name


def test_all_missing_parts_are_explained_at_once():
    with pytest.raises(ui.LabError, match="(?s)cannot boot /d:\n- .*openssh-server\n- .*pib-hca-dkms.*user-guide.md"):
        own_image.verdict(pathlib.Path("/d"), "x\nlab: lacks sshd\r\nlab: lacks driver\r\n")


def test_a_qemu_that_ends_is_an_error_with_its_words():
    with pytest.raises(ui.LabError, match='(?s)has failed:\n.*"write" lock.*qemu-img info /d'):
        own_image.verdict(pathlib.Path("/d"), 'Failed to get shared "write" lock')


# -- files ---------------------------------------------------------------------

def qemu_img(*words):
    subprocess.run(["qemu-img", *words], check=True, capture_output=True)


@pytest.fixture(name="disk")
def _disk(tmp_path):
    """A file with the magic number of ext4."""
    disk = tmp_path / "a, disk"
    disk.write_bytes(EXT4)
    return disk


@pytest.mark.parametrize("kind", own_image.FORMATS)
def test_a_disk_in_each_format_is_accepted(disk, tmp_path, kind):
    qemu_img("convert", "-f", "raw", "-O", kind, disk, tmp_path / "converted")
    assert own_image.check(tmp_path / "converted") == kind


def test_a_disk_with_a_partition_table_is_accepted(tmp_path):
    (tmp_path / "disk").write_bytes(bytes(510) + b"\x55\xaa" + bytes(1 << 20))
    assert own_image.check(tmp_path / "disk") == "raw"


def test_files_that_are_not_disks_are_refused(disk, tmp_path):
    (tmp_path / "text").write_text("no disk\n" * 1000)
    qemu_img("create", "-f", "qcow2", tmp_path / "empty", "1M")
    for name in ("text", "empty"):
        with pytest.raises(ui.LabError, match="not a disk image.*user-guide.md"):
            own_image.check(tmp_path / name)
    qemu_img("convert", "-f", "raw", "-O", "vmdk", disk, tmp_path / "other")
    with pytest.raises(ui.LabError, match="the format is vmdk, expected raw or qcow2. .*qemu-img convert -O qcow2 "):
        own_image.check(tmp_path / "other")


def test_a_part_of_an_image_is_refused(disk, tmp_path):
    """An image could name any file of the host as another part."""
    qemu_img("create", "-f", "qcow2", "-b", disk, "-F", "raw", tmp_path / "part")
    qemu_img("create", "-f", "qcow2", "-o", f"data_file={tmp_path / 'data'}", tmp_path / "named", "1M")
    for name in ("part", "named"):
        with pytest.raises(ui.LabError, match="the rest is in another file"):
            own_image.check(tmp_path / name)


def test_a_file_that_is_not_an_image_is_refused_before_anything_is_built(tmp_path, monkeypatch, lab):
    monkeypatch.setattr(up, "machine", lambda **_: None)
    monkeypatch.setattr(host_build, "build", lambda: pytest.fail("built"))
    (tmp_path / "text").write_text("no disk")
    with pytest.raises(ui.LabError, match="not a disk image"):
        up.boot(lab, Wanted(1, image_file=tmp_path / "text"))


# -- guests --------------------------------------------------------------------

@pytest.fixture(name="fits")
def _fits(monkeypatch):
    """Simulates a guest that finds all files and hands out kernel and initramfs; returns QEMU's command lines."""
    seen = []

    def run(argv):
        seen.append(argv)
        archive = next(word for word in argv if "format=raw" in word).removeprefix("file=").split(",format")[0]
        with tarfile.open(archive, "w:") as out:
            for name in (f"vmlinuz-{VERSION}", f"initrd.img-{VERSION}"):
                member = tarfile.TarInfo(name)
                member.size = len(name)
                out.addfile(member, io.BytesIO(name.encode()))
        return FITS
    monkeypatch.setattr(own_image, "_run", run)
    monkeypatch.setattr(own_image, "_initramfs", lambda *_: pathlib.Path("/initramfs"))
    return seen


def test_guests_boot_overlays_of_the_image(lab, disk, fits):
    before = disk.read_bytes()
    lab.up(Wanted(1, image_file=disk), [])
    lab.up(Wanted(2, image_file=disk), [])
    assert len(fits) == 1 and disk.read_bytes() == before
    for name in ("vm0", "vm1"):
        line = " ".join(lab.state.commands[name].argv)
        assert f"file={lab.sockets()}/image.qcow2,format=qcow2,if=none,id=root,snapshot=on" in line
        assert f"-kernel {lab.sockets()}/image.vmlinuz -initrd {lab.sockets()}/image.initrd" in line
        assert f"systemd.hostname={name} root=/dev/vda1 rw systemd.wants=lab.service" in line
    assert (lab.sockets() / "image.initrd").read_text() == f"initrd.img-{VERSION}"
    pid = lab.running()["vm0"].pid
    os.utime(disk, (1, 1))
    lab.up(Wanted(2, image_file=disk), [])
    assert len(fits) == 2 and lab.running()["vm0"].pid != pid


def test_an_image_that_does_not_fit_leaves_nothing_behind(lab, disk, fits, monkeypatch):
    del fits
    monkeypatch.setattr(own_image, "_run", lambda _argv: "lab: lacks root\r\n")
    with pytest.raises(ui.LabError, match="no partition has an ext4 file system"):
        lab.up(Wanted(1, image_file=disk), [])
    assert not lab.running() and not lab.file.exists()


def test_driver_and_provider_of_an_own_image_are_not_exchanged(lab, disk, fits):
    lab.up(Wanted(1, image_file=disk), [])
    assert fits
    with pytest.raises(ui.LabError, match="driver and provider are those of .*a, disk.*pib up --image FILE"):
        commands.image_of(lab)
