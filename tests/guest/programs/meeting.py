# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects the two ends of a program over TCP."""
import socket
import time


def meet(server, port):
    """Connects to the server or, if server is None, waits for a client."""
    while server:
        try:
            return socket.create_connection((server, port))
        except ConnectionRefusedError:  # the server does not listen yet; the caller of this program limits the time
            time.sleep(0.2)
    listener = socket.create_server(("", port))
    return listener.accept()[0]
