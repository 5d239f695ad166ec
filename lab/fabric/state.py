# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of a lab's processes, a file in the lab's directory: each ./pib command finds the processes of earlier
ones."""

import contextlib
import dataclasses
import json
import os
import pathlib
import socket

from lab import process, ui

VERSION = 2                     # version of the file
NAME = "state.json"


class Unusable(ui.LabError):
    """There is a file, but it does not say what this command could work with."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where numbers of processes and names in /tmp have their meaning."""
    directory: str              # the lab's directory
    host: str
    machine: str
    namespace: str              # PID namespace: a container has its own
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
class State:
    """sockets: see rundir."""
    place: Place
    sockets: str
    accel: str
    stamp: str                  # digest of everything that the guests were started from
    processes: dict[str, process.Process] = dataclasses.field(default_factory=dict)
    ssh_ports: dict[str, int] = dataclasses.field(default_factory=dict)  # ports of guests that have booted
    parts: list[list[str]] = dataclasses.field(default_factory=list)    # names of switches, by switch process
    topology: str = ""          # the fabric's file; none: one switch
    image: str = ""             # directory of the guests' image
    identity: str = ""          # see image.identity
    version: int = VERSION

    def save(self, file: pathlib.Path) -> None:
        """All of it or nothing: the file that is there stays until the new one is on the disk."""
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
    """The state of the lab in the file's directory, on this host, since its boot; None: nothing runs."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return _here(_parsed(file, text), file)


def _parsed(file: pathlib.Path, text: str) -> State:
    try:
        data = json.loads(text)
        if data.get("version") != VERSION:
            raise Unusable(f"{file} is of another version of pib. End what that has started:  ./pib down")
        data["place"] = Place(**data["place"])
        data["processes"] = {name: process.Process(**fields) for name, fields in data["processes"].items()}
        return State(**data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unusable(f"{file} is damaged ({error}). What runs is found without it by:  ./pib down") from error


def _here(found: State, file: pathlib.Path) -> State | None:
    here, there = Place.of(file.parent), found.place
    if there.machine == here.machine and there.boot != here.boot:
        return None                                     # ended with the host
    if (there.machine, there.namespace) != (here.machine, here.namespace):
        raise Unusable(f"the lab of {file.parent} was started on another host, or in another container, named "
                       f"{there.host}. End it there; if that has gone, forget it here:  ./pib down")
    if there.directory != here.directory:
        if (pathlib.Path(there.directory) / file.name).exists():
            return None                                 # a copy; the original is another checkout's
        found.place = here                              # the checkout was moved
    return found
