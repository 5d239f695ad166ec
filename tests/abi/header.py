# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the hardware interface from its headers: structures with their fields, and constants."""

import dataclasses
import pathlib
import re

HEADERS = ("pib_hca_regs.h", "pib_hca_cmd.h", "pib_hca_hw.h", "pib_hca_abi.h")
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\s*(?:struct )?\w+ (\w+)(?:\[\w+\])?;")
ENUM = re.compile(r"^enum \w+ \{(.*?)^\};", re.MULTILINE | re.DOTALL)
DEFINE = re.compile(r"^#define (PIB_HCA_\w+)(?![\w(])[ \t]+\S", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclasses.dataclass
class Interface:
    structs: dict[str, list[str]]       # name: fields, in order
    constants: set[str]


def read(folder: pathlib.Path) -> Interface:
    result = Interface({}, set())
    for header in HEADERS:
        text = COMMENT.sub("", (folder / header).read_text())
        for name, body in STRUCT.findall(text):
            result.structs[name] = _fields(header, name, body)
        for body in ENUM.findall(text):
            result.constants |= set(re.findall(r"^\s*(PIB_HCA_\w+)", body, re.MULTILINE))
        result.constants |= set(DEFINE.findall(text))
    return result


def _fields(header: str, name: str, body: str) -> list[str]:
    fields = []
    for line in filter(str.strip, body.splitlines()):
        found = FIELD.match(line)
        if not found:
            raise ValueError(f"{header}: struct {name}: no field in: {line}")
        fields.append(found.group(1))
    return fields
