# SPDX-License-Identifier: GPL-2.0-or-later
"""A cable over TCP that can be cut: a proxy between two switch processes."""
import contextlib
import socket
import threading


def free_port():
    """A free TCP port of the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """Listens on a loopback address and forwards connections to `target`."""

    def __init__(self, host, target):
        self.target = target
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.address = f"tcp:[{host}]" if ":" in host else f"tcp:{host}"
        self.address += f":{self.listener.getsockname()[1]}"
        self.open = threading.Event()
        self.flowing = threading.Event()
        self.open.set()
        self.flowing.set()
        self.sockets = set()
        self.carried = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends all connections. Until mend(), new connections end at once, too."""
        self.open.clear()
        for sock in list(self.sockets):
            self._end(sock)

    def mend(self):
        self.open.set()

    def stall(self):
        """Stops reading from both sides until flow()."""
        self.flowing.clear()

    def flow(self):
        self.flowing.set()

    def close(self):
        self.cut()
        self.flow()
        self.listener.close()

    def _end(self, sock):
        self.sockets.discard(sock)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                if not self.open.is_set():
                    raise ConnectionRefusedError
                far = socket.create_connection(self.target)
            except OSError:
                near.close()
                continue
            self.sockets |= {near, far}
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 18):
                self.flowing.wait()
                other.sendall(data)
                self.carried += len(data)
        self._end(one)
        self._end(other)
