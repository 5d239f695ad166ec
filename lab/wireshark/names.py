# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the file with names of LIDs and QPs, which the dissector plugin reads."""

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator

from lab.base import files, ui
from lab.fabric.evidence import Json
from lab.wireshark import ports

FILE = "pib-hca-names"          # in Wireshark's personal configuration folder
INTERVAL_S = 2.0
LAST_S = 1.0                    # limit: a guest that does not answer must not delay the capture's end
HEAD = """\
# Names of the fabric's LIDs and QPs. Made by: pib wireshark
# lid LID NAME | qp LID QPN NAME, a packet's destination | from SLID DLID QPN NAME, the QP that sends to this QP
"""


def _qp_lines(port: ports.Port, qp: Json) -> Iterator[str]:
    name = f"{port.name.partition('[')[0]}:{qp['qpn']:#x}"
    for lid in port.lids:
        yield f"qp {lid} {qp['qpn']:#x} {name}"
        for path in (qp.get("path", {}), qp.get("alt_path", {})):
            if path.get("dlid") and "dest_qpn" in qp:
                yield f"from {lid} {path['dlid']} {qp['dest_qpn']:#x} {name}"


def text(found: ports.Found) -> str:
    """The file's contents. QPs have names as in ./pib why: vm0:0x40."""
    lines = [f"lid {lid} {name}" for lid, name in found.switches.items()]
    lines += [f"lid {lid} {port.name}" for port in found.ports for lid in port.lids]
    lines += [line for port in found.ports for qp in found.qps(port) for line in _qp_lines(port, qp)]
    return HEAD + "".join(f"{line}\n" for line in dict.fromkeys(lines))


def made_here(path: pathlib.Path) -> bool:
    """Whether the file is missing or was made by this program, so that it may be replaced."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        begin = file.readline()
        return not begin or begin == HEAD.encode().splitlines(keepends=True)[0]
    return True


def write(path: pathlib.Path, content: str) -> None:
    """Replaces the file atomically, unless it is the user's own."""
    if not made_here(path) or (path.exists() and path.read_bytes() == content.encode()):
        return
    files.replace(path, content.encode())


@contextlib.contextmanager
def kept_fresh(path: pathlib.Path, make: Callable[[], str]) -> Iterator[None]:
    """Writes the names now, and during the block again whenever they change. If the fabric does not answer, the old
    names stay. Errors are ignored, because capturing also works without names."""
    ending = threading.Event()

    def once() -> None:
        with contextlib.suppress(ui.LabError, OSError):
            write(path, make())

    def repeat() -> None:
        while not ending.wait(INTERVAL_S):
            once()
    once()
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(LAST_S)
