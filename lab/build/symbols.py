# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of source for addresses in a kernel's messages, such as  pib_hca_probe+0x1a/0x40 [pib_hca].

The symbols of a guest's modules are kept as they were loaded: a directory holds the modules with their debug
information, and a file PLACES that says where the sources are that the compiler names.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import tempfile

from lab.build import builder, kernel_module

PLACES = "places.json"
ADDRESS = re.compile(r"(RIP: \w+:)?\b([A-Za-z_][\w.]*)\+0x([0-9a-f]+)/0x[0-9a-f]+ \[([\w-]+)\]")
SYMBOL = re.compile(r"^([0-9a-f]+) .{7} (\S+)\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$", re.MULTILINE)
FOUND = re.compile(r"^(.*):(\d+)(?: \(discriminator \d+\))?$")
LOG = "guest-symbols"
ASKED = ".symbols."             # prefix of directories in the build tree, for addr2line's input and output


Former = dict[pathlib.Path, bytes | None]       # contents of files; None: there was no such file


def keep(compiled: kernel_module.Compiled, directory: pathlib.Path) -> Former:
    """Adds the modules to a directory of symbols; returns what put_back() needs."""
    directory.mkdir(parents=True, exist_ok=True)
    former: Former = {}
    for module in compiled.modules:
        file = directory / f"{module.name}.ko"
        former[file] = file.read_bytes() if file.exists() else None
        shutil.copy(module.file, file)
    places = sources(directory) | {compiled.inside: str(compiled.source)}
    (directory / PLACES).write_text(json.dumps(places))
    return former


def put_back(former: Former) -> None:
    """Undoes keep(), if the guest has kept the modules that were loaded before."""
    for file, content in former.items():
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)


def sources(directory: pathlib.Path) -> dict[str, str]:
    """Directories of the sources, by the directories' names in the debug information."""
    file = directory / PLACES
    return json.loads(file.read_text()) if file.exists() else {}


@dataclasses.dataclass(frozen=True)
class Address:
    module: str
    symbol: str
    offset: int


def addresses(text: str) -> list[Address]:
    """The addresses in a kernel message. A return address in a call trace is after the call, so 1 is subtracted."""
    found = [Address(module, symbol, int(offset, 16) - (0 if at else 1))
             for at, symbol, offset, module in ADDRESS.findall(text)]
    return list(dict.fromkeys(found))


class Symbols:
    """The symbols of a guest's modules. If two directories have the same module, the first one is used."""

    def __init__(self, tools: builder.Builder, *directories: pathlib.Path):
        self._tools = tools
        self._directories = [directory for directory in directories if directory.is_dir()]

    def file(self, module: str) -> pathlib.Path | None:
        files = (directory / f"{module}.ko" for directory in self._directories)
        return next((file for file in files if file.exists()), None)

    def lines(self, text: str) -> dict[Address, list[str]]:
        """FILE:LINE of each address in the text; with inlined functions several, the innermost first."""
        wanted = addresses(text)
        found: dict[Address, list[str]] = {}
        for module in {address.module for address in wanted}:
            if file := self.file(module):
                found |= self._in_module(file, [address for address in wanted if address.module == module])
        return found

    def _in_module(self, file: pathlib.Path, wanted: list[Address]) -> dict[Address, list[str]]:
        with tempfile.TemporaryDirectory(dir=self._tools.work, prefix=ASKED) as asked:
            os.chmod(asked, 0o755)      # root of a user namespace must be able to enter it
            return self._looked_up(file, wanted, pathlib.Path(asked))

    def _looked_up(self, file: pathlib.Path, wanted: list[Address], asked: pathlib.Path) -> dict[Address, list[str]]:
        shutil.copy(file, asked / "module.ko")
        self._tools.sh(f"reading the symbols of {file.name}", f"cd {asked.name}; objdump -t module.ko >table", LOG)
        table = {name: (int(value, 16), section) for value, section, name in
                 SYMBOL.findall((asked / "table").read_text())}
        known = [address for address in wanted if address.symbol in table]
        script = "; echo; ".join(f"addr2line -i -e module.ko -j {table[address.symbol][1]} "
                           f"{table[address.symbol][0] + address.offset:#x}" for address in known)
        if not known:
            return {}
        self._tools.sh(f"looking up lines of {file.name}", f"cd {asked.name}; {{ {script}; }} >lines", LOG)
        blocks = (asked / "lines").read_text().split("\n\n")
        return {address: self._named(block.split("\n"), file.parent) for address, block in zip(known, blocks)}

    @staticmethod
    def _named(lines: list[str], directory: pathlib.Path) -> list[str]:
        """FILE:LINE from lines of addr2line, with the paths of the sources on this machine."""
        named = []
        for line in lines:
            if (found := FOUND.match(line)) and found[1] != "??":
                named.append(f"{_of_source(found[1], directory)}:{found[2]}")
        return named


def _of_source(path: str, directory: pathlib.Path) -> str:
    for inside, source in sources(directory).items():
        if path.startswith(f"{inside}/"):
            return source + path.removeprefix(inside)
    return path
