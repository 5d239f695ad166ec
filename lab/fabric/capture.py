# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib capture: packets of the running fabric, live, in the pcapng format, for Wireshark and tshark."""

import contextlib
import io
import json
import pathlib
import select
import socket
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO

from lab.base import errors, ui
from lab.fabric import cluster, control, evidence
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort, hca_ports

HEADER = struct.Struct("=II")           # type and length of a block
DROPPED = struct.Struct("=IIIIQ")      # members of a statistics block after its header; the last one is isb_ifdrop
PACKET, STATISTICS = 6, 5
LEAST = {STATISTICS: HEADER.size + DROPPED.size}        # shortest blocks of kinds that are read further
MOST_BLOCK = 1 << 20
CHUNK = 1 << 18
Rules = list[dict[str, int]]


# -- what is captured -----------------------------------------------------------

def _port_rules(ports: list[HcaPort]) -> Rules:
    return [{end: lid} for port in ports for lid in range(port.lid, port.lid + (1 << port.lmc))
            for end in ("slid", "dlid")]


def qp_rules(ports: list[HcaPort], qp: Json) -> Rules:
    """Rules for the packets of one QP. The packets of a connection have only the receiver's QPN, so packets that this
    QP sends are selected by the peer's QPN."""
    own = [lid for port in ports if port.number == qp["port"] for lid in range(port.lid, port.lid + (1 << port.lmc))]
    received = [{"dlid": lid, "qp": qp["qpn"]} for lid in own]
    if "dest_qpn" not in qp:
        return received + [{"slid": lid, "source_qp": qp["qpn"]} for lid in own]
    return received + [{"slid": lid, "dlid": path["dlid"], "qp": qp["dest_qpn"]} for lid in own
                       for path in (qp["path"], qp.get("alt_path", {})) if path.get("dlid")]


def rules(node: str, objects: list[Json], qpn: int | None) -> Rules:
    """Rules for a node's packets, or for those of its QP qpn. objects: those of the node's HCAs."""
    ports = [port for port in hca_ports(node, objects) if port.lid]
    if not ports:
        raise ui.LabError(f"{node}: no port has a LID yet. What its ports are doing:  ./pib status")
    if qpn is None:
        return _port_rules(ports)
    qps = [qp for one in objects for qp in one.get("qps", {}).get("entries", []) if qp["qpn"] == qpn]
    if not qps:
        raise ui.LabError(f"{node} has no QP {qpn:#x}. Its QPs by load:  ./pib top --once")
    return [rule for qp in qps for rule in qp_rules(ports, qp)]


def _ports(objects: list[Json], qpn: int | None) -> list[HcaPort]:
    """The ports of a node; with a QPN, only the ports of its QPs with this number."""
    return [port for one in objects for port in hca_ports("", [one]) if qpn is None or any(
        (qp["qpn"], qp.get("port")) == (qpn, port.number) for qp in one.get("qps", {}).get("entries", []))]


def _process(lab: cluster.Cluster, node: str, objects: list[Json], qpn: int | None) -> pathlib.Path:
    """Control socket of the switch process that has the ports of the node, or the port of its QP. Without a node: the
    control socket of the only process."""
    processes = lab.running_switches()
    if len(processes) == 1:
        return processes[0].control
    if not objects:
        raise ui.LabError(f"the fabric has {len(processes)} switch processes. Name a guest:  ./pib capture NODE")
    ports, found = {port.guid: port for port in _ports(objects, qpn)}, dict[pathlib.Path, list[int]]()
    for asked, name in control.every_switch(process.control for process in processes):
        for port in asked.ask("status", switch=name)["ports"]:
            if here := ports.get(int(port.get("neighbour", {}).get("port_guid", "0"), 16)):
                found.setdefault(asked.path, []).append(here.number)
    if not found:
        raise ui.LabError("no switch process has a link to this guest. What runs:  ./pib status")
    if len(found) > 1:
        places = "; ".join(f"{node}[{', '.join(map(str, numbers))}]" for numbers in found.values())
        raise ui.LabError(f"the ports of {node} are at {len(found)} switch processes ({places}), and a capture "
                          f"covers one. Name a QP:  ./pib capture {node} --qp N")
    return next(iter(found))


# -- the stream -----------------------------------------------------------------

class Losses:
    """Counts packets in the blocks of a capture. taken: captured packets. lost: packets for which the switch had no
    room."""
    def __init__(self) -> None:
        self.taken = self.lost = 0
        self._rest = b""

    def pass_on(self, data: bytes, most: int | None) -> bytes:
        """Returns the complete blocks in `data` and the rest of earlier data, until `most` packets have passed."""
        self._rest += data
        at = 0
        while len(self._rest) - at >= HEADER.size and not self.enough(most):
            kind, length = HEADER.unpack_from(self._rest, at)
            if length < LEAST.get(kind, HEADER.size) or length > MOST_BLOCK:
                raise ui.LabError("the switch's capture is of another version. Build both again:  ./pib build")
            if len(self._rest) - at < length:
                break
            if kind == PACKET:
                self.taken += 1
            elif kind == STATISTICS:
                self.lost = DROPPED.unpack_from(self._rest, at + HEADER.size)[-1]
            at += length
        done, self._rest = self._rest[:at], self._rest[at:]
        return done

    def enough(self, most: int | None) -> bool:
        return most is not None and self.taken >= most


@contextlib.contextmanager
def opened(path: pathlib.Path, wanted: Rules) -> Iterator[tuple[socket.socket, bytes]]:
    """Starts a capture; yields its socket, and bytes of the capture that arrived with the switch's answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(control.TIMEOUT_S)
        try:
            sock.connect(str(path))
            sock.sendall(json.dumps({"command": "capture", "rules": wanted}).encode() + b"\n")
            data = b""
            while b"\n" not in data and len(data) < MOST_BLOCK and (more := sock.recv(CHUNK)):
                data += more
        except TimeoutError as error:
            raise control.silence(path, "capture") from error
        except OSError as error:
            raise ui.LabError(f"{path}: no switch answers there ({error.strerror or error}). Start the lab:  "
                              "./pib up") from error
        line, _, rest = data.partition(b"\n")
        try:
            answer = control.parsed(line)
        except ValueError as error:
            raise ui.LabError(f"{path}: capture: the switch has ended, or the peer is not a switch ({error}). What "
                              "runs:  ./pib status") from error
        if not answer.get("ok"):
            raise ui.LabError(f"{path}: capture: {answer.get('error', 'refused')}")
        sock.settimeout(None)               # packets may be rare
        yield sock, rest


def _comes(sock: socket.socket, out: BinaryIO) -> bool:
    """Waits for packets, or the switch's end. Returns False if the reader of `out` ends first: on an idle fabric no
    failing write would show that."""
    events = select.poll()
    events.register(sock, select.POLLIN)
    with contextlib.suppress(io.UnsupportedOperation):      # it has no descriptor
        events.register(out, 0)     # reports errors only
    return any(descriptor == sock.fileno() for descriptor, _ in events.poll())


def relay(path: pathlib.Path, wanted: Rules, out: BinaryIO, most: int | None, begun: str = "") -> Losses:
    """Copies packets to `out` until the switch or the reader ends, `most` packets have passed, or Ctrl-C. begun:
    message to print when the capture has begun."""
    seen = Losses()
    with opened(path, wanted) as (sock, data), contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        if begun:
            ui.say(begun)
        while True:
            out.write(seen.pass_on(data, most))
            out.flush()
            if seen.enough(most) or not _comes(sock, out) or not (data := sock.recv(CHUNK)):
                break
    return seen


def capture(lab: cluster.Cluster, node: str, qpn: int | None, most: int | None) -> int:
    """Captures a node's or a QP's packets to standard output. Returns 1 if packets were lost."""
    if qpn is not None and not node:
        raise ui.LabError("--qp needs the guest that has the QP:  ./pib capture NODE --qp N")
    if sys.stdout.isatty():
        raise ui.LabError("the capture is binary. Give it to a program or a file:  ./pib capture vm0 | tshark -r -")
    if node and node not in lab.nodes():
        raise ui.LabError(f"{node} is not running (running: {', '.join(lab.nodes()) or 'none'}). What runs:  "
                          "./pib status")
    objects = evidence.objects(lab.monitor(node)) if node else []
    wanted = rules(node, objects, qpn) if node else []
    until = "Ctrl-C" if most is None else f"{most} packets have come"
    seen = relay(_process(lab, node, objects, qpn), wanted, sys.stdout.buffer, most,
                 begun=f"the capture runs until {until}")
    ui.say(f"{seen.taken} packets captured, " + (f"{seen.lost} lost: the reader was too slow" if seen.lost
                                                 else "none lost"))
    errors.end_output()             # a reader that has ended is no error, which Python would report at its exit
    return 1 if seen.lost else 0
