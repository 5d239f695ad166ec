# SPDX-License-Identifier: GPL-2.0-or-later
"""Contents of docs/device-spec.md about the interface: the rows of its tables and its examples.

A table is known by its first columns: structures (offset, size, field) belong to the last
"`struct NAME`, N bytes" before them; constants have (name, value); registers (offset, width,
access, reset, name). Other tables are prose.
"""

import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from lab.interface.tables import tables  # noqa: E402 pylint: disable=wrong-import-position

STRUCT = re.compile(r"`struct (\w+)`, (\d+) bytes")
EXAMPLE = re.compile(r"^```example (.+?)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass
class Field:
    name: str
    offset: int
    size: int


@dataclasses.dataclass
class Example:
    structs: list[str]          # one after the other
    dump: dict[int, int]        # byte by offset
    values: dict[str, str]      # field: C expression


@dataclasses.dataclass
class Manual:
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    structs: dict[str, list[Field]] = dataclasses.field(default_factory=dict)
    constants: dict[str, int] = dataclasses.field(default_factory=dict)
    registers: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    mentioned_sizes: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    examples: list[Example] = dataclasses.field(default_factory=list)


def number(text: str) -> int:
    """Parses 0x10, 16 or "bit 4"."""
    return 1 << int(text[4:]) if text.startswith("bit ") else int(text, 0)


def quoted(cell: str) -> str:
    found = re.fullmatch(r"`(\w+)`", cell)
    if not found:
        raise ValueError(f"not a name in backquotes: {cell}")
    return found.group(1)


def parse(text: str) -> Manual:
    result = Manual()
    for before, header, rows in tables(EXAMPLE.sub("", text)):
        if header[:3] == ["offset", "size", "field"]:
            _structure(result, before, rows)
        elif header[:5] == ["offset", "width", "access", "reset", "name"]:
            for offset, width, access, _, name, *_ in rows:
                _once(result.registers, quoted(name), (number(offset), f"{access} {width}"))
        elif header[:2] == ["name", "value"]:
            for name, value, *rest in rows:
                _once(result.constants, quoted(name), number(value))
                result.mentioned_sizes += [(struct, int(size)) for struct, size in
                                           re.findall(r"`(pib_hca_\w+)` (\d+)", " ".join(rest))]
    for structs, body in EXAMPLE.findall(text):
        result.examples.append(_example(structs.split(), body))
    return result


def _once(known: dict, name: str, value) -> None:
    if name in known:
        raise ValueError(f"{name} is in two tables")
    known[name] = value


def _structure(result: Manual, before: str, rows: list[list[str]]) -> None:
    named = STRUCT.findall(before)
    if not named:
        raise ValueError(f"a table of fields belongs to no structure: {rows[0]}")
    name, size = named[-1]
    _once(result.sizes, name, int(size))
    result.structs[name] = [Field(quoted(field), number(offset), number(length))
                            for offset, length, field, *_ in rows]


def _example(structs: list[str], body: str) -> Example:
    example = Example(structs, {}, {})
    for line in body.splitlines():
        if " = " in line:
            field, value = line.split(" = ")
            _once(example.values, field, value)
            continue
        offset, dump = line.split(":")
        for position, byte in enumerate(dump.split()):
            example.dump[int(offset, 16) + position] = int(byte, 16)
    return example
