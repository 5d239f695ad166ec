# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects standard input and output to the ssh server of a guest, through libvirt.

    python3 -I -B lab/start.py lab.hosts.channel URI DOMAIN"""

import os
import sys
import threading

from lab import ui
from lab.hosts import connection, program
from lab.hosts.domain import CHANNEL

MOST_BYTES = 1 << 16


def _to_guest(stream) -> None:
    try:
        while data := os.read(0, MOST_BYTES):
            while data:
                data = data[stream.send(data):]
    finally:
        os._exit(0)                 # not sys.exit(): the main thread waits in a call of libvirt


def _from_guest(stream) -> None:
    while data := stream.recv(MOST_BYTES):
        ui.write(1, data)


def _join(uri: str, name: str) -> None:
    libvirt = connection.library()
    with connection.opened(uri) as host:
        stream = host.newStream(0)
        host.lookupByName(name).openChannel(CHANNEL, stream, libvirt.VIR_DOMAIN_CHANNEL_FORCE)
        threading.Thread(target=_to_guest, args=(stream,), daemon=True).start()
        _from_guest(stream)


def main() -> int:
    uri, name = sys.argv[1:]
    os._exit(program.run(lambda: _join(uri, name)))     # not sys.exit(): the thread may wait in a call of libvirt


if __name__ == "__main__":
    sys.exit(main())
