# SPDX-License-Identifier: GPL-2.0-or-later
"""The switch process, and the built files that it and the guests' devices need."""

import dataclasses
import os
import pathlib
import socket
import subprocess

from lab.base import paths, ui
from lab.guests import vm

PROGRAM = paths.SWITCH


def built() -> bool:
    return os.access(PROGRAM, os.X_OK)


def stamp() -> str:
    """A hash of the built device and switch that new guests use."""
    files = [PROGRAM, vm.MODULE, vm.MODULE.parent / "pib-hca-device.so"]
    return paths.recipe_hash(*(path.read_bytes() if path.exists() else b"" for path in files))


@dataclasses.dataclass(frozen=True)
class Switch:
    """One pib-switch process; its sockets are in the lab's directory for sockets."""
    directory: pathlib.Path
    options: tuple[str, ...] = ()   # further options of pib-switch
    number: int = 0                 # number of the process in a split fabric
    topology: str = ""              # topology file of this process; "": a single switch

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
        """The control socket. The switch binds it last, when all other sockets listen."""
        return self.directory / f"{self.name}.control"

    def answers(self) -> bool:
        """Whether the switch takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.control)) == 0

    def argv(self) -> list[str]:
        """The command line. Only the lab's user may connect to the sockets and so join the fabric."""
        words = [str(PROGRAM), "--listen", self.address, "--socket-mode", "0600", "--control", str(self.control),
                 *self.options]
        return words + (["--topology", self.topology] if self.topology else [])

    def remove_sockets(self) -> None:
        """Removes the sockets that a killed switch has left."""
        for path in (self.socket, self.control):
            path.unlink(missing_ok=True)

    def ctl(self, *words: str, timeout_s: float = 30) -> str:
        """Output of a control command, as text for people. Programs get data through control.Control."""
        try:
            done = subprocess.run([PROGRAM, "ctl", "--control", self.control, *words],
                                  capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise ui.LabError(f"{self.name} does not answer. Its log: {self.directory}/{self.name}.log") from error
        if done.returncode:
            raise ui.LabError(f"{self.name}: {' '.join(words)}: {done.stderr.strip() or 'refused'}")
        return done.stdout
