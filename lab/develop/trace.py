# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib trace: what a guest's driver does with its device, live, in words: commands, WQEs, packets.

The device records it (property trace-entries), and is asked for it again and again."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from lab import paths, ui
from lab.build import kernel_module
from lab.fabric import cluster
from lab.guests import vm

INTERVAL_S = 0.5
NS = 1_000_000_000
ENTRIES = "trace-entries"
KINDS = {"commands": ("command",), "wqes": ("send-wqe", "recv-wqe"), "packets": ("packet-out", "packet-in")}
NAME = re.compile(r"^\tPIB_HCA_(CMD_STATUS|CMD|WQE)_(\w+) = (0x[0-9a-f]{2}),", re.MULTILINE)
HEADERS = ("pib_hca_cmd.h", "pib_hca_hw.h")
INLINE = 1 << 3                 # PIB_HCA_WQE_INLINE

Entry = dict[str, Any]


def names() -> dict[str, dict[int, str]]:
    """Names of commands (CMD), their statuses (CMD_STATUS) and operations (WQE) by number."""
    found: dict[str, dict[int, str]] = {"CMD": {}, "CMD_STATUS": {}, "WQE": {}}
    for header in HEADERS:
        text = (paths.ROOT / kernel_module.COMMON / header).read_text()
        for kind, name, number in NAME.findall(text):
            found[kind][int(number, 16)] = name
    return found


class Words:
    """An entry of the trace as one line."""

    def __init__(self) -> None:
        self._names = names()

    def _name(self, kind: str, number: int) -> str:
        return self._names[kind].get(number, f"{number:#x}")

    def _command(self, entry: Entry) -> str:
        of = f" of {entry['object']}" if entry["object"] else ""
        said = f"{self._name('CMD', entry['opcode'])}{of} id {entry['id']}"
        if entry["status"]:
            section, _, rule = entry["rule"].rpartition(".")
            return (f"{said} refused: {entry['reason']} (manual {section} rule {rule}) -> "
                    f"{self._name('CMD_STATUS', entry['status'])}")
        return f"{said} -> OK{', ' + format(entry['result'], '#x') if entry['result'] else ''}"

    def _send(self, entry: Entry) -> str:
        wqe = bytes.fromhex(entry["bytes"])
        data = f"{int.from_bytes(wqe[8:12], 'little')} bytes inline" if wqe[1] & INLINE else f"{wqe[2]} SGEs"
        return f"QP {entry['qpn']:#x} send WQE {entry['counter']}: {self._name('WQE', wqe[0])}, {data}"

    @staticmethod
    def _receive(entry: Entry) -> str:
        sges = int.from_bytes(bytes.fromhex(entry["bytes"])[:4], "little")
        return f"QP {entry['qpn']:#x} receive WQE {entry['counter']}: {sges} SGEs"

    @staticmethod
    def _packet(entry: Entry) -> str:
        way = entry["kind"].partition("-")[2]
        return f"port {entry['port']} {way}, {entry['length']} bytes: {entry['text']}"

    def line(self, entry: Entry) -> str:
        told: dict[str, Callable[[Entry], str]] = {"command": self._command, "send-wqe": self._send,
                                                   "recv-wqe": self._receive}
        seconds, left = divmod(entry["time_ns"], NS)
        return ui.printable(f"{seconds}.{left // 1000:06}  {told.get(entry['kind'], self._packet)(entry)}")


@dataclasses.dataclass
class Reader:
    """Takes what is new in a trace since the last look. wanted: kinds of entries; qpn: WQEs of this QP only."""
    wanted: frozenset[str]
    qpn: int | None = None
    _next: int = 0

    def new(self, trace: list[Entry]) -> Iterator[Entry | int]:
        """Entries; a number is that of entries which were overwritten before this look."""
        for entry in trace:
            if entry["sequence"] < self._next:
                continue
            if self._next and entry["sequence"] > self._next:
                yield entry["sequence"] - self._next
            self._next = entry["sequence"] + 1
            if entry["kind"] in self.wanted and (self.qpn is None or entry.get("qpn", self.qpn) == self.qpn):
                yield entry


def _records(monitor, slot: int) -> bool:
    # pylint: disable-next=positional-only-arguments-expected,redundant-keyword-arg
    return vm.monitor_command(monitor, "qom-get", path=f"/machine/peripheral/hca{slot}", property=ENTRIES) != 0


def trace(lab: cluster.Cluster, name: str, reader: Reader, once: bool) -> None:
    lab.node(name)
    monitor, words = lab.monitor(name), Words()
    if not _records(monitor, 0):
        raise ui.LabError(f"{name} records no trace. Boot guests that do:  ./pib up --hca-options {ENTRIES}=65536")
    while True:
        for found in reader.new(vm.device_property(monitor, "trace")):
            print(f"({found} entries were overwritten)" if isinstance(found, int) else words.line(found), flush=True)
        if once:
            return
        time.sleep(INTERVAL_S)


def _trace(options) -> int:
    chosen = [kind for kind in KINDS if getattr(options, kind)] or list(KINDS)
    wanted = frozenset(entry for kind in chosen for entry in KINDS[kind])
    try:
        trace(cluster.Cluster(), options.node, Reader(wanted, options.qp), options.once)
    except KeyboardInterrupt:
        pass
    return 0


def add_commands(add) -> None:
    command = add("trace", _trace, "show what a guest's driver does with its device, live: commands with the reasons "
                  "of refusals, WQEs, packets; Ctrl-C ends that")
    command.add_argument("node", metavar="NODE")
    for kind in KINDS:
        command.add_argument(f"--{kind}", action="store_true", help=f"{kind} (default: all)")
    command.add_argument("--qp", type=lambda text: int(text, 0), metavar="N", help="only WQEs of this QP, as 0x41")
    command.add_argument("--once", action="store_true", help="print what is recorded, and end")
