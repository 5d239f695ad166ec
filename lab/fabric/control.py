# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends requests to a running switch process through its control socket, and reads its fabric as data."""

import contextlib
import dataclasses
import json
import pathlib
import socket
from collections.abc import Iterable, Iterator
from typing import Any

from lab.base import ui

BYTES_PER_UNIT = 4              # unit of PortXmitData and PortRcvData in bytes
TIMEOUT_S = 30
MOST_ANSWER = 1 << 28           # characters; the largest fabric's answers have some millions


def parsed(line: str | bytes) -> dict[str, Any]:
    """The answer in a line; a ValueError if the line has no answer: the peer is not a switch, or has ended."""
    try:
        answer = json.loads(line)
    except RecursionError as error:
        raise ValueError("lists or objects are nested too deeply") from error
    if not isinstance(answer, dict):
        raise ValueError("the answer is not an object")
    return answer


def silence(path: pathlib.Path, command: str) -> ui.LabError:
    """The error of a switch that does not answer a command in time."""
    return ui.LabError(f"{path}: the switch has not answered {command} within {TIMEOUT_S} s. Look whether it is "
                       "stopped, or start the lab anew:  ./pib down   and then  ./pib up")


class Control:
    """One connection to a control socket. docs/pib-switch.md describes requests and answers."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_S)
        try:
            self.socket.connect(str(path))
        except OSError as error:
            raise ui.LabError(f"{path}: no switch answers there ({error.strerror or error}). Give the path "
                              "that pib-switch has as --control, or start the lab:  ./pib up"
                              ) from error
        self.stream = self.socket.makefile("rw")

    def __enter__(self) -> "Control":
        return self

    def __exit__(self, *_failure) -> None:
        with contextlib.suppress(OSError):      # close() fails if an unsent request is still in the buffer
            self.stream.close()
        self.socket.close()

    def ask(self, command: str, **members) -> dict:
        try:
            self.stream.write(json.dumps({"command": command, **members}) + "\n")
            self.stream.flush()
            answer = parsed(self.stream.readline(MOST_ANSWER))
        except TimeoutError as error:
            raise silence(self.path, command) from error
        except (OSError, ValueError) as error:
            raise ui.LabError(f"{self.path}: the switch has ended, or this is not its socket of --control ({error}). "
                              "What runs:  ./pib status") from error
        if not answer.get("ok"):
            raise ui.LabError(f"{self.path}: {command}: {answer.get('error', 'refused')}")
        return answer

    def switches(self) -> list[str]:
        """Ids of the process's switches."""
        return [node["id"] for node in self.ask("nodes")["nodes"] if node["type"] == "switch"]


def every_switch(paths: Iterable[pathlib.Path]) -> Iterator[tuple[Control, str]]:
    """(connection, id) of each switch of the processes with these control sockets."""
    for path in paths:
        with Control(path) as asked:
            for name in asked.switches():
                yield asked, name


@dataclasses.dataclass
class Node:
    guid: str
    name: str
    kind: str                   # "switch", or "host": a virtual machine or a phantom
    lid: int


@dataclasses.dataclass(frozen=True)
class End:
    guid: str                   # id of the node
    port: int


@dataclasses.dataclass
class Link:
    """A link. a: a switch port. b: the port's present or last peer."""
    a: End
    b: End
    state: str                  # PortState of a: Down, Initialize, Armed, Active
    rate: str                   # for example "4X EDR"; "" while Down
    bytes: int                  # total of both directions so far


@dataclasses.dataclass
class Picture:
    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)        # by GUID
    links: dict[frozenset[End], Link] = dataclasses.field(default_factory=dict)

    def links_by_node(self) -> dict[str, list[tuple[int, End, Link]]]:
        """For each node by GUID its (port, peer, link), in order of ports."""
        found: dict[str, list[tuple[int, End, Link]]] = {guid: [] for guid in self.nodes}
        for link in self.links.values():
            for mine, other in ((link.a, link.b), (link.b, link.a)):
                found[mine.guid].append((mine.port, other, link))
        for entries in found.values():
            entries.sort(key=lambda entry: entry[0])
        return found


def _data(counters: dict) -> int:
    return (counters["PortXmitData"] + counters["PortRcvData"]) * BYTES_PER_UNIT


def _add_port(picture: Picture, guid: str, port: dict, moved: int) -> None:
    other = port.get("neighbour")
    if not other:
        return
    end = End(other["node_guid"], other["port"])
    if end.guid not in picture.nodes:
        lid = port["lids"][0] if port["lids"] else 0
        picture.nodes[end.guid] = Node(end.guid, other["description"], "host", lid)
    here = End(guid, port["port"])
    picture.links.setdefault(frozenset({here, end}), Link(
        here, end, port["state"], f"{port['width']} {port['speed']}".strip(), moved))


def picture(*processes: Control) -> Picture:
    """The nodes and links of a fabric. processes: all of its switch processes."""
    made, switches = Picture(), {}
    for asked in processes:
        for name in asked.switches():
            status = asked.ask("status", switch=name)
            about = status["switch"]
            made.nodes[about["guid"]] = Node(about["guid"], about["description"], "switch", about["lid"])
            counters = {port["port"]: port for port in asked.ask("counters", switch=name)["ports"]}
            switches[about["guid"]] = status["ports"], counters
    for guid, (ports, counters) in switches.items():
        for port in ports:
            _add_port(made, guid, port, _data(counters[port["port"]]))
    return made
