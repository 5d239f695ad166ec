# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects standard input and output to the ssh server of a guest, through libvirt.

    python3 -I -B lab/start.py lab.hosts.channel URI DOMAIN

One thread copies both ways, in libvirt's event loop, as a connection is for one thread."""

import os
import sys
from collections.abc import Callable

from lab.base import ui
from lab.hosts import connection, program
from lab.hosts.domain import CHANNEL

MOST_BYTES = 1 << 16
INPUT = 0
OUTPUT = 1
NOT_NOW = -2                        # send() and recv() of a stream return this instead of waiting


class Copier:
    """Copies between standard input and output and a stream that does not wait, until one of them ends."""

    def __init__(self, libvirt, stream):
        self._libvirt, self._stream = libvirt, stream
        self._input = 0             # libvirt's number of the watch of standard input
        self._to_guest = b""        # read from standard input, not yet sent
        self._ended = False

    def run(self) -> None:
        self._input = self._libvirt.virEventAddHandle(INPUT, self._libvirt.VIR_EVENT_HANDLE_READABLE,
                                                     self._input_ready, None)
        self._stream.eventAddCallback(self._stream_events(), self._stream_ready, None)
        while not self._ended:
            self._libvirt.virEventRunDefaultImpl()

    def _stream_events(self) -> int:
        events = (self._libvirt.VIR_STREAM_EVENT_READABLE | self._libvirt.VIR_STREAM_EVENT_HANGUP
                  | self._libvirt.VIR_STREAM_EVENT_ERROR)
        return events | self._libvirt.VIR_STREAM_EVENT_WRITABLE if self._to_guest else events

    def _until_an_error(self, step: Callable[[], None]) -> None:
        """Calls step(). An error ends run(); libvirt itself would print an error of a callback, and go on."""
        try:
            step()
        except (OSError, self._libvirt.libvirtError):
            self._ended = True

    def _input_ready(self, _watch, _file, _events, _opaque) -> None:
        self._until_an_error(self._read)

    def _stream_ready(self, _stream, events: int, _opaque) -> None:
        if events & self._libvirt.VIR_STREAM_EVENT_WRITABLE:
            self._until_an_error(self._send)
        if events & ~self._libvirt.VIR_STREAM_EVENT_WRITABLE:
            self._until_an_error(self._receive)

    def _read(self) -> None:
        self._to_guest = os.read(INPUT, MOST_BYTES)
        if not self._to_guest:
            self._ended = True
        self._send()

    def _send(self) -> None:
        """Sends what the stream takes now. Nothing is read from standard input before all of it is sent."""
        while self._to_guest and (taken := self._stream.send(self._to_guest)) != NOT_NOW:
            self._to_guest = self._to_guest[taken:]
        self._libvirt.virEventUpdateHandle(
            self._input, 0 if self._to_guest else self._libvirt.VIR_EVENT_HANDLE_READABLE)
        self._stream.eventUpdateCallback(self._stream_events())

    def _receive(self) -> None:
        while (data := self._stream.recv(MOST_BYTES)) != NOT_NOW:
            if not data:
                self._ended = True
                return
            ui.write(OUTPUT, data)


def _join(uri: str, name: str) -> None:
    libvirt = connection.library()
    libvirt.virEventRegisterDefaultImpl()
    with connection.opened(uri) as host:
        stream = host.newStream(libvirt.VIR_STREAM_NONBLOCK)
        host.lookupByName(name).openChannel(CHANNEL, stream, libvirt.VIR_DOMAIN_CHANNEL_FORCE)
        Copier(libvirt, stream).run()


def main() -> int:
    uri, name = sys.argv[1:]
    return program.run(lambda: _join(uri, name))


if __name__ == "__main__":
    sys.exit(main())
