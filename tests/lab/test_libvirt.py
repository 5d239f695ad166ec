# SPDX-License-Identifier: GPL-2.0-or-later
"""The domain that ./pib libvirt-xml prints."""

import argparse
import subprocess
import xml.etree.ElementTree as xml

import pytest

from lab import libvirt
from lab.base import ui
from lab.fabric.wanted import Wanted
from lab.guests import libvirt_xml, vm

ARG, ENV = (f"{{{libvirt_xml.NAMESPACE}}}{name}" for name in ("arg", "env"))


@pytest.fixture(name="disk")
def _disk(tmp_path):
    disk = tmp_path / "a & b"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1M"], check=True)
    return disk


def shown(capsys, *words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=32)
    parser.add_argument("--fabric", default="")
    libvirt.add_options(parser)
    assert libvirt.show(parser.parse_args([str(word) for word in words])) == 0
    return xml.fromstring(capsys.readouterr().out)


def test_a_domain_is_on_the_labs_fabric_unless_another_is_named(fabric, capsys, disk):
    fabric.up(Wanted(1), [])
    own = vm.default_hca(32, fabric.switch().address).argv(libvirt_xml.SLOT)
    words = [word.get("value") for word in shown(capsys, disk, "--format", "qcow2").iter(ARG)]
    assert fabric.switch().address.startswith(f"unix:{fabric.sockets()}/") and words[2:] == own[2:]


def test_a_domain_has_the_disk_and_the_hca_of_its_options(lab, capsys, disk):
    lab.up(Wanted(1), [])
    top = shown(capsys, disk, "--format", "qcow2", "--fabric", "unix:/a,b", "--memory", "2048")
    assert top.get("type") == "qemu" and top.findtext("name") == "pib-32"
    assert top.findtext("memory") == "2048" and top.findtext("vcpu") == "1"
    assert top.find("devices/disk/source").get("file") == str(disk)
    assert top.find("devices/disk/driver").get("type") == "qcow2"
    words = [word.get("value") for word in top.iter(ARG)]
    assert words[1] == "pcie-root-port,id=fabric63,chassis=64,bus=pcie.0,addr=0x1e"
    assert words[2:] == vm.default_hca(32, "unix:/a,b").argv(libvirt_xml.SLOT)[2:] and "fabric=unix:/a,,b" in words[-1]
    assert [(word.get("name"), word.get("value")) for word in top.iter(ENV)] == [
        ("LD_PRELOAD", str(lab.sockets() / vm.LINK / vm.MODULE.name) if " " in str(vm.MODULE) else str(vm.MODULE))]


def test_type_and_name_are_those_of_the_command_line(lab, capsys, disk):
    del lab
    top = shown(capsys, disk, "--format", "qcow2", "--fabric", "unix:/a", "--type", "kvm", "--name", "mine",
                "--number", "40", "--cpus", "2")
    assert top.get("type") == "kvm" and top.findtext("name") == "mine" and top.find("cpu").get("mode") == \
        "host-passthrough" and top.findtext("vcpu") == "2"
    assert "node-guid=0x0670696200010028" in [word.get("value") for word in top.iter(ARG)][-1]


def test_a_relative_socket_of_a_switch_is_where_the_user_is(lab, capsys, disk, tmp_path, monkeypatch):
    """QEMU of libvirt runs in another directory."""
    del lab
    monkeypatch.chdir(tmp_path)
    for given, wanted in (("unix:fabric", f"unix:{tmp_path}/fabric"), ("tcp:127.0.0.1:1", "tcp:127.0.0.1:1")):
        words = [word.get("value") for word in shown(capsys, disk, "--format", "qcow2", "--fabric", given).iter(ARG)]
        assert f",fabric={wanted}," in words[-1]


def test_emulated_processors_are_no_more_than_one(lab, capsys, disk):
    """libvirt cannot ask QEMU to emulate all processors in one thread."""
    del lab
    with pytest.raises(ui.LabError, match="--cpus 1, or take a host with KVM"):
        shown(capsys, disk, "--format", "qcow2", "--fabric", "unix:/a", "--type", "qemu", "--cpus", "2")


def test_a_guest_cannot_choose_the_format_of_its_disk(lab, capsys, disk, tmp_path):
    """A guest can write to its raw disk the header of a qcow2 image with a file of the host as backing file."""
    del lab
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, disk], check=True)
    with pytest.raises(ui.LabError, match="looks like qcow2, but a guest can.*--format raw or --format qcow2"):
        shown(capsys, disk, "--fabric", "unix:/a")
    top = shown(capsys, disk, "--fabric", "unix:/a", "--format", "raw")
    assert top.find("devices/disk/driver").get("type") == "raw"


def test_without_a_switch_or_a_disk_it_says_what_to_do(lab, capsys, disk, tmp_path):
    del lab
    advice = "(?s)no switch runs.*pib libvirt-xml DISK --format FORMAT --fabric unix:PATH"
    with pytest.raises(ui.LabError, match=advice):
        shown(capsys, disk, "--format", "qcow2")
    with pytest.raises(ui.LabError, match="no such file. Name the disk image"):
        shown(capsys, tmp_path / "none", "--fabric", "unix:/a")
