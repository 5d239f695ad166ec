# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests and the fabric that ./pib up shall run."""

import dataclasses
import functools
import pathlib

from lab import paths
from lab.build import kernel_module
from lab.fabric import split, switch_process, topology
from lab.guests import extra_packages, image, initramfs, own_image, vm
from lab.hosts import place

MOST_NODES = 32                 # a switch has 36 ports, and a guest's rc script names 64 guests
NODES_PER_MIB = 16              # opensm needs 64 KiB for each node of the fabric, and more while it computes routes


@dataclasses.dataclass(frozen=True)
class Wanted:
    """count: number of guests. fabric_file: topology with these guests as hosts, run by `switch_processes` processes;
    None: one switch. direct: vm0 and vm1 also have a network cable to each other. hcas: False for guests without the
    device. packages: Debian packages beside those of the image. share: a host directory that each guest mounts.
    record: file for what each HCA is told (property `record`); each HCA has one of its own beside it, by its guest.
    capture: file for all packets of the switch; the files of further processes are beside it. driver: directory of the
    HCAs' driver; None: they have none. image_file: a disk image of the user's own, from which guests boot,
    with its driver. hosts: those on which libvirt runs guests and switches; none: all is on this one."""
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
        """More options of a switch process."""
        if not self.capture:
            return ()
        file = self.capture.with_stem(f"{self.capture.stem}{number or ''}")
        return "--pcap", str(file), "--pcap-format", "erf"

    def disk(self, base: pathlib.Path) -> pathlib.Path:
        """The root disk for guests of an image; made when it is not there."""
        return extra_packages.disk(base, self.packages)

    def stamp(self, base: pathlib.Path, accel: str, artefacts: list[pathlib.Path], key: pathlib.Path) -> str:
        """A hash of everything that other guests would result from. With a topology file it includes the number of
        guests, on which their places depend."""
        return paths.recipe_hash(
            str(base), image.identity(base), accel, self.hca_options, str(self.size), initramfs.stamp(artefacts),
            switch_process.stamp(), self.wiring, str(self.count) if self.net else "", str(self.direct),
            str(self.parts), str(self.hcas), key.read_bytes(), str(self.disk(base)), str(self.share),
            own_image.stamp(self.image_file), str(self.hosts), str(self.record))

    def size_of(self, number: int) -> vm.Size:
        """The guest with the subnet manager has more memory in a large fabric."""
        nodes = len(self.net.nodes) if self.net and number == 0 else 0
        return dataclasses.replace(self.size, memory_mib=self.size.memory_mib + nodes // NODES_PER_MIB)

    def host_of(self, number: int) -> int:
        """The host of a guest: that of its switch, or the next one in turn."""
        if not self.net:
            return number % len(self.hosts)
        return self._part_of(topology.places(self.net, self.count)[number])

    def _part_of(self, host: topology.Node) -> int:
        return split.part_of(self.net, self.parts, host) if self.net and self.parts else 0

    def recording(self, number: int) -> pathlib.Path | None:
        """The file for the HCA of a guest: NAME-vm0.SUFFIX."""
        return self.record and self.record.with_stem(f"{self.record.stem}-vm{number}")

    def _options(self, number: int) -> str:
        """Properties of a guest's HCA."""
        file = self.recording(number)
        return ",".join(filter(None, (self.hca_options, f"record={vm.value(file)}" if file else "")))

    def hcas_of(self, number: int, sockets: pathlib.Path) -> list[vm.Hca]:
        """The devices of a guest: one of its own, or those of the topology's host that it replaces."""
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
