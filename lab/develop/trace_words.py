# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of a device's trace in words, with the names of the register interface's header files."""

import re
from collections.abc import Callable
from typing import Any

from lab import paths, ui
from lab.build import kernel_module

NS = 1_000_000_000
NS_PER_US = 1000
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
    """An entry of the trace as one line, or its parts."""

    def __init__(self) -> None:
        self._names = names()

    def name(self, kind: str, number: int) -> str:
        return self._names[kind].get(number, f"{number:#x}")

    def data(self, entry: Entry) -> str:
        """The payload of a WQE."""
        wqe = bytes.fromhex(entry["bytes"])
        if entry["kind"] == "recv-wqe":
            return f"{int.from_bytes(wqe[:4], 'little')} SGEs"
        return f"{int.from_bytes(wqe[8:12], 'little')} bytes inline" if wqe[1] & INLINE else f"{wqe[2]} SGEs"

    def operation(self, entry: Entry) -> str:
        """That of a send WQE."""
        return self.name("WQE", bytes.fromhex(entry["bytes"])[0])

    def answer(self, entry: Entry) -> str:
        """A command's result, or why it was refused and with which status."""
        if not entry["status"]:
            return f"OK{', ' + format(entry['result'], '#x') if entry['result'] else ''}"
        section, _, rule = entry["rule"].rpartition(".")
        status = self.name("CMD_STATUS", entry["status"])
        return f"{entry['reason']} (manual {section} rule {rule}) -> {status}"

    def _command(self, entry: Entry) -> str:
        of = f" of {entry['object']}" if entry["object"] else ""
        arrow = " refused:" if entry["status"] else " ->"
        return f"{self.name('CMD', entry['opcode'])}{of} id {entry['id']}{arrow} {self.answer(entry)}"

    def _send(self, entry: Entry) -> str:
        return f"QP {entry['qpn']:#x} send WQE {entry['counter']}: {self.operation(entry)}, {self.data(entry)}"

    def _receive(self, entry: Entry) -> str:
        return f"QP {entry['qpn']:#x} receive WQE {entry['counter']}: {self.data(entry)}"

    @staticmethod
    def _packet(entry: Entry) -> str:
        way = entry["kind"].partition("-")[2]
        return f"port {entry['port']} {way}, {entry['length']} bytes: {entry['text']}"

    def line(self, entry: Entry) -> str:
        told: dict[str, Callable[[Entry], str]] = {"command": self._command, "send-wqe": self._send,
                                                   "recv-wqe": self._receive}
        seconds, left = divmod(entry["time_ns"], NS)
        return ui.printable(f"{seconds}.{left // NS_PER_US:06}  {told.get(entry['kind'], self._packet)(entry)}")
