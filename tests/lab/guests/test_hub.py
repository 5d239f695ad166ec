# SPDX-License-Identifier: GPL-2.0-or-later
"""The hub of the management network forwards frames to their guests and bounds its table."""

import pathlib
import socket
import struct
import sys

import pytest

from lab.base import paths, process
from lab.guests import hub


def frame(to: bytes, origin: bytes, payload: bytes) -> bytes:
    body = to + origin + payload
    return struct.pack(">I", len(body)) + body


@pytest.fixture
def hub_socket(tmp_path):
    path, log = tmp_path / "hub", tmp_path / "log"
    running = process.start([sys.executable, "-I", "-B", paths.ROOT / "lab" / "start.py", "lab.guests.hub", path], log,
                            directory=tmp_path, name="hub")
    process.wait_for("hub", path.exists, running, log, 60)
    yield path
    running.stop()


def connect(path: pathlib.Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(str(path))
    return sock


def test_the_hub_floods_then_learns_and_drops_garbage(hub_socket):
    first, second, third, bad = (connect(hub_socket) for _ in range(4))
    a, b, everyone = b"\x52\0\0\0\0\1", b"\x52\0\0\0\0\2", b"\xff" * 6
    hello = frame(everyone, a, b"hello")
    first.sendall(hello)
    for sock in (second, third):
        assert sock.recv(100) == hello
    answer, last = frame(a, b, b"answer"), frame(everyone, b, b"last")
    second.sendall(answer + last[:7])
    second.sendall(last[7:])
    assert first.recv(len(answer), socket.MSG_WAITALL) == answer
    assert third.recv(len(last), socket.MSG_WAITALL) == last    # without the earlier answer
    bad.sendall(struct.pack(">I", 1 << 30))
    while bad.recv(1000):
        pass
    first.sendall(hello)
    assert second.recv(len(hello), socket.MSG_WAITALL) == hello


def test_random_addresses_do_not_fill_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "ADDRESSES", 4)
    switch, port = hub.Hub(str(tmp_path / "hub")), object()
    switch.all = {port}
    everyone = b"\xff" * 6
    for number in range(100):
        switch.forward(port, frame(everyone, number.to_bytes(6, "big"), b""))
    switch.forward(port, frame(everyone, (96).to_bytes(6, "big"), b""))     # seen again: the newest now
    switch.forward(port, frame(everyone, (100).to_bytes(6, "big"), b""))
    assert [int.from_bytes(address, "big") for address in switch.ports] == [98, 99, 96, 100]
    switch.listener.close()


def test_more_connections_than_descriptors_do_not_end_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(hub.resource, "getrlimit", lambda _limit: (hub.OTHER_FILES + 2, 1 << 20))
    switch = hub.Hub(str(tmp_path / "hub"))
    guests = [connect(tmp_path / "hub") for _ in range(5)]
    switch.accept()
    assert len(switch.all) == 2
    assert [sock.recv(1) for sock in guests[2:]] == [b""] * 3
    switch.drop(next(iter(switch.all)))
    guests.append(connect(tmp_path / "hub"))
    switch.accept()
    assert len(switch.all) == 2
    for sock in [*guests, switch.listener, *(port.sock for port in switch.all)]:
        sock.close()
