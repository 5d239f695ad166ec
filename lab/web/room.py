# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits the connections of the page's server. A connection that has not shown the token yet is a newcomer.
Newcomers take no place of known connections, and a new one takes the place of the oldest, so clients that send nothing
keep no page out."""

import contextlib
import socket
import threading


class Room:
    def __init__(self, most: int):
        """most: limit of known connections, and of newcomers."""
        self._most, self._lock = most, threading.Lock()
        self._newcomers: dict[socket.socket, None] = {}         # oldest first
        self._known: set[socket.socket] = set()

    def enter(self, one: socket.socket) -> None:
        with self._lock:
            self._add(one)

    def _add(self, one: socket.socket) -> None:
        if len(self._newcomers) >= self._most:
            oldest = next(iter(self._newcomers))
            del self._newcomers[oldest]
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)               # its thread reads end-of-file, and calls leave()
        self._newcomers[one] = None

    def know(self, one: socket.socket) -> bool:
        """Notes that the connection has shown the token. Returns False if there are too many known connections."""
        with self._lock:
            if one not in self._known and len(self._known) >= self._most:
                return False
            self._newcomers.pop(one, None)
            self._known.add(one)
            return True

    def wait(self, one: socket.socket) -> None:
        """Notes that no request of a known connection is under way: the connection is a newcomer again."""
        with self._lock:
            if one in self._known:
                self._known.remove(one)
                self._add(one)

    def leave(self, one: socket.socket) -> None:
        """Must be called before the socket is closed: otherwise enter() might end another connection that has got the
        same descriptor."""
        with self._lock:
            self._newcomers.pop(one, None)
            self._known.discard(one)
