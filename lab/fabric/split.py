# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib up --split: one fabric in several switch processes, which Unix sockets join."""

import itertools
import pathlib
import re
from collections.abc import Iterable

from lab.base import ui
from lab.fabric import topology

PLAIN = re.compile(r"\w[\w.:+-]*", re.ASCII)    # neither pib-switch nor systemd splits or changes such a name


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
    """Names of the switches of each process. Switches with hosts are divided equally, and so are the others."""
    units = _units(net)
    with_hosts = [unit for unit in units
                  if any(net.nodes[peer].kind == "Ca" for switch in unit
                         for peer, _port in switch.peers.values())]
    if len(with_hosts) < count:
        raise ui.LabError(f"this topology has hosts for at most {len(with_hosts)} processes, not {count}. Choose a "
                          "smaller number")
    others = [unit for unit in units if unit not in with_hosts]
    return [[switch.name for kind in (with_hosts, others)
             for unit in kind[number * len(kind) // count:(number + 1) * len(kind) // count]
             for switch in unit] for number in range(count)]


def part_of(net: topology.Net, made: list[list[str]], host: topology.Node) -> int:
    """Number of the process of a host."""
    if not host.peers:
        raise ui.LabError(f"{host.name} has no cable in the topology file. Join it to a switch there")
    switches = {peer for peer, _port in host.peers.values()}
    return next(number for number, names in enumerate(made) if switches & set(names))


def trunks(sockets: pathlib.Path, count: int) -> list[str]:
    """For each process of this host the address at which later processes connect to it. sockets: the lab's private
    directory for sockets."""
    return [f"unix:{sockets / f'trunk{number}'}" for number in range(count)]


def _words(net: topology.Net, names: Iterable[str]) -> str:
    """Switches for an option of pib-switch: each by its name, or by its GUID if it has an unusual name."""
    return ",".join(name if PLAIN.fullmatch(name) else f"{net.nodes[name].guid:#x}" for name in names)


def options(net: topology.Net, made: list[list[str]], number: int, listens: str, connects: list[str]) -> list[str]:
    """Arguments of pib-switch for one process, which connects to all earlier processes. listens: its own address;
    connects: the address of each process as other processes use it."""
    mine = set(made[number])
    words = ["--only", _words(net, made[number])]
    if number + 1 < len(made):
        words += ["--listen", listens]
    for before in range(number):
        far = sorted({peer for name in mine for peer, _port in net.nodes[name].peers.values()}
                     & set(made[before]))
        if far:
            words += ["--connect", f"{connects[before]}={_words(net, far)}"]
    return words
