# SPDX-License-Identifier: GPL-2.0-or-later
"""The build ID of an ELF file: the linker's hash of what it has linked, which the running program has in memory."""

import dataclasses
import pathlib
import struct
from typing import BinaryIO

from lab.base import ui

HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")     # Elf64_Ehdr
SEGMENT = struct.Struct("<IIQQQQQQ")                # Elf64_Phdr
NOTE = struct.Struct("<III")                        # Elf64_Nhdr
PT_NOTE = 4
NT_GNU_BUILD_ID = 3
OWNER = b"GNU\0"
MOST_NOTES = 1 << 20                                # limit of the size of notes


@dataclasses.dataclass(frozen=True)
class BuildId:
    """A build ID. address: its address in memory, if the file is loaded where it was linked to."""
    address: int
    value: bytes


def _segments(file: BinaryIO) -> list[tuple[int, bytes]]:
    """Address and contents of each segment with notes, of a 64-bit little-endian file."""
    head = HEADER.unpack(file.read(HEADER.size))
    if head[:3] != (b"\x7fELF", 2, 1):
        raise ValueError("this is no 64-bit ELF file")
    place, size, count = head[7], head[11], head[12]
    found = []
    for number in range(count):
        file.seek(place + number * size)
        kind, _, offset, address, _, length, _, _ = SEGMENT.unpack(file.read(SEGMENT.size))
        if kind == PT_NOTE:
            file.seek(offset)
            found.append((address, file.read(min(length, MOST_NOTES))))
    return found


def _padded(length: int) -> int:
    return (length + 3) & ~3


def _in_notes(address: int, notes: bytes) -> BuildId | None:
    at = 0
    while at + NOTE.size <= len(notes):
        owner, length, kind = NOTE.unpack_from(notes, at)
        name = at + NOTE.size
        value = name + _padded(owner)
        if kind == NT_GNU_BUILD_ID and notes[name:name + owner] == OWNER:
            return BuildId(address + value, notes[value:value + length])
        at = value + _padded(length)
    return None


def build_id(path: pathlib.Path) -> BuildId:
    try:
        with open(path, "rb") as file:
            found = [one for address, notes in _segments(file) if (one := _in_notes(address, notes))]
    except (struct.error, ValueError) as error:
        raise ui.LabError(f"{path} cannot be read: {error}. Build it again") from error
    if not found:
        raise ui.LabError(f"{path} has no build ID. Build it again, with --build-id=sha1 as the kernel's Makefile has "
                          "it")
    return found[0]
