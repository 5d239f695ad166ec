# SPDX-License-Identifier: GPL-2.0-or-later
"""The HTTP server of `./pib web`: the page's files, answers in JSON, and the stream of changes."""

import contextlib
import errno
import json
import pathlib
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any

from lab.base import errors, files, ui
from lab.web import access, http_server
from lab.web.answers import Answers, Refused
from lab.web.watch import Watcher

PAGE = pathlib.Path(__file__).with_name("page")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".js": "text/javascript; charset=utf-8"}
STREAM = {"Content-Type": "text/event-stream"}
MOST_BODY = 4096                # limit of a request's body in octets
MOST_FIELDS = 8                 # limit of the fields of a question
MOST_REQUESTS = 64              # limit of simultaneous requests with the token, including streams, and of others
KEEP_S = 5                      # interval of comments in a quiet stream


class Server(http_server.Server):
    def __init__(self, address: tuple[str, int], watcher: Watcher):
        super().__init__(address, Handler, MOST_REQUESTS)
        self.watcher, self.answers = watcher, Answers(watcher)
        self.token = access.new_token()
        self.files = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES}

    @property
    def url(self) -> str:
        return f"{super().url}{self.token}/"

    def stop(self) -> None:
        self.ending.set()
        self.shutdown()
        self.server_close()
        self.answers.recordings.stop()


class Handler(http_server.Handler):
    server: Server

    # -- answering ------------------------------------------------------------------

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send(status, {"Content-Type": kind}, body)

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
        elif refused := self.refusal("./pib web"):
            self._refuse(*refused)
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

    do_HEAD = do_GET

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
        if self.command == "HEAD":
            self.head(200, STREAM, None)
            return
        stream = self.server.watcher.join()
        if not stream:
            self._refuse(503, "too many pages are open: close one")
            return
        try:
            self.head(200, STREAM, None)
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
