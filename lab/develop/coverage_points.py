# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of the hardware interface that a driver can use, and whether a device's counts say that it has.

The points come from the description of the interface, the counts from the devices' property "coverage", in numbers."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from lab.interface.description import Field, Interface, Register, Struct

LEAST, BETWEEN, MOST, USED = "least", "between", "most", "not 0"
RECEIVED = 0x80                 # PIB_HCA_CQE_IS_RECV
OPERATIONS = 16                 # rows of send CQEs in the counts, before the rows of receive CQEs
FOREIGN = {"pib_hca_mad_ifc": ("mad",), "pib_hca_modify_qp": ("sq_draining",)}  # fields that the driver does not choose
# Values that a rule forbids in a command although its structure has them, with the rule's number. For a field without a
# value the rule forbids all values but 0.
FORBIDDEN = {"MODIFY_QP.attr_mask: CAP": "6.15.4", "MODIFY_QP.cur_state: RESET": "6.15.9",
             "MODIFY_QP.cur_state: INIT": "6.15.9", "MODIFY_QP.cur_state: ERR": "6.15.9",
             "MODIFY_QP.av.port": "14.1.3", "MODIFY_QP.alt_av.port": "14.1.3", "REREG_MR.mr.flags": "6.11.21",
             "INJECT_EVENT.type: COMPLETION": "6.20.7", "INJECT_EVENT.type: COMMAND": "6.20.7",
             "INJECT_EVENT.type: PAGE_FAULT": "6.20.7"}

Counts = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Point:
    """A value that a driver can use. about: the field, register or list with the value; uses: number of uses, or 1 if
    only the fact is known. error: the value stands for a driver's mistake or a failure."""
    about: str
    name: str
    uses: int
    error: bool = False

    @property
    def title(self) -> str:
        return f"{self.about}: {self.name}"


# -- counts -----------------------------------------------------------------------

def empty() -> Counts:
    return {"registers": [], "doorbells": [], "commands": [], "send_wqes": [[0] * OPERATIONS] * OPERATIONS,
            "recv_wqes": 0, "cqes": [[0] * 2 * OPERATIONS] * 2 * OPERATIONS, "cqe_flags": 0,
            "events": [0] * OPERATIONS, "port_events": 0, "causes": [0] * OPERATIONS, "rules": {}}


def _added(one: Any, other: Any) -> Any:
    """Sum of two numbers, or element by element of two nested lists of equal lengths."""
    return [_added(*pair) for pair in zip(one, other, strict=True)] if isinstance(one, list) else one + other


def _places(one: list[Counts], other: list[Counts]) -> list[Counts]:
    found: dict[int, Counts] = {}
    for place in one + other:
        old = found.get(place["offset"], {"loads": 0, "stores": 0, "bits": "0x0"})
        found[place["offset"]] = {"offset": place["offset"], "loads": old["loads"] + place["loads"],
                                  "stores": old["stores"] + place["stores"],
                                  "bits": hex(int(old["bits"], 16) | int(place["bits"], 16))}
    return [found[offset] for offset in sorted(found)]


def _command(one: Counts, other: Counts) -> Counts:
    """Merges the counts of one command. A command that was never executed has no values of input bytes."""
    known = [given for given in (one, other) if given["values"]]
    if len(known) < 2:
        return {**(known[0] if known else one), "statuses": _added(one["statuses"], other["statuses"])}
    values = [bytes(sorted({*bytes.fromhex(a), *bytes.fromhex(b)})).hex()
              for a, b in zip(one["values"], other["values"], strict=True)]
    ranges = {width: [[min(a[0], b[0]), max(a[1], b[1])] for a, b in zip(one[width], other[width], strict=True)]
              for width in ("halves", "words")}
    return {"opcode": one["opcode"], "statuses": _added(one["statuses"], other["statuses"]), "values": values, **ranges}


def merged(one: Counts, other: Counts) -> Counts:
    """The sums of the counts of two devices, or of two runs."""
    commands: dict[int, Counts] = {}
    for command in one["commands"] + other["commands"]:
        old = commands.get(command["opcode"])
        commands[command["opcode"]] = _command(old, command) if old else command
    rules = {number: one["rules"].get(number, 0) + other["rules"].get(number, 0)
             for number in one["rules"] | other["rules"]}
    return {"commands": [commands[opcode] for opcode in sorted(commands)], "rules": rules,
            **{name: _places(one[name], other[name]) for name in ("registers", "doorbells")},
            **{name: _added(one[name], other[name]) for name in ("send_wqes", "recv_wqes", "cqes", "events", "causes")},
            **{name: one[name] | other[name] for name in ("cqe_flags", "port_events")}}


def of_all(counts: list[Counts]) -> Counts:
    return functools.reduce(merged, counts, empty())


# -- points -----------------------------------------------------------------------

def _accesses(registers: list[Register], places: list[Counts]) -> Iterator[Point]:
    by_offset = {place["offset"]: place for place in places}
    for register in registers:
        halves = [by_offset.get(register.offset + at, {}) for at in range(0, register.width // 8, 4)]
        if register.access != "WO":
            yield Point(register.name, "load", sum(half.get("loads", 0) for half in halves))
        if register.access != "RO":
            yield Point(register.name, "store", sum(half.get("stores", 0) for half in halves))


def _bits(interface: Interface, places: list[Counts], register: str, names: str, shown: str = "") -> Iterator[Point]:
    offset = next(one.offset for one in interface.registers + interface.doorbells if one.name == register)
    stored = next((int(place["bits"], 16) for place in places if place["offset"] == offset), 0)
    for name, at in interface.names[names].of.items():
        if not shown or name == shown:
            yield Point(register, name, stored >> at & 1)


def _registers(interface: Interface, counts: Counts) -> Iterator[Point]:
    yield from _accesses(interface.registers, counts["registers"])
    yield from _bits(interface, counts["registers"], "PIB_HCA_REG_CONTROL", "control")
    yield from _accesses(interface.doorbells, counts["doorbells"])
    yield from _bits(interface, counts["doorbells"], "PIB_HCA_UAR_CQ_ARM", "doorbell_bits", "CQ_SOLICITED")
    yield from _bits(interface, counts["doorbells"], "PIB_HCA_UAR_EQ", "doorbell_bits", "EQ_ARM")


class _Input:
    """Values of a command's input."""

    def __init__(self, counts: Counts) -> None:
        self.values = [set(bytes.fromhex(one)) for one in counts.get("values", [])]
        self.ranges = {2: counts.get("halves", []), 4: counts.get("words", [])}

    def bits(self, at: int, size: int) -> int:
        return sum(functools.reduce(int.__or__, self.values[at + one], 0) << 8 * one for one in range(size)) \
            if self.values else 0

    def limits(self, at: int, size: int) -> set[int]:
        """All values of a field of one byte; the least and the greatest value of a larger one."""
        return self.values[at] if size == 1 else set(self.ranges[size][at // size])

    def lies_between(self, at: int, size: int, least: int, most: int) -> bool:
        """Whether the field had a value other than least and most. The counts have the set of values of each byte, so
        one byte that equals neither limit's byte proves it; so does a known value other than least and most."""
        return any(self.values[at + one] - {least >> 8 * one & 0xff, most >> 8 * one & 0xff} for one in range(size)) \
            or not self.limits(at, size) <= {least, most}


def _uses_of(field: Field, at: int, seen: _Input) -> Iterator[tuple[str, int]]:
    if field.names is not None and field.names.bits:
        bits = seen.bits(at, field.size)
        yield from ((name, bits >> field.names.of[name] & 1) for name in field.of)
    elif field.names is not None:
        values = seen.values[at] if seen.values else set()
        yield from ((name, int(field.names.of[name] in values)) for name in field.of)
    elif field.least is not None and field.most is not None:
        known = seen.limits(at, field.size) if seen.values else set()
        yield LEAST, int(field.least in known)
        if field.most - field.least > 1:
            yield BETWEEN, int(bool(seen.values) and seen.lies_between(at, field.size, field.least, field.most))
        yield MOST, int(field.most in known)
    else:
        yield USED, int(seen.bits(at, field.size) != 0)


def _fields(interface: Interface, struct: Struct, seen: _Input, at: int, about: str) -> Iterator[Point]:
    for field in struct.fields:
        title = f"{about}.{field.name}"
        if field.is_reserved or field.name in FOREIGN.get(struct.name, ()) or title in FORBIDDEN:
            continue
        if field.kind in interface.structs:
            yield from _fields(interface, interface.structs[field.kind], seen, at + field.offset, title)
            continue
        yield from (point for point in (Point(title, *use) for use in _uses_of(field, at + field.offset, seen))
                    if point.title not in FORBIDDEN)


def _commands(interface: Interface, counts: Counts) -> Iterator[Point]:
    by_opcode = {command["opcode"]: command for command in counts["commands"]}
    for command in interface.commands:
        found = by_opcode.get(command.opcode, {"statuses": [0] * OPERATIONS})
        yield Point("command", command.name, found["statuses"][0])
        if command.input in interface.structs:
            yield from _fields(interface, interface.structs[command.input], _Input(found), 0, command.name)
    statuses = interface.names["cmd_status"]
    for name, number in statuses.of.items():
        uses = sum(command["statuses"][number] for command in counts["commands"])
        yield Point("status", name, uses, name in statuses.errors)


def _entries(interface: Interface, counts: Counts) -> Iterator[Point]:
    names = interface.names
    for name, number in names["wqe_opcode"].of.items():
        yield Point("send WQE", name, sum(counts["send_wqes"][number]))
    for name, at in names["wqe_flag"].of.items():
        yield Point("send WQE", name, sum(row[flags] for row in counts["send_wqes"] for flags in range(OPERATIONS)
                                          if flags >> at & 1))
    yield Point("receive WQE", "any", counts["recv_wqes"])
    for name, number in names["cqe_opcode"].of.items():
        row = number % OPERATIONS + (OPERATIONS if number & RECEIVED else 0)
        yield Point("CQE", name, counts["cqes"][row][0])
    for name, at in names["cqe_flag"].of.items():
        yield Point("CQE", f"flag {name}", counts["cqe_flags"] >> at & 1)
    for name, number in names["wc"].of.items():
        yield Point("CQE status", name, sum(row[number] for row in counts["cqes"]), name in names["wc"].errors)
    for name, number in names["event"].of.items():
        yield Point("EQE", name, counts["events"][number], name in names["event"].errors)
    for name, at in names["port_event"].of.items():
        yield Point("EQE PORT", name, counts["port_events"] >> at & 1)
    for name, number in names["fatal"].of.items():
        if name in names["fatal"].errors:
            yield Point("fatal cause", name, counts["causes"][number], error=True)


def points(interface: Interface, counts: Counts) -> list[Point]:
    found = [*_registers(interface, counts), *_commands(interface, counts), *_entries(interface, counts)]
    return found + [Point("rule", rule.number, counts["rules"].get(rule.number, 0), error=True)
                    for rule in interface.rules]
