# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources of a fabric's state: a lab, or pib-switch processes outside of the lab."""

import pathlib
from typing import Protocol

from lab.base import ui
from lab.fabric import cluster, evidence, spread, topology
from lab.fabric.evidence import Evidence, Json


class Source(Protocol):
    def controls(self) -> list[pathlib.Path]:
        """Control sockets of the fabric's processes."""

    def guests(self) -> dict[str, Json | None]:
        """State, objects and journals of each guest, as in Evidence. None: QEMU does not answer."""

    def hosts(self) -> dict[str, str]:
        """Names of the topology file's hosts by node GUID. A guest has the GUID of the host whose place it takes."""

    def evidence(self) -> Evidence:
        """State and journals of switches and guests, for ./pib why."""

    def command(self, guest: str, words: list[str]) -> list[str]:
        """The local command that runs these words in a guest; empty if there is no such guest."""


class Lab:
    """The lab in a directory, by default the lab of this checkout. Each call reads the lab's record again."""

    def __init__(self, directory: pathlib.Path | None = None):
        self.directory = directory

    def controls(self) -> list[pathlib.Path]:
        return [switch.control for switch in cluster.Cluster(self.directory).switches()]

    def guests(self) -> dict[str, Json | None]:
        return evidence.guests(cluster.Cluster(self.directory))

    def hosts(self) -> dict[str, str]:
        file = cluster.Cluster(self.directory).record.topology
        try:
            found = topology.load(pathlib.Path(file)).hosts() if file else []
        except (OSError, ui.LabError):
            return {}
        return {f"0x{host.guid:016x}": host.name for host in found}

    def evidence(self) -> Evidence:
        return evidence.collect(cluster.Cluster(self.directory))

    def command(self, guest: str, words: list[str]) -> list[str]:
        lab = cluster.Cluster(self.directory)
        return lab.node(guest).argv(words) if guest in lab.nodes() else []


class Processes:
    """Processes of pib-switch outside of the lab, which are one fabric. Its guests are unknown."""

    def __init__(self, *paths: pathlib.Path):
        self.paths = list(paths)

    def controls(self) -> list[pathlib.Path]:
        return self.paths

    def guests(self) -> dict[str, Json | None]:
        return {}

    def hosts(self) -> dict[str, str]:
        return {}

    def evidence(self) -> Evidence:
        return evidence.without_guests(self.paths)

    def command(self, guest: str, words: list[str]) -> list[str]:
        return []


def of(*paths: pathlib.Path | None) -> Source:
    """The source of a command. paths: control sockets of pib-switch processes; none: the lab."""
    if given := [path for path in paths if path]:
        return Processes(*given)
    return Lab()


def reached(command: str, paths: list[pathlib.Path]) -> Source:
    """The source of a command; an error with advice if it is the lab and its switches run on other hosts."""
    if not paths:
        spread.refuse(cluster.Cluster(), command)
    return of(*paths)
