# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib libvirt-xml: the domain of a virtual machine on the fabric, for virsh and virt-install.

libvirt does not know the device, so it is on QEMU's command line; virsh unplugs and plugs it by QEMU's monitor."""

import argparse
import os
import pathlib
import xml.etree.ElementTree as xml

from lab import status, ui
from lab.fabric import cluster
from lab.guests import own_image, vm

NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
SLOT = 63                       # the root port's chassis is the next number; libvirt counts its own ones from 1
ADDRESS = "0x1e"
TYPES = {"kvm": "kvm", "tcg": "qemu"}
CPUS = {"kvm": "host-passthrough", "qemu": "maximum"}


def _type(lab: cluster.Cluster) -> str:
    """As the lab's guests run; without a lab, KVM if the user may use it."""
    if lab.state:
        return TYPES[lab.state.accel]
    return "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) else "qemu"


def _add(parent: xml.Element, tag: str, text: str = "", /, **attributes: str) -> xml.Element:
    element = xml.SubElement(parent, tag, attributes)
    element.text = text or None
    return element


def _add_devices(top: xml.Element, disk: pathlib.Path) -> None:
    devices = _add(top, "devices")
    _add(devices, "emulator", f"/usr/bin/{vm.QEMU}")
    drive = _add(devices, "disk", type="file", device="disk")
    _add(drive, "driver", name="qemu", type=own_image.format_of(disk))
    _add(drive, "source", file=str(disk))
    _add(drive, "target", dev="vda", bus="virtio")
    _add(_add(devices, "interface", type="user"), "model", type="virtio")
    _add(_add(devices, "serial", type="pty"), "target", port="0")
    _add(_add(devices, "console", type="pty"), "target", type="serial", port="0")


def _device(hca: vm.Hca) -> list[str]:
    """QEMU makes these devices before those of libvirt, which have fixed places: they get the last free one."""
    option, root_port, *device = hca.argv(SLOT)
    return [option, f"{root_port},bus=pcie.0,addr={ADDRESS}", *device]


def domain(name: str, kind: str, size: vm.Size, disk: pathlib.Path, hca: vm.Hca, preload: pathlib.Path) -> str:
    """kind: libvirt's type of the domain, kvm or qemu. preload: the device's library."""
    xml.register_namespace("qemu", NAMESPACE)
    top = xml.Element("domain", type=kind)
    _add(top, "name", name)
    _add(top, "memory", str(size.memory_mib), unit="MiB")
    _add(top, "vcpu", str(size.cpus))
    _add(_add(top, "os"), "type", "hvm", arch="x86_64", machine="q35")
    _add(_add(top, "features"), "acpi")
    _add(top, "cpu", mode=CPUS[kind])
    _add_devices(top, disk)
    line = _add(top, f"{{{NAMESPACE}}}commandline")
    for word in _device(hca):
        _add(line, f"{{{NAMESPACE}}}arg", value=word)
    _add(line, f"{{{NAMESPACE}}}env", name="LD_PRELOAD", value=str(preload))
    xml.indent(top)
    return xml.tostring(top, encoding="unicode")


def show(options: argparse.Namespace) -> int:
    lab = cluster.Cluster()
    if not options.disk.is_file():
        raise ui.LabError(f"{options.disk}: no such file. Name the disk image of the virtual machine")
    hca = vm.default_hca(options.number, status.address(lab, options.fabric, "libvirt-xml DISK"))
    name, size = options.name or f"pib-{options.number}", vm.Size(options.memory, options.cpus)
    print(domain(name, options.type or _type(lab), size, options.disk.resolve(), hca, status.preload(lab)))
    return 0


def add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("disk", type=pathlib.Path, metavar="DISK",
                         help="disk image of the virtual machine, which writes to it")
    command.add_argument("--name", metavar="NAME", help="the domain's name (default: pib- and the number)")
    command.add_argument("--type", choices=sorted(CPUS), help="the domain's type (default: as the lab's guests run)")
    command.add_argument("--memory", type=int, default=vm.Size.memory_mib, metavar="MIB",
                         help=f"memory (default {vm.Size.memory_mib})")
    command.add_argument("--cpus", type=int, default=vm.Size.cpus, metavar="N", help="processors (default 1)")
