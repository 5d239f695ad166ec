# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests and the fabric that ./pib up is asked to run."""

import dataclasses
import functools
import pathlib

from lab.base import paths
from lab.build import image, kernel_module
from lab.fabric import split, switch_process, topology
from lab.guests import extra_packages, initramfs, own_image, vm
from lab.hosts import place

MOST_NODES = 32                 # a switch has 36 ports, and the guests' script `hosts` names 64 guests
NODES_PER_MIB = 16              # nodes for each additional MiB of vm0's memory: opensm needs 64 KiB a node


@dataclasses.dataclass(frozen=True)
class Wanted:
    """count: number of guests. fabric_file: topology file in which the guests replace hosts, run by `switch_processes`
    processes; None: one switch. direct: vm0 and vm1 also have a network cable to each other. hcas: False for guests
    without the device. packages: Debian packages in addition to the image's. share: a host directory that each guest
    mounts. record: name of the recordings (property `record`), to which the guest's name is added for each HCA.
    capture: file for all packets of the switch; further switch processes add their number to the name. driver:
    directory of the HCAs' driver; None: no driver. image_file: the user's own disk image, from which guests boot, with
    its driver. hosts: hosts on which libvirt runs guests and switches; empty: everything runs on this host.
    packages_place: start of a message about `packages`, with their file and line; "" if an option names them."""
    count: int
    hca_options: str = ""
    size: vm.Size = vm.Size()
    fabric_file: pathlib.Path | None = None
    direct: bool = False
    switch_processes: int = 1
    hcas: bool = True
    packages: tuple[str, ...] = ()
    share: pathlib.Path | None = None
    capture: pathlib.Path | None = None
    driver: pathlib.Path | None = kernel_module.OURS
    image_file: pathlib.Path | None = None
    hosts: tuple[place.Host, ...] = ()
    record: pathlib.Path | None = None
    packages_place: str = dataclasses.field(default="", compare=False)

    @functools.cached_property
    def net(self) -> topology.Net | None:
        return topology.load(self.fabric_file) if self.fabric_file else None

    @functools.cached_property
    def parts(self) -> list[list[str]]:
        """Names of switches, by switch process; empty if there is only one process."""
        count = len(self.hosts) or self.switch_processes
        return split.parts(self.net, count) if self.net and count > 1 else []

    @functools.cached_property
    def wiring(self) -> bytes:
        return self.fabric_file.read_bytes() if self.fabric_file else b""

    def switch_options(self, number: int) -> tuple[str, ...]:
        """Additional options of a switch process."""
        if not self.capture:
            return ()
        file = self.capture.with_stem(f"{self.capture.stem}{number or ''}")
        return "--pcap", str(file), "--pcap-format", "erf"

    def disk(self, base: pathlib.Path) -> pathlib.Path:
        """The root disk for guests of an image; it is made if it is missing."""
        return extra_packages.disk(base, self.packages, self.packages_place)

    def stamp(self, base: pathlib.Path, accel: str, artefacts: list[pathlib.Path], key: pathlib.Path) -> str:
        """A hash of everything that determines the guests: if it changes, running guests are replaced. With a topology
        file it includes the number of guests, because their places depend on it."""
        return paths.recipe_hash(
            str(base), image.identity(base), accel, self.hca_options, str(self.size), initramfs.stamp(artefacts),
            switch_process.stamp(), self.wiring, str(self.count) if self.net else "", str(self.direct),
            str(self.parts), str(self.hcas), key.read_bytes(), str(self.disk(base)), str(self.share),
            own_image.stamp(self.image_file), str(self.hosts), str(self.record))

    def described(self, base: pathlib.Path, accel: str) -> dict[str, str]:
        """The user's settings in words, by name; "" is the default. A message names those that differ."""
        return {
            "packages": ", ".join(self.packages), "image": str(self.image_file or ""), "share": str(self.share or ""),
            "topology": str(self.fabric_file or ""), "nodes of the topology": str(self.count) if self.net else "",
            "switch processes": str(self.switch_processes), "hosts": ", ".join(host.uri for host in self.hosts),
            "memory (MiB)": str(self.size.memory_mib), "cpus": str(self.size.cpus),
            "iommu": "yes" if self.size.iommu else "", "HCA's properties": self.hca_options,
            "driver": str(self.driver or ""), "recording": str(self.record or ""), "kernel and release": base.name,
            "accelerator": accel}

    def size_of(self, number: int) -> vm.Size:
        """Size of a guest. vm0, which runs the subnet manager, has more memory in a large fabric."""
        nodes = len(self.net.nodes) if self.net and number == 0 else 0
        return dataclasses.replace(self.size, memory_mib=self.size.memory_mib + nodes // NODES_PER_MIB)

    def host_of(self, number: int) -> int:
        """Number of the host of a guest: with a topology, the host of the guest's switch; otherwise guests are given to
        the hosts in turn."""
        if not self.net:
            return number % len(self.hosts)
        return self._part_of(topology.places(self.net, self.count)[number])

    def _part_of(self, host: topology.Node) -> int:
        return split.part_of(self.net, self.parts, host) if self.net and self.parts else 0

    def recording(self, number: int) -> pathlib.Path | None:
        """The recording of a guest's HCA: NAME-vm0.SUFFIX."""
        return self.record and self.record.with_stem(f"{self.record.stem}-vm{number}")

    def _options(self, number: int) -> str:
        """Additional properties of a guest's HCA, as on QEMU's command line."""
        file = self.recording(number)
        return ",".join(filter(None, (self.hca_options, f"record={vm.value(file)}" if file else "")))

    def hcas_of(self, number: int, sockets: pathlib.Path) -> list[vm.Hca]:
        """The HCAs of a guest: one, or the HCAs of the topology's host that it replaces."""
        if not self.hcas:
            return []
        if not self.net:
            address = switch_process.Switch(sockets).address
            return [vm.default_hca(number, address, self._options(number))]
        host, options = topology.places(self.net, self.count)[number], self._options(number)
        part = self._part_of(host)
        if host.ports > 1 and "ports=" not in options:
            options = ",".join(filter(None, (f"ports={host.ports}", options)))
        return [vm.Hca(switch_process.Switch(sockets, number=part).address, host.guid, host.port_guid(1), options)]
