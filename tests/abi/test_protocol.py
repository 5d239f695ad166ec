#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/fabric-protocol.md against ib/wire/link_frame: every table, both ways. Argument: the
program protocol_probe, which writes frames with one field set at a time."""

import pathlib
import re
import subprocess
import sys
import unittest

import manual

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOCOL = ROOT / "docs" / "fabric-protocol.md"
HEADER = ROOT / "ib" / "wire" / "link_frame.h"
PEER_COPY = ROOT / "ib" / "link" / "peer_copy_control.h"
NAMED = re.compile(r"\b([A-Z_]+), (\d+) bytes")
# Fields that are always the same have no place in the probe.
CONSTANT = {"magic": b"PIBL", "version_major": (1).to_bytes(2)}
PROBE: list[str] = []


class Protocol:
    """Contents of the manual: tables by their columns."""

    def __init__(self, text: str):
        self.sizes: dict[str, int] = {}
        self.frames: dict[str, dict[str, tuple[int, int]]] = {}
        self.reserved: dict[str, list[tuple[int, int]]] = {}
        self.types: dict[str, int] = {}
        self.bodies: dict[str, str] = {}
        self.reasons: dict[str, int] = {}
        self.results: dict[str, int] = {}
        self.constants: dict[str, int] = {}
        for before, header, rows in manual.tables(text):
            if header[:3] == ["offset", "size", "field"]:
                self._frame(before, rows)
            elif header[:2] == ["type", "name"]:
                self.types = {name: int(number) for number, name, *_ in rows}
                self.bodies = {name: body for _, name, _, body in rows}
            elif header[:2] == ["reason", "name"]:
                self.reasons = {name: int(number) for number, name, *_ in rows}
            elif header[:2] == ["result", "name"]:
                self.results = {name: int(number) for number, name, *_ in rows}
            elif header[:2] == ["name", "value"]:
                self.constants = {manual.quoted(name): int(value) for name, value, *_ in rows}

    def _frame(self, before: str, rows: list[list[str]]) -> None:
        name, size = NAMED.findall(before)[-1]
        self.sizes[name] = int(size)
        self.frames[name], self.reserved[name] = {}, []
        for offset, length, field, *_ in rows:
            place = (int(offset), int(length))
            if field == "reserved":
                self.reserved[name].append(place)
            else:
                self.frames[name][field] = place


class Written:
    """Output of the probe: for each frame its bytes with no field set, and each field's place."""

    def __init__(self, lines: list[str]):
        self.zero: dict[str, bytes] = {}
        self.changed: dict[str, dict[str, set[int]]] = {}
        self.constants: dict[str, int] = {}
        for words in map(str.split, lines):
            if len(words) == 2:
                self.constants[words[0]] = int(words[1])
            elif words[1] == "-":
                self.zero[words[0]] = bytes.fromhex(words[2])
                self.changed[words[0]] = {}
            else:
                self._field(words[0], words[1], bytes.fromhex(words[2]))

    def _field(self, frame: str, field: str, data: bytes) -> None:
        zero = self.zero[frame]
        differ = {i for i, (a, b) in enumerate(zip(zero, data)) if a != b}
        self.changed[frame].setdefault(field, set()).update(differ)


def enumerators(name: str, header: pathlib.Path = HEADER) -> dict[str, int]:
    """Values of an enum class in the header: kNoFreePort = 3 as NO_FREE_PORT: 3."""
    body = re.search(rf"enum class {name} [^{{]*{{(.*?)}};", header.read_text(), re.DOTALL).group(1)
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper(): int(value)
            for word, value in re.findall(r"k(\w+) = (\d+)", body)}


def differences(doc: Protocol, written: Written) -> list[str]:
    """Differences between manual and code; one line each."""
    found = []
    for what, ours, theirs in (("types", doc.types, enumerators("FrameType")),
                               ("reasons", doc.reasons, enumerators("RefuseReason")),
                               ("results", doc.results, enumerators("PullResult", PEER_COPY)),
                               ("constants", doc.constants, written.constants),
                               ("sizes", doc.sizes, {f: len(z) for f, z in written.zero.items()})):
        if ours != theirs:
            found.append(f"{what}: code {theirs}, manual {ours}")
    if found:
        return found
    for frame, fields in doc.frames.items():
        found += frame_differences(frame, fields, doc, written)
    return found


def frame_differences(frame: str, fields: dict, doc: Protocol, written: Written) -> list[str]:
    found, zero = [], written.zero[frame]
    places = {field: set(range(offset, offset + size)) for field, (offset, size) in fields.items()}
    for field, value in CONSTANT.items():
        place = places.pop(field, None)
        if place is not None and bytes(zero[i] for i in sorted(place)) != value:
            found.append(f"{frame}.{field} is not {value!r}")
    if places != written.changed[frame]:
        found.append(f"{frame}: code {written.changed[frame]}, manual {places}")
    covered = sorted([*fields.values(), *doc.reserved[frame]])
    ends = [offset + size for offset, size in covered]
    if [offset for offset, _ in covered] != [0, *ends[:-1]] or ends[-1] != len(zero):
        found.append(f"{frame}: fields do not follow each other to its end: {covered}")
    return found


class Tables(unittest.TestCase):
    def setUp(self):
        self.text = PROTOCOL.read_text()
        self.written = Written(subprocess.run(PROBE, capture_output=True, text=True,
                                              check=True).stdout.splitlines())

    def test_manual_and_code_agree(self):
        self.assertEqual(differences(Protocol(self.text), self.written), [])

    def test_sizes_in_the_table_of_types_equal_the_frames(self):
        doc = Protocol(self.text)
        for name, body in doc.bodies.items():
            if re.match(r"\d+", body):
                self.assertEqual(int(re.match(r"\d+", body).group()), doc.sizes[name], name)

    def test_a_changed_or_missing_row_is_noticed(self):
        rows = [line for line in self.text.splitlines() if re.match(r"\| (\d+ \| |`[A-Z_]+` )", line)]
        self.assertGreater(len(rows), 40)
        for row in rows:
            number = re.search(r"\d+", row)
            wrong = row[:number.start()] + str(int(number.group()) + 1) + row[number.end():]
            for changed in (self.text.replace(row + "\n", "", 1), self.text.replace(row, wrong, 1)):
                self.assertNotEqual(differences(Protocol(changed), self.written), [], row)


if __name__ == "__main__":
    PROBE = [sys.argv.pop()]
    unittest.main(argv=sys.argv[:1])
