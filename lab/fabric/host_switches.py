# SPDX-License-Identifier: GPL-2.0-or-later
"""The switch of each host: its options, its certificate, its part of the topology."""

import pathlib
import subprocess

from lab.base import ui
from lab.fabric import split, switch_process, topology
from lab.hosts import place

CERTIFICATES = ("ca-cert.pem", "server-cert.pem", "server-key.pem")
OPTIONS = "options"             # file that pib-switch@.service reads
TOPOLOGY = "topology"
MOST_RANGES = 254               # ranges of GUIDs for which a certificate has room, beside its role and address


def name(number: int) -> str:
    """Name of a host's certificate, and NodeDescription of the host's switch if there is no topology."""
    return f"host{number}"


def _single(hosts: tuple[place.Host, ...], number: int) -> list[str]:
    """Options of a host's switch without a topology: all switches connect to the first host's switch."""
    words = ["--guid", f"{place.SWITCH_GUID + number:#x}", "--name", name(number)]
    if number:
        return [*words, "--connect", hosts[0].connects]
    return [*words, *(["--listen", hosts[0].listens] if len(hosts) > 1 else [])]


def _of_topology(hosts: tuple[place.Host, ...], net: topology.Net, parts: list[list[str]], number: int) -> list[str]:
    words = ["--topology", TOPOLOGY]
    if not parts:
        return words
    return words + split.options(net, parts, number, hosts[number].listens, [host.connects for host in hosts])


def options(hosts: tuple[place.Host, ...], net: topology.Net | None, parts: list[list[str]], number: int) -> list[str]:
    """Options of pib-switch on a host. parts: names of switches, by host."""
    return ["--tls", ".", *(_of_topology(hosts, net, parts, number) if net else _single(hosts, number))]


def _ranges(guids: list[int]) -> list[str]:
    """FIRST-LAST for each run of consecutive numbers."""
    runs: list[list[int]] = []
    for guid in sorted(guids):
        if runs and guid == runs[-1][1] + 1:
            runs[-1][1] = guid
        else:
            runs.append([guid, guid])
    return [f"{first:#x}-{last:#x}" for first, last in runs]


def guids(net: topology.Net | None, parts: list[list[str]], number: int) -> list[str]:
    """Ranges of the GUIDs of a host's switches, for its certificate."""
    if not net:
        return _ranges([place.SWITCH_GUID + number])
    mine = parts[number] if parts else [node.name for node in net.switches()]
    found = _ranges([net.nodes[one].guid for one in mine])
    if len(found) > MOST_RANGES:
        raise ui.LabError(f"{name(number)}: the GUIDs of its {len(mine)} switches form {len(found)} ranges, and a "
                          f"certificate has room for {MOST_RANGES}. Take more hosts, or number the switches one after "
                          "the other in the topology file (switchguid=)")
    return found


def _cert(*words: str | pathlib.Path) -> None:
    done = subprocess.run([switch_process.PROGRAM, "cert", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ui.LabError(done.stderr.strip() or f"pib-switch cert ended with status {done.returncode}. Try again")


def make_ca(directory: pathlib.Path) -> None:
    _cert("ca", directory)


def certify(directory: pathlib.Path, number: int, host: place.Host, own: list[str]) -> list[pathlib.Path]:
    """Makes a key and a certificate for the switches with these GUIDs on a host; returns the files that the host needs.
    """
    named = ["--host", host.address] if host.address else []
    _cert("switch", directory, name(number), *named, *(word for guid in own for word in ("--guid", guid)))
    return [directory / name(number) / file for file in CERTIFICATES]
