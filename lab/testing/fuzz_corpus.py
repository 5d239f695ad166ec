# SPDX-License-Identifier: GPL-2.0-or-later
"""Inputs of fuzz targets as text: a line of hexadecimal digits for each input, so that the repository has no binary
files and a review sees the inputs."""

import hashlib
import pathlib
from collections.abc import Iterable

SUFFIX = ".inputs"
HEAD = "# SPDX-License-Identifier: GPL-2.0-or-later\n# An input in each line, made by ./pib fuzz {name} --keep.\n"
MOST_BYTES = 512                # limit of an input in the corpus
MOST_TEXT = 48 * 1024           # bytes, limit of a corpus file


def load(path: pathlib.Path) -> list[bytes]:
    """The inputs of a file; none if there is no such file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [bytes.fromhex(line) for line in lines if line and not line.startswith("#")]


def recorded(path: pathlib.Path) -> bytes:
    """The single input of a file in tests/fuzz/recorded, whose lines may have comments after #."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in path.read_text().splitlines()))


def put(directory: pathlib.Path, data: bytes) -> None:
    """Writes an input to a file with the name that libFuzzer would give it (its hash), so that it exists only once."""
    (directory / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def text(data: bytes) -> str:
    """An input as hexadecimal text, 24 bytes in a line."""
    return "\n".join(data[at:at + 24].hex(" ") for at in range(0, len(data), 24))


def save(path: pathlib.Path, inputs: Iterable[bytes]) -> int:
    """Writes the inputs, shortest first, up to the limit of the file; returns their number."""
    lines, left = [], MOST_TEXT
    for data in sorted({data for data in inputs if data}, key=lambda data: (len(data), data)):
        line = data.hex() + "\n"
        if len(data) > MOST_BYTES or len(line) > left:
            break
        left -= len(line)
        lines.append(line)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(name=path.name.removesuffix(SUFFIX)) + "".join(lines))
    return len(lines)
