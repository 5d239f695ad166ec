# SPDX-License-Identifier: GPL-2.0-or-later
"""The hosts of ./pib up --connect, and the names of a lab's domains, pools and directories there."""

import dataclasses
import pathlib
import re
import urllib.parse

from lab.base import paths, ui

PORT = 7471                     # default TCP port at which a host's switch accepts trunks of other hosts' switches
SWITCH_GUID = 0x0670_6962_0003_0000     # numbered as the guests' GUIDs in vm.py
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-f:]*:[0-9a-f:.]*")
SWITCHES = pathlib.Path("/var/lib/pib-switch")      # pib-switch@.service has the same SWITCHES and SOCKETS
SOCKETS = pathlib.Path("/run/pib-switch")
GUESTS = pathlib.Path("/var/lib/libvirt/images")


@dataclasses.dataclass(frozen=True)
class Host:
    """uri: URI of the host's libvirtd. address: the host's name or address for other hosts; "" if none is known."""
    uri: str
    address: str
    port: int = PORT

    @property
    def connects(self) -> str:
        """Address at which other hosts reach this host's switch."""
        return f"tls:{self._bracketed(self.address)}:{self.port}"

    @property
    def listens(self) -> str:
        """Address at which the host's switch listens. For a name these are all addresses, because on the host itself
        the name may mean another address than elsewhere."""
        literal = re.fullmatch(r"[\d.]+|.*:.*", self.address)
        return self.connects if literal else f"tls:[::]:{self.port}"

    @staticmethod
    def _bracketed(address: str) -> str:
        return f"[{address}]" if ":" in address else address

    def __str__(self) -> str:
        return self.uri


def host(text: str) -> Host:
    """Parses URI[#ADDRESS[:PORT]]. The default of ADDRESS is the host in the URI."""
    uri, _, behind = text.partition("#")
    expected = f"{text}: expected the URI of a libvirtd, such as qemu+ssh://host/system, and after # what other " \
               "hosts call it if that differs:  qemu:///system#10.0.0.1  or  qemu:///system#[fd00::1]:7471"
    try:
        parts, reached = urllib.parse.urlsplit(uri), urllib.parse.urlsplit(f"//{behind}")
        address, port = reached.hostname or parts.hostname or "", reached.port or PORT
        unused = "@" in behind or behind != reached.netloc or 0 in (parts.port, reached.port)
    except ValueError as error:
        raise ui.LabError(expected) from error
    if not re.fullmatch(r"qemu(\+\w+)?", parts.scheme) or (address and not NAME.fullmatch(address)) or unused:
        raise ui.LabError(expected)
    if parts.path != "/system":
        raise ui.LabError(f"{uri}: guests need the system's libvirtd, not a user's:  {parts.scheme}://…/system")
    return Host(uri, address, port)


def runs_program(uri: str) -> bool:
    """Whether libvirt runs a program on this machine that the URI names, in place of ssh."""
    names = (word.partition("=")[0] for word in re.split("[&;]", urllib.parse.urlsplit(uri).query))
    return any(urllib.parse.unquote(name).lower() == "command" for name in names)


def _daemon(uri: str) -> tuple[str | None, int | None, list[str]]:
    """The libvirtd of a URI: its host, port and socket, without the user and the way to it."""
    parts = urllib.parse.urlsplit(uri)
    return parts.hostname, parts.port, urllib.parse.parse_qs(parts.query).get("socket", [])


def hosts(texts: list[str]) -> tuple[Host, ...]:
    found = tuple(map(host, texts))
    for number, one in enumerate(found):
        if twice := [other.uri for other in found[:number] if _daemon(other.uri) == _daemon(one.uri)]:
            raise ui.LabError(f"a host is named twice, as {twice[0]} and {one}: name each once, because its guests "
                              "share files")
    for one in found[:-1]:
        if not one.address:
            raise ui.LabError(f"{one}: how do the other hosts reach this one? Write its address after #:  "
                              f"{one}#10.0.0.1")
    return found


def wrong(texts: list[str]) -> str:
    """The error in these texts; "" if there is none."""
    try:
        hosts(texts)
    except ui.LabError as error:
        return str(error)
    return ""


@dataclasses.dataclass(frozen=True)
class Names:
    """Names of a lab's domains, pools and directories on its hosts. They depend only on the lab's machine and
    directory, so a lab finds what it left on a host earlier."""
    lab: str

    @staticmethod
    def of(machine: str, directory: str) -> "Names":
        return Names(f"pib-{paths.recipe_hash(machine, directory)}")

    def domain(self, guest: str) -> str:
        return f"{self.lab}-{guest}"

    @property
    def switch_pool(self) -> str:
        return f"{self.lab}-switch"

    @property
    def switch_files(self) -> pathlib.Path:
        return SWITCHES / self.lab

    @property
    def guest_files(self) -> pathlib.Path:
        return GUESTS / self.lab

    @property
    def fabric(self) -> str:
        """Address of the host's switch for the host's guests."""
        return f"unix:{SOCKETS / self.lab / 'fabric'}"

    @property
    def control(self) -> pathlib.Path:
        return SOCKETS / self.lab / "control"
