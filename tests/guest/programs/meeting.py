# SPDX-License-Identifier: GPL-2.0-or-later
"""How the two ends of a program find each other; copied beside the programs that import it."""
import socket
import time


def meet(server, port):
    """A TCP connection to the server, or as the server (server: None) from a client."""
    while server:
        try:
            return socket.create_connection((server, port))
        except ConnectionRefusedError:  # it is not there yet; who runs this limits how long
            time.sleep(0.2)
    listener = socket.create_server(("", port))
    return listener.accept()[0]
