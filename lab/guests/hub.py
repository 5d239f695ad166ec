# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests' management network: an Ethernet hub on a Unix socket.

QEMU's stream netdev precedes each frame by its length, four bytes big-endian. The network is separate from the fabric,
so programs with an out-of-band connection run as on real hosts, even while the fabric is down.

    python3 -I -B lab/start.py lab.guests.hub SOCKET

Guests are not trusted: the length of a frame, the backlog of a guest that does not read, the table of addresses and the
number of connections are bounded."""

import os
import resource
import selectors
import signal
import socket
import struct
import sys

HEADER = struct.Struct(">I")
LARGEST = 65536 + 256           # limit of a frame in bytes: 64 KiB with segmentation offload, and room for headers
BACKLOG = 8 << 20               # backlog in bytes of a guest that reads slowly; beyond it frames are lost
PORTS = 512                     # limit of connections; the hub closes further ones
OTHER_FILES = 32                # descriptors that are left for other uses
ADDRESSES = 1024                # limit; beyond it the hub forgets the oldest address and floods frames to it


class Port:
    """One guest's connection."""

    def __init__(self, sock: socket.socket):
        sock.setblocking(False)
        self.sock = sock
        self.received = bytearray()
        self.pending = bytearray()

    def frames(self) -> list[bytes]:
        """Removes the complete frames from the received bytes and returns them. Raises ValueError for a bad length."""
        found, start = [], 0
        while len(self.received) - start >= HEADER.size:
            (length,) = HEADER.unpack_from(self.received, start)
            if length > LARGEST:
                raise ValueError(f"frame of {length} bytes")
            end = start + HEADER.size + length
            if len(self.received) < end:
                break
            found.append(bytes(self.received[start:end]))
            start = end
        del self.received[:start]
        return found

    def send(self, frame: bytes) -> None:
        if len(self.pending) + len(frame) <= BACKLOG:
            self.pending += frame

    def flush(self) -> None:
        while self.pending:
            try:
                sent = self.sock.send(self.pending)
            except BlockingIOError:
                return
            del self.pending[:sent]


class Hub:
    def __init__(self, path: str):
        self.selector = selectors.DefaultSelector()
        self.ports: dict[bytes, Port] = {}      # port at which an address was last seen, oldest first
        self.all: set[Port] = set()
        # Without a free descriptor accept() would fail, at once and again and again.
        self.most = min(PORTS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OTHER_FILES)
        self.listener = socket.socket(socket.AF_UNIX)
        unready = f"{path}.new"
        self.listener.bind(unready)
        self.listener.listen(64)
        os.rename(unready, path)    # the path appears when connections are possible
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def run(self) -> None:
        while True:
            # New connections first, so that a guest receives all frames sent after it has connected.
            for key, events in sorted(self.selector.select(), key=lambda e: e[0].data is not None):
                if key.data is None:
                    self.accept()
                elif key.data in self.all:
                    self.serve(key.data, events)

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            if len(self.all) >= self.most:
                sock.close()
                continue
            port = Port(sock)
            self.all.add(port)
            self.selector.register(sock, selectors.EVENT_READ, port)

    def serve(self, port: Port, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self.receive(port)
            if events & selectors.EVENT_WRITE:
                self.flush(port)
        except (OSError, ValueError):
            self.drop(port)

    def receive(self, port: Port) -> None:
        data = port.sock.recv(1 << 18)
        if not data:
            raise ConnectionResetError
        port.received += data
        for frame in port.frames():
            self.forward(port, frame)

    def forward(self, origin: Port, frame: bytes) -> None:
        to, sender = frame[4:10], frame[10:16]
        self.ports.pop(sender, None)
        self.ports[sender] = origin
        if len(self.ports) > ADDRESSES:
            del self.ports[next(iter(self.ports))]
        known = None if to[0:1] and to[0] & 1 else self.ports.get(to)
        for port in [known] if known in self.all else list(self.all):
            if port is not origin:
                port.send(frame)
                try:
                    self.flush(port)
                except OSError:
                    self.drop(port)

    def flush(self, port: Port) -> None:
        port.flush()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.pending else 0)
        self.selector.modify(port.sock, wanted, port)

    def drop(self, port: Port) -> None:
        self.all.discard(port)
        self.ports = {address: at for address, at in self.ports.items() if at is not port}
        self.selector.unregister(port.sock)
        port.sock.close()


def main() -> int:
    path = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    hub = Hub(path)
    try:
        hub.run()
    finally:
        os.unlink(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
