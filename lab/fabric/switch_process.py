# SPDX-License-Identifier: GPL-2.0-or-later
"""The switch process, and the products for the guests' devices."""

import dataclasses
import os
import pathlib
import subprocess

from lab import paths, process
from lab.guests import vm

PROGRAM = paths.BUILD / "fabric-switch" / "pib-switch"


def built() -> bool:
    return os.access(PROGRAM, os.X_OK)


def stamp() -> str:
    """A hash that changes with the device or the switch of newly started guests."""
    files = [PROGRAM, vm.MODULE, vm.MODULE.parent / "pib-hca-device.so"]
    return paths.recipe_hash(*(path.read_bytes() if path.exists() else b"" for path in files))


@dataclasses.dataclass
class Switch:
    """One pib-switch, its sockets and files in a directory."""
    directory: pathlib.Path
    options: tuple[str, ...] = ()   # more of the program's
    number: int = 0                 # where one fabric is several processes

    @property
    def name(self) -> str:
        return f"switch{self.number or ''}"

    @property
    def socket(self) -> pathlib.Path:
        return self.directory / f"fabric{self.number or ''}"

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    @property
    def control(self) -> pathlib.Path:
        return self.directory / f"{self.name}.control"

    @property
    def topology(self) -> pathlib.Path:
        """The topology file of this process; without one it is a single switch."""
        return self.directory / "topology"

    def argv(self) -> list[str]:
        words = [str(PROGRAM), "--listen", self.address, "--control", str(self.control),
                 *self.options]
        return words + (["--topology", str(self.topology)] if self.topology.exists() else [])

    def start(self) -> process.Process:
        # A switch that was killed leaves its sockets behind.
        for path in (self.socket, self.control):
            path.unlink(missing_ok=True)
        output = self.directory / f"{self.name}.out"
        started = process.start(self.argv(), output)
        process.wait_for("pib-switch", self.control.exists, started, output, 30)
        return started

    def ctl(self, *words: str) -> str:
        """Output of a control command; "" when the switch does not answer."""
        done = subprocess.run([PROGRAM, "ctl", "--control", self.control, *words],
                              capture_output=True, text=True, timeout=30, check=False)
        return done.stdout if done.returncode == 0 else ""
