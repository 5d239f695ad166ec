# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of a lab's processes: a file in the lab's directory, in which a ./pib command finds the processes that
earlier commands have started."""

import contextlib
import dataclasses
import json
import os
import pathlib
import socket

from lab.base import process, ui

VERSION = 5                     # version of the file
NAME = "state.json"


class Unusable(ui.LabError):
    """The record is damaged, or has another version."""


@dataclasses.dataclass(frozen=True)
class Place:
    """The scope in which the process IDs and the names in /tmp of a record are valid."""
    directory: str              # the lab's directory
    host: str
    machine: str
    namespace: str              # PID namespace; each container has its own
    boot: str

    @staticmethod
    def of(directory: pathlib.Path) -> "Place":
        return Place(str(directory), socket.gethostname(), _line("/etc/machine-id") or socket.gethostname(),
                     os.readlink("/proc/self/ns/pid"), _line("/proc/sys/kernel/random/boot_id"))


def _line(path: str) -> str:
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return ""


@dataclasses.dataclass
class Command:
    """The words and the additional environment of a process."""
    argv: list[str]
    env: dict[str, str]


@dataclasses.dataclass
class State:
    """The record. sockets: the lab's short directory, see rundir."""
    place: Place
    sockets: str
    accel: str
    stamp: str                  # hash of everything that determines the guests, see Wanted.stamp()
    processes: dict[str, process.Process] = dataclasses.field(default_factory=dict)
    commands: dict[str, Command] = dataclasses.field(default_factory=dict)
    ssh_ports: dict[str, int] = dataclasses.field(default_factory=dict)  # by guest, after its boot
    parts: list[list[str]] = dataclasses.field(default_factory=list)    # names of switches, by switch process
    topology: str = ""          # topology file of the fabric; "": a single switch
    image: str = ""             # directory of the guests' image
    identity: str = ""          # see image.identity
    bare: bool = False          # guests were booted without a driver
    own_image: str = ""         # the user's disk image that guests were booted from
    hosts: list[str] = dataclasses.field(default_factory=list)  # libvirt's URIs of the guests' hosts; none: this host
    described: dict[str, str] = dataclasses.field(default_factory=dict)     # see Wanted.described()
    version: int = VERSION

    def save(self, file: pathlib.Path) -> None:
        """Writes the file atomically: the old file stays until the new one is on the disk."""
        partial = file.with_suffix(".new")
        try:
            with open(partial, "w", encoding="utf-8") as out:
                json.dump(dataclasses.asdict(self), out, indent=1)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(file)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise


def load(file: pathlib.Path) -> State | None:
    """The state from the file. None if there is no file, if its processes ended with an earlier boot of the host, or if
    it is a copy of another lab's file. Raises Unusable for other files that are not valid here."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    return _here(_parsed(file, text), file)


def _parsed(file: pathlib.Path, text: bytes) -> State:
    try:
        data = json.loads(text)
        if data.get("version") != VERSION:
            raise Unusable(f"{file} is of another version of pib. End what that has started:  ./pib down")
        data["place"] = Place(**data["place"])
        data["processes"] = {name: process.Process(**fields) for name, fields in data["processes"].items()}
        data["commands"] = {name: Command(**fields) for name, fields in data["commands"].items()}
        return State(**data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unusable(f"{file} is damaged ({error}). End what still runs:  ./pib down") from error


def _here(found: State, file: pathlib.Path) -> State | None:
    here, there = Place.of(file.parent), found.place
    if there.machine == here.machine and there.boot != here.boot:
        return None                                     # the host has rebooted since, which ended the processes
    if (there.machine, there.namespace) != (here.machine, here.namespace):
        raise Unusable(f"the lab of {file.parent} was started on another host, or in another container, named "
                       f"{there.host}. End it there. If that host is gone, forget the lab here:  ./pib down")
    if there.directory != here.directory:
        if (pathlib.Path(there.directory) / file.name).exists():
            return None                                 # a copy of another lab's file, which still exists
        found.place = here                              # the lab's directory was moved
    return found
