# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's gdb server, which stops a guest while gdb is connected to it. It is started when it is needed, at a Unix
socket in the lab's private directory."""

import contextlib
import pathlib
import socket
from collections.abc import Iterator

from lab.base import lock, ui
from lab.fabric.cluster import Cluster
from lab.guests import vm

ANSWER_S = 10
# Packets of gdb's remote protocol. "?" makes QEMU remove all breakpoints. The second packet acknowledges the answer and
# detaches, so that the guest runs.
PACKETS = (b"$?#3f", b"+$D;1#b0")


@contextlib.contextmanager
def started(lab: Cluster, name: str) -> Iterator[pathlib.Path]:
    """Yields the server's socket, for one gdb at a time. Afterwards the server is off, and the guest runs if it ran
    before."""
    lab.node(name)              # raises LabError if the guest does not run
    place, monitor = lab.sockets() / f"{name}.gdb", lab.monitor(name)
    with lock.held(place.with_suffix(".gdb-lock")):
        ran = vm.monitor_command(monitor, "query-status")["running"]
        place.unlink(missing_ok=True)
        said = vm.monitor_line(monitor, f"gdbserver unix:{vm.value(place)},server=on,wait=off")
        if not place.exists():
            raise ui.LabError(f"QEMU of {name} does not start its gdb server: {said.strip() or 'it does not say why'}. "
                              f"Start the guest anew:  ./pib reboot {name}")
        try:
            yield place
        finally:
            if lab.alive(name):
                _end(monitor, place, ran)


def _end(monitor: pathlib.Path, place: pathlib.Path, ran: bool) -> None:
    if ran and not vm.monitor_command(monitor, "query-status")["running"]:
        _let_go(place)          # gdb was killed, and its breakpoints are still there
    vm.monitor_line(monitor, "gdbserver none")
    place.unlink(missing_ok=True)


def _let_go(place: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(ANSWER_S)
        one.connect(str(place))
        for packet in PACKETS:
            one.sendall(packet)
            said = b""
            while b"#" not in said:
                if not (more := one.recv(4096)):
                    return
                said += more
