# SPDX-License-Identifier: GPL-2.0-or-later
"""The user at the other end of a TCP connection within this machine, as the kernel lists it."""

import pathlib
import socket
import sys

TABLE = pathlib.Path("/proc/net/tcp")
ESTABLISHED = "01"


def _listed(address: tuple[str, int]) -> str:
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def user(sock: socket.socket) -> int | None:
    """The user ID of the other end; None if the other end has been closed (the kernel then names no user) or is on
    another machine."""
    wanted = [_listed(sock.getpeername()), _listed(sock.getsockname()), ESTABLISHED]
    rows = (line.split() for line in TABLE.read_text(encoding="ascii").splitlines())
    return next((int(row[7]) for row in rows if row[1:4] == wanted), None)
