# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits of connections of ./pib web: clients without the token take no place of those with it."""

import contextlib
import socket
import threading
import types

import pytest

from lab.web import room, server

PATIENCE_S = 60


@pytest.fixture(name="web")
def small_server(monkeypatch):
    monkeypatch.setattr(server, "MOST_REQUESTS", 4)
    running = server.Server(("127.0.0.1", 0), types.SimpleNamespace())
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield running
    running.stop()
    thread.join()


def connection(web) -> socket.socket:
    return socket.create_connection(web.server_address, timeout=PATIENCE_S)


def status(sock: socket.socket, token: str) -> bytes:
    """The status of a request for a file; the connection stays open."""
    sock.sendall(f"GET /{token}/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    with sock.makefile("rb") as got:
        return got.readline().split()[1]


def test_clients_that_send_nothing_keep_no_page_out(web):
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connection(web)) for _ in range(9)]
        assert status(stack.enter_context(connection(web)), web.token) == b"200"
        for early in silent[:5]:
            assert early.recv(1) == b""         # another client has its place
    with connection(web) as again:
        assert status(again, web.token) == b"200"


def test_known_clients_have_a_limit_of_their_own(web):
    with contextlib.ExitStack() as stack:
        known = [stack.enter_context(connection(web))]
        assert status(known[0], web.token) == b"200"
        for expected in (b"200", b"200", b"200", b"503"):
            known.append(stack.enter_context(connection(web)))
            assert status(known[-1], web.token) == expected
        for _ in range(9):
            stack.enter_context(connection(web))
        assert status(stack.enter_context(connection(web)), "x") == b"403"
        known.pop(0).close()
        while status(one := stack.enter_context(connection(web)), web.token) == b"503":
            one.close()                         # the server has not noticed the end yet


def test_head_is_answered_without_a_body_and_begins_no_stream(web):
    for path, last in (("icon.svg", b"Content-Length"), ("events", b"Connection: close")):
        with connection(web) as sock, sock.makefile("rb") as got:
            sock.sendall(f"HEAD /{web.token}/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            header, _, body = got.read().partition(b"\r\n\r\n")
        assert header.startswith(b"HTTP/1.1 200 ") and last in header and not body


def test_leaving_frees_a_place_and_ends_no_connection():
    few = room.Room(1)
    ends = [socket.socketpair() for _ in range(3)]
    few.enter(ends[0][0])
    assert few.know(ends[0][0]) and few.know(ends[0][0])
    few.enter(ends[1][0])
    assert not few.know(ends[1][0])
    few.leave(ends[0][0])
    assert few.know(ends[1][0])
    few.enter(ends[2][0])
    for one, other in ends:
        other.sendall(b"x")
        assert one.recv(1) == b"x"
        few.leave(one)
        one.close()
        other.close()
