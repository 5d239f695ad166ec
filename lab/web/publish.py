# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends messages to all open pages, as server-sent events."""

import json
import queue
import threading
from typing import Any

MOST_STREAMS = 16
MOST_WAITING = 64               # limit of messages; a page that reads too slowly loses its stream and opens another


def message(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class Stream:
    def __init__(self) -> None:
        self.waiting: queue.Queue[bytes] = queue.Queue(MOST_WAITING)
        self.open = True

    def put(self, text: bytes) -> None:
        try:
            self.waiting.put_nowait(text)
        except queue.Full:
            self.open = False

    def get(self, timeout_s: float) -> bytes:
        """The next message, or after the timeout a comment, which keeps the connection alive."""
        try:
            return self.waiting.get(timeout=timeout_s)
        except queue.Empty:
            return b": nothing new\n\n"


class Hub:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: set[Stream] = set()

    def join(self, first: list[bytes]) -> Stream | None:
        """A new stream that begins with these messages; None if there are too many streams."""
        stream = Stream()
        for text in first:
            stream.put(text)
        with self._lock:
            if len(self._streams) >= MOST_STREAMS:
                return None
            self._streams.add(stream)
        return stream

    def leave(self, stream: Stream) -> None:
        stream.open = False
        with self._lock:
            self._streams.discard(stream)

    def send(self, name: str, data: Any) -> None:
        with self._lock:
            streams = list(self._streams)
        if streams:
            text = message(name, data)
            for stream in streams:
                stream.put(text)
