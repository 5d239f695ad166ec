# SPDX-License-Identifier: GPL-2.0-or-later
"""The ports of the running fabric that Wireshark can capture: ports of guests and of other hosts."""

import contextlib
import dataclasses
import pathlib
import re

from lab.base import ui
from lab.fabric import capture, control, source
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort, hca_ports

WHOLE = "pib"                   # name of the interface for all packets
Guests = dict[str, list[Json]]  # objects of each HCA, by guest


@dataclasses.dataclass(frozen=True)
class Port:
    """A host's port. interface: its name in Wireshark. name: for example vm0[1]. at: the switch port that leads to it.
    control: socket of the switch process. hca: the HCA port if the host is a guest of the lab."""
    interface: str
    name: str
    at: str
    lids: tuple[int, ...]
    control: pathlib.Path
    hca: HcaPort | None = None


@dataclasses.dataclass
class Found:
    """Ports and names found in the fabric. switches: names by LID."""
    controls: list[pathlib.Path]
    guests: Guests
    ports: list[Port] = dataclasses.field(default_factory=list)
    switches: dict[int, str] = dataclasses.field(default_factory=dict)

    def port(self, interface: str) -> Port | None:
        return next((port for port in self.ports if port.interface == interface), None)

    def qps(self, port: Port) -> list[Json]:
        """QPs of the port; [] if it is not a guest's."""
        if not port.hca:
            return []
        entries = self.guests[port.hca.guest][port.hca.slot].get("qps", {}).get("entries", [])
        return [qp for qp in entries if qp["port"] == port.hca.number]


def _hca_name(port: HcaPort) -> str:
    return f"{port.guest}[{port.number}]" if port.slot == 0 else f"{port.guest}-hca{port.slot}[{port.number}]"


def interface(name: str) -> str:
    """The interface's name in Wireshark, whose preferences allow few characters: pib-vm0-1 for vm0[1]. Callers give the
    switch port for a host that is not a guest, because several hosts may have the same description."""
    return f"{WHOLE}-{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')}"


def _add(found: Found, switch: str, port: Json, asked: control.Control, known: dict[int, HcaPort]) -> None:
    peer = port["neighbour"]
    hca = known.get(int(peer["port_guid"], 16))
    lids = tuple(range(hca.lid, hca.lid + (1 << hca.lmc))) if hca and hca.lid else tuple(port["lids"])
    at = f"{switch}[{port['port']}]"
    host = next(iter(ui.printable(peer["description"]).split()), "")[:32] or peer["node_guid"]
    name = _hca_name(hca) if hca else f"{host}[{peer['port']}]"
    if lids:
        found.ports.append(Port(interface(name if hca else f"at {at}"), name, at, lids, asked.path, hca))


def _read_switch(found: Found, asked: control.Control, name: str, known: dict[int, HcaPort], others: set[str]) -> None:
    status = asked.ask("status", switch=name)
    if status["switch"]["lid"]:
        found.switches[status["switch"]["lid"]] = name
    for port in status["ports"]:
        if "neighbour" in port and port["neighbour"]["node_guid"] not in others:
            _add(found, name, port, asked, known)


def read(controls: list[pathlib.Path], guests: Guests) -> Found:
    """Reads the fabric. Leaves out ports of switches, and of phantoms, which only answer the subnet manager."""
    found = Found(controls, guests)
    known = {port.guid: port for name, objects in guests.items() for port in hca_ports(name, objects)}
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(control.Control(path)) for path in controls]
        nodes = [asked.ask("nodes")["nodes"] for asked in processes]
        others = {node["guid"] for part in nodes for node in part if node["type"] in ("switch", "phantom")}
        for asked, part in zip(processes, nodes):
            for node in part:
                if node["type"] == "switch":
                    _read_switch(found, asked, node["id"], known, others)
    return found


def now(of: source.Source) -> Found:
    controls = of.controls()
    if not controls:
        raise ui.LabError("no switch runs. Start the lab:  ./pib up")
    return read(controls, {name: [hca["objects"] for hca in guest["hcas"]]
                           for name, guest in of.guests().items() if guest})


def rules(found: Found, port: Port, qpn: int | None) -> capture.Rules:
    """The rules for the packets of a port, or of one of its QPs."""
    if qpn is None:
        return [{end: lid} for lid in port.lids for end in ("slid", "dlid")]
    qps = [qp for qp in found.qps(port) if qp["qpn"] == qpn]
    if not port.hca or not qps:
        raise ui.LabError(f"{port.name} has no QP {qpn:#x}. Its QPs by load:  ./pib top --once")
    return capture.qp_rules([port.hca], qps[0])
