# SPDX-License-Identifier: GPL-2.0-or-later
"""The HTTP server of `./pib web`: the page's files, answers in JSON, and the stream of changes."""

import contextlib
import errno
import http.server
import json
import pathlib
import socket
import socketserver
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

from lab import errors, files, ui
from lab.web import access, room
from lab.web.answers import Answers, Refused
from lab.web.watch import Watcher

PAGE = pathlib.Path(__file__).with_name("page")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".js": "text/javascript; charset=utf-8"}
# With these headers the page can load nothing from elsewhere, and no other page can embed it.
HEADERS = {"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
           "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
           "Cross-Origin-Resource-Policy": "same-origin"}
MOST_BODY = 4096                # limit of a request's body in octets
MOST_FIELDS = 8                 # limit of the fields of a question
MOST_REQUESTS = 64              # limit of simultaneous requests with the token, including streams, and of others
REQUEST_S = 20                  # timeout of a client that sends nothing
KEEP_S = 5                      # interval of comments in a quiet stream


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], watcher: Watcher):
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)
        self.watcher, self.answers = watcher, Answers(watcher)
        self.token = access.new_token()
        self.files = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES}
        self.room = room.Room(MOST_REQUESTS)
        self.ending = threading.Event()

    def server_bind(self) -> None:
        """Binds without HTTPServer's DNS query for the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/{self.token}/"

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

    def stop(self) -> None:
        self.ending.set()
        self.shutdown()
        self.server_close()
        self.answers.recordings.stop()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    timeout = REQUEST_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "pib", ""

    def log_message(self, *_words) -> None:     # pylint: disable=arguments-differ
        """Logs nothing, because the path of a request has the token."""

    def parse_request(self) -> bool:
        """Returns False if the server ends: then the request gets no answer. A connection may outlive its server's
        socket."""
        self.close_connection = True
        return not self.server.ending.is_set() and super().parse_request()

    # -- answering ------------------------------------------------------------------

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind}.items():
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        self.wfile.write(body)

    def _json(self, status: int, data: Any) -> None:
        self._send(status, "application/json", ui.named(json.dumps(data, separators=(",", ":"))).encode())

    def _refuse(self, status: int, text: str) -> None:
        self.close_connection = True            # an unread body may follow on the connection
        self._json(status, {"error": text})

    def _answer(self, make, given: Any) -> None:
        self._json(*_made(make, given))

    # -- checks -----------------------------------------------------------------------

    def _allowed(self) -> tuple[str, str] | None:
        """(path after the token, query) of a request; None if it has been refused. The token is checked first, because
        a newcomer must not make this server ask a name server."""
        try:
            parts = urllib.parse.urlsplit(self.path)
        except ValueError:                      # "http://[" begins an address that never ends
            self._refuse(400, "the request names no path: use the address that ./pib web has printed")
            return None
        token, rest = access.split_token(parts.path)
        if not access.token_is(token, self.server.token):
            self._refuse(403, "the token is wrong: use the address that ./pib web has printed")
        elif not access.host_allowed(self.headers.get("Host", "")):
            self._refuse(403, "the Host header is a foreign name: use the address that ./pib web has printed")
        elif not access.origin_allowed(self.headers.get("Origin"), self.headers.get("Host", "")):
            self._refuse(403, "the request comes from another site's page")
        elif not self.server.room.know(self.connection):
            self._refuse(503, "too many requests are under way: close a page")
        else:
            return rest, parts.query
        return None

    def do_GET(self) -> None:
        if not (allowed := self._allowed()):
            return
        path, query = allowed
        if path == "events":
            self._stream()
        elif path in self.server.answers.get:
            self._question(path, query)
        elif file := self.server.files.get(path or "index.html"):
            self._send(200, TYPES[file.suffix], ui.named(file.read_text(encoding="utf-8")).encode())
        else:
            self._refuse(404, "there is no such page")

    def _question(self, path: str, query: str) -> None:
        try:
            question = dict(urllib.parse.parse_qsl(query, max_num_fields=MOST_FIELDS))
        except ValueError:
            self._refuse(400, f"a question has at most {MOST_FIELDS} fields")
            return
        self._answer(self.server.answers.get[path], question)

    def do_POST(self) -> None:
        if not (allowed := self._allowed()):
            return
        path, _query = allowed
        length = self.headers.get("Content-Length", "")
        if path not in self.server.answers.post:
            self._refuse(404, "there is no such change")
        elif self.headers.get("Content-Type", "").split(";")[0] != "application/json":
            self._refuse(415, "a change is sent as application/json")
        elif not length.isascii() or not length.isdigit() or len(length) > 8 or int(length) > MOST_BODY:
            self._refuse(413, f"a change has a Content-Length, of at most {MOST_BODY} octets")
        else:
            self._change(path, self.rfile.read(int(length)))

    def _change(self, path: str, body: bytes) -> None:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            request = None
        if isinstance(request, dict):
            self._answer(self.server.answers.post[path], request)
        else:
            self._json(400, {"error": "a change is one JSON object"})

    # -- the stream -------------------------------------------------------------------

    def _stream(self) -> None:
        stream = self.server.watcher.join()
        if not stream:
            self._refuse(503, "too many pages are open: close one")
            return
        try:
            self._head(200, "text/event-stream", None)
            while stream.open and not self.server.ending.is_set():
                self.wfile.write(stream.get(KEEP_S))
        except OSError:
            pass                    # the page was closed
        finally:
            self.server.watcher.hub.leave(stream)


def _made(make, given: Any) -> tuple[int, Any]:
    """Status and contents of an answer. The page also gets exceptions of other kinds, such as a KeyError after a
    reading has replaced data that this answer uses."""
    try:
        return 200, make(given)
    except Refused as error:
        return 400, {"error": str(error)}
    except ui.LabError as error:
        return 502, {"error": str(error)}
    except Exception as error:              # pylint: disable=broad-exception-caught
        return 500, {"error": errors.sentence(error)}


@contextlib.contextmanager
def _told(url: str, file: pathlib.Path | None) -> Iterator[None]:
    """Prints the page's address, or writes it to a file that only this user can read, for the time of the block: users
    who can read a log must not get the token."""
    if not file:
        ui.say(f"{url} until Ctrl-C")
        yield
        return
    try:
        files.replace(file, f"{url}\n".encode())
    except OSError as error:
        raise ui.LabError(f"--address-file {file}: {error.strerror or error}. Name a file that can be written"
                          ) from error
    ui.say(f"the page's address is in {file}")
    if sys.stderr and sys.stderr.isatty():
        ui.say(f"{url} until Ctrl-C")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()


def serve(watcher: Watcher, host: str, port: int, address_file: pathlib.Path | None = None) -> None:
    """Serves the page until interrupted."""
    try:
        server = Server((host, port), watcher)
    except OSError as error:
        advice = "Take another port:  ./pib web --port N" if error.errno in (errno.EADDRINUSE, errno.EACCES) else \
            "Take an IP address of this machine:  ./pib web --address ADDRESS"
        raise ui.LabError(f"{host} port {port}: {error.strerror or error}. {advice}") from error
    watcher.start()
    try:
        with _told(server.url, address_file):
            server.serve_forever()
    finally:
        server.ending.set()
        server.server_close()
        server.answers.recordings.stop()
        watcher.stop()
