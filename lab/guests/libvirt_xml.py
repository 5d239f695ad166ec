# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of libvirt domains with an HCA.

libvirt does not know the device, so the domain has it in its additions to QEMU's command line. virsh can unplug and
plug it by commands of QEMU's monitor."""

import pathlib
import xml.etree.ElementTree as xml

from lab.base import ui
from lab.guests import vm

NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
# Slot of the HCA. The chassis of the root port is the next number, because libvirt counts its own chassis from 1.
SLOT = 63
ADDRESS = "0x1e"
TYPES = {"kvm": "kvm", "tcg": "qemu"}
CPUS = {"kvm": "host-passthrough", "qemu": "maximum"}


def check_processors(kind: str, cpus: int) -> None:
    """Refuses several emulated processors: a domain cannot choose one thread for all of them, as vm.py does."""
    if kind == "qemu" and cpus > 1:
        raise ui.LabError("libvirt runs each emulated processor in a thread of its own, and QEMU then sometimes "
                          "crashes when the guest boots. Give the guest one processor:  --cpus 1, or take a host "
                          "with KVM")


def add(parent: xml.Element, tag: str, text: str = "", /, **attributes: str) -> xml.Element:
    element = xml.SubElement(parent, tag, attributes)
    element.text = text or None
    return element


def _device(hca: vm.Hca) -> list[str]:
    """Options for the device and its root port. QEMU creates these devices before libvirt's, which have fixed
    addresses, so the root port gets an address that libvirt does not use."""
    option, root_port, *device = hca.argv(SLOT)
    return [option, f"{root_port},bus=pcie.0,addr={ADDRESS}", *device]


def add_hca(top: xml.Element, hca: vm.Hca, preload: pathlib.Path) -> None:
    """Adds an HCA to a domain. preload: the device's library."""
    xml.register_namespace("qemu", NAMESPACE)
    line = add(top, f"{{{NAMESPACE}}}commandline")
    for word in _device(hca):
        add(line, f"{{{NAMESPACE}}}arg", value=word)
    add(line, f"{{{NAMESPACE}}}env", name="LD_PRELOAD", value=str(preload))
