# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects the terminal to a guest's serial console."""

import contextlib
import os
import selectors
import socket
import sys
import termios
import tty
from collections.abc import Iterator

from lab.base import ui
from lab.guests import vm

LEAVE = b"\x1d"                 # Ctrl-]
SHOWN = 2000                    # bytes of earlier output shown at the start
PIECE = 4096


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _connect(files: vm.Files) -> socket.socket:
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(str(files.serial))
    except OSError as error:
        one.close()
        raise ui.LabError(f"{files.name} has no console any more ({error.strerror}). Start it again:  "
                          f"./pib reboot {files.name}") from error
    return one


def attach(files: vm.Files) -> None:
    """Connects the terminal to the console until Ctrl-] or the guest's end. QEMU serves one terminal at a time; a
    second terminal waits."""
    terminal = sys.stdin.fileno()
    with _connect(files) as one:
        ui.say(f"console of {files.name}; Enter starts a shell, Ctrl-] leaves")
        ui.write(sys.stdout.fileno(), _said_before(files))
        with _raw(terminal), selectors.DefaultSelector() as selector:
            selector.register(terminal, selectors.EVENT_READ)
            selector.register(one, selectors.EVENT_READ)
            while _relay({key.fd for key, _ in selector.select()}, terminal, one):
                pass
    print()


def _said_before(files: vm.Files) -> bytes:
    with open(files.console, "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - SHOWN, 0))
        return file.read()


def _relay(ready: set[int], terminal: int, one: socket.socket) -> bool:
    """Copies input and output that are ready. Returns False after Ctrl-] and at the end of either."""
    if one.fileno() in ready:
        if not (said := one.recv(PIECE)):
            return False
        ui.write(sys.stdout.fileno(), said)
    if terminal in ready:
        typed = os.read(terminal, PIECE)
        before, leave, _ = typed.partition(LEAVE)
        one.sendall(before)
        return bool(typed) and not leave
    return True
