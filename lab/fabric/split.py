# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib up --split: one fabric in several switch processes, which Unix sockets join."""

import itertools
import pathlib

from lab import ui
from lab.fabric import topology


def _units(net: topology.Net) -> list[list[topology.Node]]:
    """Groups of switches that must share a process, because all ports of an adapter belong to one process."""
    unit = {switch.name: [switch] for switch in net.switches()}
    for host in net.hosts():
        for one, other in itertools.pairwise(peer for peer, _port in host.peers.values()):
            if unit[one] is not unit[other]:
                unit[one].extend(unit[other])
                for switch in unit[other]:
                    unit[switch.name] = unit[one]
    return list({id(found): found for found in unit.values()}.values())


def parts(net: topology.Net, count: int) -> list[list[str]]:
    """Names of each process's switches. Switches with hosts are divided equally, and so are switches without hosts."""
    units = _units(net)
    with_hosts = [unit for unit in units
                  if any(net.nodes[peer].kind == "Ca" for switch in unit
                         for peer, _port in switch.peers.values())]
    if len(with_hosts) < count:
        raise ui.LabError(f"this topology cannot be split into {count} processes that have hosts: "
                          f"at most {len(with_hosts)}")
    others = [unit for unit in units if unit not in with_hosts]
    return [[switch.name for kind in (with_hosts, others)
             for unit in kind[number * len(kind) // count:(number + 1) * len(kind) // count]
             for switch in unit] for number in range(count)]


def part_of(net: topology.Net, made: list[list[str]], host: topology.Node) -> int:
    switches = {peer for peer, _port in host.peers.values()}
    return next(number for number, names in enumerate(made) if switches & set(names))


def _trunk(sockets: pathlib.Path, number: int) -> str:
    """The address on which a process accepts the connections of later processes."""
    return f"unix:{sockets / f'trunk{number}'}"


def options(net: topology.Net, made: list[list[str]], number: int, sockets: pathlib.Path) -> list[str]:
    """Arguments of pib-switch for one process, which connects to all earlier ones. sockets: the lab's private directory
    for sockets."""
    mine = set(made[number])
    words = ["--only", ",".join(made[number])]
    if number + 1 < len(made):
        words += ["--listen", _trunk(sockets, number)]
    for before in range(number):
        far = sorted({peer for name in mine for peer, _port in net.nodes[name].peers.values()}
                     & set(made[before]))
        if far:
            words += ["--connect", f"{_trunk(sockets, before)}={','.join(far)}"]
    return words
