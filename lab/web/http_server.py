# SPDX-License-Identifier: GPL-2.0-or-later
"""Common parts of the HTTP servers of ./pib web and ./pib metrics: limits of clients and their time, and checks of
headers that a page of another web site cannot forge."""

import http.server
import socket
import socketserver
import sys
import threading

from lab.web import access, room

# With these headers a page can load nothing from elsewhere, and no other page can embed it.
HEADERS = {"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
           "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
           "Cross-Origin-Resource-Policy": "same-origin"}
REQUEST_S = 20                  # timeout of a client that sends or reads nothing


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type["Handler"], most: int):
        """most: limit of connections with an allowed request, streams included; it is also the limit of all others."""
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)
        self.room = room.Room(most)
        self.ending = threading.Event()

    def server_bind(self) -> None:
        """Binds without HTTPServer's DNS query for the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/"

    def process_request(self, request, client_address) -> None:
        self.room.enter(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:
        self.room.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address) -> None:
        """Ignores connection errors, which a client causes by going away."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    timeout = REQUEST_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "pib", ""

    def log_message(self, *_words) -> None:     # pylint: disable=arguments-differ
        """Logs nothing: the path of a request may have a token, and a scrape every second would fill a log."""

    def parse_request(self) -> bool:
        """Returns False if the server ends: then the request gets no answer. A connection may outlive its server's
        socket."""
        self.close_connection = True
        return not self.server.ending.is_set() and super().parse_request()

    def head(self, status: int, headers: dict[str, str], length: int | None) -> None:
        """length: of the body; None: the body ends with the connection."""
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Sends no body to HEAD, whose answer has the header of GET's (RFC 9110, 9.3.2)."""
        self.head(status, headers, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def refusal(self, command: str) -> tuple[int, str] | None:
        """Status and text if this request is not allowed. command: the one that has printed the server's address."""
        if not access.host_allowed(self.headers.get("Host", "")):
            return 403, f"the Host header is a foreign name: use the address that {command} has printed"
        if not (access.origin_allowed(self.headers.get("Origin"), self.headers.get("Host", ""))
                and access.fetch_allowed(self.headers.get("Sec-Fetch-Site"), self.headers.get("Sec-Fetch-Dest"))):
            return 403, f"the request comes from another site's page: use the address that {command} has printed"
        if not self.server.room.know(self.connection):
            return 503, "too many requests are under way: try again later, or close a page"
        return None
