# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib libvirt-xml: prints the domain of a virtual machine on the fabric, for virsh."""

import argparse
import dataclasses
import os
import pathlib
import xml.etree.ElementTree as xml

from lab import status
from lab.base import ui
from lab.fabric import cluster
from lab.guests import kvm, libvirt_xml, own_image, vm

UNIX = "unix:"                  # begins the address of a switch's Unix socket


def _type(lab: cluster.Cluster) -> str:
    """libvirt's domain type: that of the lab's guests; without a lab kvm if the user may use KVM."""
    if lab.state:
        return libvirt_xml.TYPES[lab.state.accel]
    return "kvm" if kvm.usable() else "qemu"


@dataclasses.dataclass(frozen=True)
class Disk:
    file: pathlib.Path
    format: str


def _disk(file: pathlib.Path, kind: str | None) -> Disk:
    """Checks the disk image. The user must name the format: a guest can write any format's header, for example with
    another file of the host as backing file, to its raw disk, so a detected format cannot be trusted."""
    if not file.is_file():
        raise ui.LabError(f"{file}: no such file. Name the disk image of the virtual machine")
    if not kind:
        raise ui.LabError(f"{file}: which format has it? It looks like {own_image.format_of(file.resolve())}, but a "
                          "guest can make its raw disk look like any. Say so:  --format raw or --format qcow2")
    return Disk(file.resolve(), kind)


def _add_devices(top: xml.Element, disk: Disk) -> None:
    devices = libvirt_xml.add(top, "devices")
    libvirt_xml.add(devices, "emulator", f"/usr/bin/{vm.QEMU}")
    drive = libvirt_xml.add(devices, "disk", type="file", device="disk")
    libvirt_xml.add(drive, "driver", name="qemu", type=disk.format)
    libvirt_xml.add(drive, "source", file=str(disk.file))
    libvirt_xml.add(drive, "target", dev="vda", bus="virtio")
    libvirt_xml.add(libvirt_xml.add(devices, "interface", type="user"), "model", type="virtio")
    libvirt_xml.add(libvirt_xml.add(devices, "serial", type="pty"), "target", port="0")
    libvirt_xml.add(libvirt_xml.add(devices, "console", type="pty"), "target", type="serial", port="0")


def domain(name: str, kind: str, size: vm.Size, disk: Disk, hca: vm.Hca, preload: pathlib.Path) -> str:
    """The domain as XML. kind: libvirt's domain type, kvm or qemu. preload: the device's library."""
    top = xml.Element("domain", type=kind)
    libvirt_xml.add(top, "name", name)
    libvirt_xml.add(top, "memory", str(size.memory_mib), unit="MiB")
    libvirt_xml.add(top, "vcpu", str(size.cpus))
    libvirt_xml.add(libvirt_xml.add(top, "os"), "type", "hvm", arch="x86_64", machine="q35")
    libvirt_xml.add(libvirt_xml.add(top, "features"), "acpi")
    libvirt_xml.add(top, "cpu", mode=libvirt_xml.CPUS[kind])
    _add_devices(top, disk)
    libvirt_xml.add_hca(top, hca, preload)
    xml.indent(top)
    return xml.tostring(top, encoding="unicode")


def _absolute(fabric: str) -> str:
    """The address of a switch with an absolute path, because QEMU runs in another directory than this command."""
    path = fabric.removeprefix(UNIX)
    return f"{UNIX}{os.path.abspath(path)}" if path and path != fabric else fabric


def show(options: argparse.Namespace) -> int:
    lab = cluster.Cluster()
    disk = _disk(options.disk, options.format)
    hca = status.hca_of(lab, options.number, _absolute(options.fabric), "libvirt-xml DISK --format FORMAT")
    name, size = options.name or f"pib-{options.number}", vm.Size(options.memory, options.cpus)
    kind = options.type or _type(lab)
    libvirt_xml.check_processors(kind, options.cpus)
    print(domain(name, kind, size, disk, hca, status.preload(lab)))
    return 0


def add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("disk", type=pathlib.Path, metavar="DISK",
                         help="disk image of the virtual machine, which writes to it")
    command.add_argument("--format", choices=own_image.FORMATS, help="the disk image's format; has to be given")
    command.add_argument("--name", metavar="NAME", help="the domain's name (default: pib- and the number)")
    command.add_argument("--type", choices=sorted(libvirt_xml.CPUS),
                         help="the domain's type (default: that of the lab's guests)")
    command.add_argument("--memory", type=int, default=vm.Size.memory_mib, metavar="MIB",
                         help=f"memory (default {vm.Size.memory_mib})")
    command.add_argument("--cpus", type=int, default=vm.Size.cpus, metavar="N", help="processors (default 1)")
