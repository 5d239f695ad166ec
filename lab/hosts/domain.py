# SPDX-License-Identifier: GPL-2.0-or-later
"""The libvirt domain of a lab's guest on another host. Files and programs are at the places of Debian's packages."""

import dataclasses
import pathlib
import xml.etree.ElementTree as xml

from lab.guests import libvirt_xml, vm
from lab.hosts import place

PRELOAD = pathlib.Path("/usr/lib/x86_64-linux-gnu/pib-hca/libpib-hca.so")   # in the package qemu-pib-hca
KERNEL, INITRD, DISK = "vmlinuz", "initramfs.cpio", "root.ext4"             # in the lab's storage pool on the host
CHANNEL = "pib.ssh"             # virtio port of the guest's ssh server; the guest's script "channel" knows it
MARK = "urn:pib-hca:libvirt"    # namespace of the element that the hook of libvirt looks for
NO_LAN = "lab.lan=fabric"       # makes guests' names resolve to addresses on the fabric


def _add_boot(top: xml.Element, machine: vm.Machine, names: place.Names) -> None:
    system = libvirt_xml.add(top, "os")
    libvirt_xml.add(system, "type", "hvm", arch="x86_64", machine="q35")
    libvirt_xml.add(system, "kernel", str(names.guest_files / KERNEL))
    libvirt_xml.add(system, "initrd", str(names.guest_files / INITRD))
    libvirt_xml.add(system, "cmdline", f"{machine.line()} {NO_LAN}")
    for event in ("on_reboot", "on_crash"):
        libvirt_xml.add(top, event, "destroy")


def _add_processor(top: xml.Element, kind: str) -> None:
    """Adds the same processor as guests on this host have."""
    libvirt_xml.add(libvirt_xml.add(top, "features"), "acpi")
    cpu = libvirt_xml.add(top, "cpu", mode=libvirt_xml.CPUS[kind])
    if kind == "qemu":
        libvirt_xml.add(cpu, "feature", name="la57", policy="disable")


def _add_devices(top: xml.Element, machine: vm.Machine, names: place.Names) -> None:
    devices = libvirt_xml.add(top, "devices")
    libvirt_xml.add(devices, "emulator", f"/usr/bin/{vm.QEMU}")
    drive = libvirt_xml.add(devices, "disk", type="file", device="disk")
    libvirt_xml.add(drive, "driver", name="qemu", type="qcow2", cache="unsafe")
    libvirt_xml.add(drive, "source", file=str(names.guest_files / f"{machine.name}.qcow2"))
    libvirt_xml.add(drive, "target", dev="vda", bus="virtio")
    libvirt_xml.add(libvirt_xml.add(devices, "serial", type="pty"), "target", port="0")
    libvirt_xml.add(libvirt_xml.add(devices, "console", type="pty"), "target", type="serial", port="0")
    libvirt_xml.add(libvirt_xml.add(devices, "channel", type="unix"), "target", type="virtio", name=CHANNEL)
    libvirt_xml.add(libvirt_xml.add(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
    libvirt_xml.add(devices, "controller", type="usb", model="none")
    libvirt_xml.add(devices, "memballoon", model="none")


def text(machine: vm.Machine, names: place.Names) -> str:
    """The domain as XML. The libvirt hook recognizes the domain by its metadata element, and starts the host's switch
    first."""
    kind = libvirt_xml.TYPES[machine.accel]
    top = xml.Element("domain", type=kind)
    libvirt_xml.add(top, "name", names.domain(machine.name))
    # The element declares the namespace itself, because the hook, a shell script, searches for the declaration.
    libvirt_xml.add(libvirt_xml.add(top, "metadata"), "pib:switch", names.lab, **{"xmlns:pib": MARK})
    libvirt_xml.add(top, "memory", str(machine.size.memory_mib), unit="MiB")
    libvirt_xml.add(top, "vcpu", str(machine.size.cpus))
    _add_boot(top, machine, names)
    _add_processor(top, kind)
    _add_devices(top, machine, names)
    for hca in machine.hcas:        # one, or none
        libvirt_xml.add_hca(top, dataclasses.replace(hca, fabric=names.fabric), PRELOAD)
    xml.indent(top)
    return xml.tostring(top, encoding="unicode")
