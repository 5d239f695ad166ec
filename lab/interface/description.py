# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the description of the hardware interface in hw-interface/: registers, commands, structures, names of values,
rules. hw-interface/README.md describes the format."""

import dataclasses
import functools
import pathlib
import re
import tomllib
from typing import Any

from lab.base import paths

FOLDER = paths.ROOT / "hw-interface"
PARTS = ("regs", "cmd", "hw", "rules")
TYPE = re.compile(r"(\w+?)(?:\[(\d+)\])?")
NUMBERS = {"u8": 1, "le16": 2, "le32": 4, "le64": 8, "be32": 4}
COMMANDS = "cmd"                # the Names that the list of commands defines
ALL_BUT = "all but "


@dataclasses.dataclass(frozen=True)
class Register:
    """A register or a doorbell. offset: in bytes. width: in bits. access: RO, WO or RW. reset: value after reset, as
    text of the manual."""
    name: str
    offset: int
    width: int
    access: str
    reset: str


@dataclasses.dataclass(frozen=True)
class Names:
    """Names of values, or of single bits (bits: True). of: value, or bit number, by the name without the prefix.
    errors: names that stand for an error."""
    prefix: str
    bits: bool
    of: dict[str, int]
    errors: frozenset[str] = frozenset()

    def name(self, number: int) -> str:
        """The name of a value; for flags the names of all set bits, joined by "|"."""
        if not self.bits:
            return next((name for name, value in self.of.items() if value == number), f"{number:#x}")
        known = [name for name, place in self.of.items() if number >> place & 1]
        rest = number & ~sum(1 << place for place in self.of.values())
        return "|".join(known + ([f"{rest:#x}"] if rest or not known else []))

    def constant(self, name: str) -> int:
        return 1 << self.of[name] if self.bits else self.of[name]


@dataclasses.dataclass(frozen=True)
class Field:
    """A field. offset and size: in bytes. kind: a key of NUMBERS, or a structure's name; count: number of elements.
    names: names of values; the field can have those in `of`. least and most: range of a number, if it has one."""
    name: str
    offset: int
    size: int
    kind: str
    count: int
    names: Names | None = None
    of: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS and self.count == 1

    @property
    def is_reserved(self) -> bool:
        return self.name.startswith("reserved")


@dataclasses.dataclass(frozen=True)
class Struct:
    name: str
    size: int
    fields: tuple[Field, ...]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command. input and output: a structure's name or another description; "" for none."""
    name: str
    opcode: int
    object: str = ""
    input: str = ""
    output: str = ""
    result: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of the manual. answer: what follows if it is broken: the command's status, the work request's
    vendor_error, or another description. of: the commands or WQEs to which it applies; field: STRUCT.FIELD, or a name
    alone."""
    number: str
    answer: str
    of: str = ""
    field: str = ""


@dataclasses.dataclass
class Interface:
    registers: list[Register] = dataclasses.field(default_factory=list)
    doorbells: list[Register] = dataclasses.field(default_factory=list)
    numbers: dict[str, int] = dataclasses.field(default_factory=dict)
    names: dict[str, Names] = dataclasses.field(default_factory=dict)
    structs: dict[str, Struct] = dataclasses.field(default_factory=dict)
    commands: list[Command] = dataclasses.field(default_factory=list)
    rules: list[Rule] = dataclasses.field(default_factory=list)

    def constants(self) -> dict[str, int]:
        """All constants of the headers, by name."""
        found = {register.name: register.offset for register in self.registers + self.doorbells} | self.numbers
        for names in self.names.values():
            found |= {names.prefix + name: names.constant(name) for name in names.of}
        return found


def _names(prefix: str, bits: bool, of: dict[str, int], errors: str = "") -> Names:
    wrong = set(of) - set(errors[len(ALL_BUT):].split()) if errors.startswith(ALL_BUT) else set(errors.split())
    if not wrong <= set(of):
        raise ValueError(f"{prefix}: errors has {', '.join(sorted(wrong - set(of)))}. Name values of {prefix} only")
    return Names(prefix, bits, of, frozenset(wrong))


def _type(text: str) -> tuple[str, int]:
    """Parses a type such as le16[4] into (kind, count)."""
    found = TYPE.fullmatch(text)
    if not found:
        raise ValueError(f"{text} is not a type. Give one as u8, le16[4] or a structure's name")
    return found[1], int(found[2] or 1)


def _number(interface: Interface, bound: int | str) -> int:
    return bound if isinstance(bound, int) else interface.numbers[bound]


def _field(interface: Interface, offset: int, given: dict[str, Any]) -> Field:
    kind, count = _type(given["type"])
    size = count * (NUMBERS.get(kind) or interface.structs[kind].size)
    names = interface.names[given["values" if "values" in given else "flags"]] \
        if given.keys() & {"values", "flags"} else None
    of = tuple(given["of"].split()) if "of" in given else tuple(names.of) if names else ()
    if names and not set(of) <= set(names.of):
        raise ValueError(f"{given['name']}: of has {', '.join(sorted(set(of) - set(names.of)))}. Name values of "
                         f"{names.prefix} only")
    least, most = (_number(interface, bound) for bound in given["range"]) if "range" in given else (None, None)
    return Field(given["name"], offset, size, kind, count, names, of, least, most)


def _add_struct(interface: Interface, given: dict[str, Any]) -> None:
    offset, fields = 0, []
    for one in given["fields"]:
        fields.append(_field(interface, offset, one))
        offset += fields[-1].size
    if offset != given["size"]:
        raise ValueError(f"{given['name']} has {given['size']} bytes, its fields {offset}. Correct one of the two")
    interface.structs[given["name"]] = Struct(given["name"], offset, tuple(fields))


def parse(parts: list[dict[str, Any]]) -> Interface:
    """The description from the contents of its files. A structure may use structures of other files."""
    found = Interface()
    for part in parts:
        found.registers += [Register(**one) for one in part.get("registers", [])]
        found.doorbells += [Register(**one) for one in part.get("doorbells", [])]
        found.commands += [Command(**one) for one in part.get("commands", [])]
        found.rules += [Rule(one["number"], one.get("status") or one["vendor_error"], one.get("of", ""),
                             one.get("field", "")) for one in part.get("rules", [])]
        found.numbers |= part.get("numbers", {})
        for kind in ("values", "flags"):
            found.names |= {name: _names(bits=kind == "flags", **one) for name, one in part.get(kind, {}).items()}
    found.names[COMMANDS] = _names("PIB_HCA_CMD_", False, {one.name: one.opcode for one in found.commands})
    left = [one for part in parts for one in part.get("struct", [])]
    while left:
        known = [one for one in left if all(_type(field["type"])[0] in NUMBERS.keys() | found.structs.keys()
                                            for field in one["fields"])]
        if not known:
            raise ValueError(f"{left[0]['name']}: a field has a type that no file describes. Correct it, or add a "
                             "structure")
        for one in known:
            _add_struct(found, one)
        left = [one for one in left if one not in known]
    return found


def load(folder: pathlib.Path) -> Interface:
    return parse([tomllib.loads((folder / f"pib_hca_{part}.toml").read_text(encoding="utf-8")) for part in PARTS])


@functools.cache
def interface() -> Interface:
    """The description in this checkout."""
    return load(FOLDER)
