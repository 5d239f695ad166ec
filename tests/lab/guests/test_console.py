# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib console on a terminal: keys go to the guest, and its output comes back, until Ctrl-] or the guest's end. A pair
of pseudo terminals stands for the user's, a socket for QEMU's."""

import os
import pty
import re
import select
import socket
import termios
import threading
import types

import pytest

from lab.base import ui
from lab.guests import console, vm

PATIENCE_S = 60


@pytest.fixture(name="files")
def _files(tmp_path):
    files = vm.Files("vm0", tmp_path)
    files.console.write_bytes(b"x" * console.SHOWN + b"\r\nearlier output\r\n")
    return files


@pytest.fixture(name="user")
def _user(monkeypatch):
    """The user's side of the terminal, and the side of ./pib."""
    user, inner = pty.openpty()
    with open(inner, "r+b", buffering=0) as terminal:
        monkeypatch.setattr(console, "sys", types.SimpleNamespace(stdin=terminal, stdout=terminal))
        monkeypatch.setattr(console, "print", lambda: os.write(inner, b"\n"), raising=False)
        yield user, inner
    os.close(user)


class Session:
    """console.attach() in a thread, and QEMU's side of its connection."""

    def __init__(self, files):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(files.serial))
            listener.listen()
            self.thread = threading.Thread(target=console.attach, args=(files,), daemon=True)
            self.thread.start()
            listener.settimeout(PATIENCE_S)
            self.guest, _ = listener.accept()
        self.guest.settimeout(PATIENCE_S)

    def ended(self) -> bool:
        self.thread.join(PATIENCE_S)
        return not self.thread.is_alive()


def shown(user, text: bytes) -> bytes:
    """Output that the user has seen when this text is there."""
    seen = b""
    while text not in seen:
        assert select.select([user], [], [], PATIENCE_S)[0], seen
        seen += os.read(user, 4096)
    return seen


def test_keys_go_to_the_guest_until_ctrl_and_bracket(files, user):
    user, inner = user
    before = termios.tcgetattr(inner)
    session = Session(files)
    session.guest.sendall(b"vm0 login: ")
    assert re.search(rb"xx\s+earlier output\s+vm0 login: $", shown(user, b"vm0 login: "))
    os.write(user, b"\x03ls\r")                 # Ctrl-C is for the guest, too
    assert session.guest.recv(4, socket.MSG_WAITALL) == b"\x03ls\r"
    os.write(user, b"last\x1dnot this")
    assert session.guest.recv(100, socket.MSG_WAITALL) == b"last"
    assert session.ended() and termios.tcgetattr(inner) == before


def test_the_end_of_the_guest_gives_the_terminal_back(files, user):
    user, inner = user
    before = termios.tcgetattr(inner)
    session = Session(files)
    session.guest.sendall(b"Power down\r\n")
    session.guest.close()
    assert session.ended() and termios.tcgetattr(inner) == before
    shown(user, b"Power down")


def test_a_guest_without_a_console_is_reported(files, user):
    del user
    with pytest.raises(ui.LabError, match="vm0 has no console any more .*./pib reboot vm0"):
        console.attach(files)
