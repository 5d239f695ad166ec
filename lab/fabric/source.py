# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources of a fabric's state: a lab, or one pib-switch process outside of the lab."""

import pathlib
from typing import Protocol

from lab.fabric import cluster, evidence
from lab.fabric.evidence import Evidence, Json


class Source(Protocol):
    def controls(self) -> list[pathlib.Path]:
        """Control sockets of the fabric's processes."""

    def guests(self) -> dict[str, Json | None]:
        """State, objects and journals of each guest, as in Evidence. None: QEMU does not answer."""

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

    def evidence(self) -> Evidence:
        return evidence.collect(cluster.Cluster(self.directory))

    def command(self, guest: str, words: list[str]) -> list[str]:
        lab = cluster.Cluster(self.directory)
        return lab.node(guest).argv(words) if guest in lab.nodes() else []


class OneProcess:
    """A pib-switch process outside of the lab, whose guests are unknown."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def controls(self) -> list[pathlib.Path]:
        return [self.path]

    def guests(self) -> dict[str, Json | None]:
        return {}

    def evidence(self) -> Evidence:
        return evidence.without_guests([self.path])

    def command(self, guest: str, words: list[str]) -> list[str]:
        return []


def of(path: pathlib.Path | None) -> Source:
    """The source of a command. path: control socket of a pib-switch; None: the lab."""
    if path:
        return OneProcess(path)
    return Lab()
