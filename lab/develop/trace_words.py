# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of a device's trace in words, with the names of the hardware interface."""

from collections.abc import Callable, Iterator
from typing import Any

from lab.base import ui
from lab.interface import description, refusals, words

NS = 1_000_000_000
NS_PER_US = 1000
UAR_BAR = 2                     # PIB_HCA_BAR_UAR
UAR_BYTES = 4096                # PIB_HCA_UAR_PAGE_SIZE
SEND_DOORBELL = "SEND"          # PIB_HCA_UAR_SEND
KICK = "KICK"                   # PIB_HCA_UAR_KICK
INLINE = 1 << 3                 # PIB_HCA_WQE_INLINE
# Events whose number is a QPN.
QP_EVENTS = {"PATH_MIGRATED", "COMM_ESTABLISHED", "SQ_DRAINED", "QP_FATAL", "QP_REQUEST_ERROR", "QP_ACCESS_ERROR",
             "PATH_MIG_FAILED", "LAST_WQE_REACHED"}

Entry = dict[str, Any]


def names() -> dict[str, dict[int, str]]:
    """Names by kind and number. Kinds: commands (CMD), their statuses (CMD_STATUS), operations (WQE), completion
    statuses (WC), events (EVENT), registers (REG), doorbells (UAR)."""
    interface = description.interface()
    sets = {"CMD": "cmd", "CMD_STATUS": "cmd_status", "WQE": "wqe_opcode", "WC": "wc", "EVENT": "event"}
    found = {kind: {number: name for name, number in interface.names[ident].of.items()} for kind, ident in sets.items()}
    for kind, registers in (("REG", interface.registers), ("UAR", interface.doorbells)):
        found[kind] = {one.offset: one.name.removeprefix(f"PIB_HCA_{kind}_") for one in registers}
    return found


class Words:
    """Formats an entry of the trace as one line, or parts of it. uars: the UAR of each known QP; kicks of
    the UAR may replace doorbells of the QP."""

    def __init__(self) -> None:
        self.uars: dict[int, int] = {}
        self._names = names()
        self._commands = {one.opcode: one for one in description.interface().commands}

    def name(self, kind: str, number: int) -> str:
        return self._names[kind].get(number, f"{number:#x}")

    def data(self, entry: Entry) -> str:
        """A WQE's number of SGEs, or the length of its inline data."""
        wqe = bytes.fromhex(entry["bytes"])
        if entry["kind"] == "recv-wqe":
            return f"{int.from_bytes(wqe[:4], 'little')} SGEs"
        return f"{int.from_bytes(wqe[8:12], 'little')} bytes inline" if wqe[1] & INLINE else f"{wqe[2]} SGEs"

    def operation(self, entry: Entry) -> str:
        """The operation of a send WQE."""
        return self.name("WQE", bytes.fromhex(entry["bytes"])[0])

    def answer(self, entry: Entry) -> str:
        """A command's result, or why it was refused."""
        if not entry["status"]:
            return f"OK{', ' + self._result(entry) if entry['result'] else ''}"
        section, _, rule = entry["rule"].rpartition(".")
        status = self.name("CMD_STATUS", entry["status"])
        return f"{status}: {entry['reason']} (manual {section} rule {rule})"

    def _result(self, entry: Entry) -> str:
        """The number that a command has returned, with its name in the interface: QPN, key."""
        command = self._commands.get(entry["opcode"])
        name = command.result if command and not command.result.endswith("*") else ""
        return f"{name} {entry['result']:#x}".lstrip()

    def asked(self, entry: Entry) -> str:
        """The input of a command that was not refused: its fields that are not 0."""
        command = self._commands.get(entry["opcode"])
        interface = description.interface()
        if not command or command.input not in interface.structs:
            return ""
        return " ".join(words.brief(interface, command.input, bytes.fromhex(entry.get("input", ""))))

    def learn(self, entry: Entry) -> None:
        """Takes the UAR of a new QP from its command."""
        command = self._commands.get(entry.get("opcode", -1)) if entry["kind"] == "command" else None
        if command is None or command.result != refusals.QPN or entry["status"]:
            return
        field = next(one for one in description.interface().structs[command.input].fields if one.name == "uar")
        given = bytes.fromhex(entry.get("input", ""))[field.offset:field.offset + field.size]
        if len(given) == field.size:
            self.uars[entry["result"]] = int.from_bytes(given, "little")

    def concerns(self, entry: Entry, qpn: int) -> bool:
        """Whether an entry is about this QP: its WQEs, their completions, its packets, its doorbell, kicks of
        its UAR, its events, commands and refusals that name it."""
        if entry["kind"] == "command":
            return qpn in self._qpns(entry)
        if entry["kind"] in ("eqe", "interrupt"):
            return self.name("EVENT", entry.get("event", -1)) in QP_EVENTS and entry["number"] == qpn
        if entry["kind"] == "store":
            return self.rung(entry) == qpn or self.kicked(entry) == self.uars.get(qpn, -1)
        if entry["kind"] == "refusal":
            return qpn in refusals.qpns(entry)
        return qpn == (entry.get("dest_qpn") if entry["kind"] == "packet-in" else entry.get("qpn"))

    def _qpns(self, entry: Entry) -> Iterator[int]:
        """The QPs that a command names: the object, or the result of one that was not refused."""
        command = self._commands.get(entry["opcode"])
        if command is None:
            return
        if command.object == refusals.QPN or refusals.QPN in command.object and self._injected(entry) in QP_EVENTS:
            yield entry["object"]
        if command.result == refusals.QPN and not entry["status"]:
            yield entry["result"]

    def _injected(self, entry: Entry) -> str:
        """The event of INJECT_EVENT, which determines the kind of the command's object."""
        return self.name("EVENT", next(iter(bytes.fromhex(entry.get("input", ""))), -1))

    def register(self, entry: Entry) -> tuple[str, str]:
        """(BAR or UAR of an accessed register, the register's name)."""
        if entry["bar"] != UAR_BAR:
            return f"BAR{entry['bar']}", self.name("REG", entry["offset"])
        uar, offset = divmod(entry["offset"], UAR_BYTES)
        return f"UAR {uar}", self.name("UAR", offset)

    def rung(self, entry: Entry) -> int | None:
        """The QPN of a store to a send doorbell; None for other entries."""
        where, name = self.register(entry)
        return int(entry["value"], 16) if where.startswith("UAR") and name == SEND_DOORBELL else None

    def kicked(self, entry: Entry) -> int | None:
        """The UAR of a kick; None for other entries."""
        where, name = self.register(entry)
        return int(where.removeprefix("UAR ")) if where.startswith("UAR") and name == KICK else None

    def event(self, entry: Entry) -> str:
        """The event of an EQE."""
        port = f" port {entry['port']}" if entry["port"] else ""
        data = f", data {entry['data']:#x}" if entry["data"] else ""
        return f"{self.name('EVENT', entry['event'])} {entry['number']}{port}{data}"

    def cause(self, entry: Entry) -> str:
        """The cause of an interrupt."""
        if "eqn" not in entry:
            return "the register TEST_IRQ"
        return f"{self.name('EVENT', entry['event'])} {entry['number']} in EQ {entry['eqn']}"

    def _access(self, entry: Entry) -> str:
        where, name = self.register(entry)
        vcpu = f", vCPU {entry['vcpu']}" if "vcpu" in entry else ""
        return f"{where} {name} {'=' if entry['kind'] == 'store' else 'is'} {entry['value']}{vcpu}"

    @staticmethod
    def _dma(entry: Entry) -> str:
        failed = ", which failed" if entry.get("failed") else ""
        way = entry["kind"].partition("-")[2]
        return f"DMA {way} of {entry['length']} bytes at {entry['address']} ({entry['purpose']}){failed}"

    def _eqe(self, entry: Entry) -> str:
        return f"EQ {entry['eqn']} EQE {entry['counter']}: {self.event(entry)}"

    def _interrupt(self, entry: Entry) -> str:
        return f"interrupt {entry['vector']}: {self.cause(entry)}"

    def _command(self, entry: Entry) -> str:
        of = f" of {entry['object']:#x}" if entry["object"] else ""
        took = (entry["time_ns"] - entry["fetched_ns"]) // NS_PER_US
        asked = " ".join(filter(None, [self.name("CMD", entry["opcode"]) + of, f"id {entry['id']}", self.asked(entry)]))
        return f"{asked} -> {self.answer(entry)}, {took} us"

    def _send(self, entry: Entry) -> str:
        return f"QP {entry['qpn']:#x} send WQE {entry['counter']}: {self.operation(entry)}, {self.data(entry)}"

    def _receive(self, entry: Entry) -> str:
        return f"QP {entry['qpn']:#x} receive WQE {entry['counter']}: {self.data(entry)}"

    def _done(self, entry: Entry) -> str:
        queue = "send" if entry["kind"] == "send-done" else "receive"
        cq = f"CQ {entry['cqn']}" if "cqn" in entry else "no CQE"
        return f"QP {entry['qpn']:#x} {queue} WQE {entry['counter']} -> {self.name('WC', entry['status'])}, {cq}"

    @staticmethod
    def _packet(entry: Entry) -> str:
        way = entry["kind"].partition("-")[2]
        return f"port {entry['port']} {way}, {entry['length']} bytes: {entry['text']}"

    @staticmethod
    def _refusal(entry: Entry) -> str:
        return entry["text"]

    @staticmethod
    def fields(entry: Entry) -> list[str]:
        """A line for each field of a WQE; the accesses before a refusal by a strict device; empty for other entries."""
        if "accesses" in entry:
            return [f"before that: {entry['accesses']}"]
        if entry["kind"] not in ("send-wqe", "recv-wqe"):
            return []
        wqe, interface = bytes.fromhex(entry["bytes"]), description.interface()
        if entry["kind"] == "recv-wqe":
            return words.recv_wqe(interface, wqe)
        types = interface.names["qp_type"]
        return words.send_wqe(interface, wqe, types.name(entry["qp_type"]) if "qp_type" in entry else "RC")

    def line(self, entry: Entry) -> str:
        told: dict[str, Callable[[Entry], str]] = {
            "command": self._command, "send-wqe": self._send, "recv-wqe": self._receive,
            "send-done": self._done, "recv-done": self._done, "load": self._access, "store": self._access,
            "dma-read": self._dma, "dma-write": self._dma, "eqe": self._eqe, "interrupt": self._interrupt,
            "refusal": self._refusal}
        seconds, left = divmod(entry["time_ns"], NS)
        return ui.printable(f"{seconds}.{left // NS_PER_US:06}  {told.get(entry['kind'], self._packet)(entry)}")
