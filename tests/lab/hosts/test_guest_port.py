# SPDX-License-Identifier: GPL-2.0-or-later
"""The loopback port of a guest on another host: each connection there ends the one before, so only the lab's user and
root get one."""

import os
import socket
import types

import pytest

from lab.hosts import guest, owner

PATIENCE_S = 60


@pytest.fixture(name="listener")
def loopback_port():
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(PATIENCE_S)
        yield made


def test_the_kernel_names_the_user_of_an_open_connection(listener):
    with socket.create_connection(listener.getsockname()) as client:
        taken, _ = listener.accept()
        with taken:
            assert owner.user(taken) == os.getuid()
            client.close()
            while taken.recv(1):
                pass
            assert owner.user(taken) is None


@pytest.mark.parametrize("user, started", [(os.getuid(), 1), (0, 1), (os.getuid() + 1, 0), (None, 0)])
def test_another_user_gets_no_connection(monkeypatch, listener, user, started):
    begun: list[list[str]] = []
    lives = iter((True, False))
    monkeypatch.setattr(guest, "_lives", lambda _domain: next(lives))
    monkeypatch.setattr(guest.owner, "user", lambda _taken: user)
    monkeypatch.setattr(guest.subprocess, "Popen", lambda words, **_files: begun.append(words))
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as client:
        domain = types.SimpleNamespace(name=lambda: "pib-x-vm0")
        guest._relay(listener, domain, "qemu:///system")        # pylint: disable=protected-access
        assert len(begun) == started and client.recv(1) == b""
