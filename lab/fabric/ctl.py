# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib ctl: pib-switch ctl for the running fabric. The name of a guest stands for the switch port that leads to it."""

import pathlib
import re
import subprocess

from lab.base import ui
from lab.fabric import cluster, control, switch_process

GUEST_PORT = re.compile(r"(vm\d+)(?:\[(\d+)\])?")


def _port(picture: control.Picture, guest: str, number: int) -> str | None:
    """The switch port that leads to a guest's port, as pib-switch ctl names it."""
    switches = [node for node in picture.nodes.values() if node.kind == "switch"]
    for link in picture.links.values():
        peer = picture.nodes[link.b.guid]
        if peer.kind == "host" and peer.name.split()[:1] == [guest] and link.b.port == number:
            return str(link.a.port) if len(switches) == 1 else f"{link.a.guid}[{link.a.port}]"
    return None


def _translated(path: pathlib.Path, words: list[str]) -> list[str]:
    """The words, with switch ports in place of guests' names. Queries the fabric only if a word may name a guest,
    because a query takes a while with thousands of switches."""
    guests = [GUEST_PORT.fullmatch(word) for word in words]
    if not any(guests):
        return words
    with control.Control(path) as asked:
        picture = control.picture(asked)
    return [(guest and _port(picture, guest[1], int(guest[2] or 1))) or word for word, guest in zip(words, guests)]


def port_of(path: pathlib.Path, guest: str, number: int = 1) -> str:
    """The switch port that leads to a guest's port. path: control socket of its switch."""
    with control.Control(path) as asked:
        found = _port(control.picture(asked), guest, number)
    if not found:
        raise ui.LabError(f"port {number} of {guest} is at no switch. Look at:  ./pib status")
    return found


def _process(lab: cluster.Cluster, number: int) -> switch_process.Switch:
    running = {switch.number: switch for switch in lab.running_switches()}
    if number not in running:
        raise ui.LabError(f"--process {number}: the fabric has processes {', '.join(map(str, sorted(running)))}")
    return running[number]


def ctl(lab: cluster.Cluster, number: int, words: list[str]) -> int:
    """Runs pib-switch ctl; returns its exit status. number: that of the switch process in a split fabric."""
    switch = _process(lab, number)
    return subprocess.run([switch_process.PROGRAM, "ctl", "--control", switch.control,
                           *_translated(switch.control, words)], check=False).returncode
