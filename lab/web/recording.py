# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures of QPs that go on while pages ask for them. The newest packets of each are kept, with their numbers."""

import collections
import contextlib
import dataclasses
import pathlib
import threading
import time
from typing import Any

from lab.base import ui
from lab.fabric import capture
from lab.web import sequence

MOST_KEPT = 400                 # packets of a recording
IDLE_S = 10.0                   # a recording ends when no page has asked for it for this time
WAIT_S = 0.5                    # interval of checks whether a page asks
REST = 4                        # pause after packets, in multiples of the work for them; the switch counts lost packets

Key = tuple[str, int]           # node, QPN


class Recording:
    """A capture in a switch process. began: in seconds since 1970. next: number of the next packet. lost: packets that
    the switch had no room for."""

    def __init__(self, path: pathlib.Path, rules: capture.Rules):
        self.path, self.rules, self.began = path, rules, time.time()
        self.next = self.lost = 0
        self.ended = False
        self._kept: collections.deque[bytes] = collections.deque(maxlen=MOST_KEPT)
        self._lock = threading.Lock()
        self._asked = time.monotonic()
        self._open = contextlib.ExitStack()
        self._sock, data = self._open.enter_context(capture.opened(path, rules))
        self._losses = capture.Losses()
        self._take(data)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._open, contextlib.suppress(OSError, ui.LabError):
            self._sock.settimeout(WAIT_S)
            while not self.ended and time.monotonic() < self._asked + IDLE_S and self._step():
                pass
        self.ended = True

    def _step(self) -> bool:
        """Takes the packets that have come; returns False if the switch has ended the capture."""
        try:
            data = self._sock.recv(capture.CHUNK)
        except TimeoutError:
            return True
        began = time.thread_time()
        self._take(data)
        time.sleep(REST * (time.thread_time() - began))
        return bool(data)

    def _take(self, data: bytes) -> None:
        with self._lock:
            for block in sequence.packets(self._losses.pass_on(data, None)):
                self._kept.append(block)
                self.next += 1
            self.lost = self._losses.lost

    def answer(self, began: float, since: int) -> dict[str, Any]:
        """The packets from number `since` on, if this is the recording that began at the time `began`; else all packets
        that are kept. missed: number of wanted packets that are not kept any more."""
        self._asked = time.monotonic()
        with self._lock:
            first = self.next - len(self._kept)
            since = since if began == self.began else first
            kept = list(self._kept)[max(since - first, 0):]
            following, lost = self.next, self.lost
        numbered = zip(range(following - len(kept), following), map(sequence.message_of, kept))
        messages = [{"number": number, **dataclasses.asdict(one)} for number, one in numbered if one]
        return {"began": self.began, "messages": messages, "next": following,
                "missed": max(first - since, 0), "lost": lost}

    def stop(self) -> None:
        self.ended = True
        self._thread.join()


class Recordings:
    """The recordings, one for each QP for which a page asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[Key, Recording] = {}

    def ask(self, key: Key, path: pathlib.Path, rules: capture.Rules) -> Recording:
        """Returns the recording of a QP. Begins one if none runs, or if the QP has another peer or LID than before."""
        with self._lock:
            self._of = {of: one for of, one in self._of.items() if not one.ended}
            found = self._of.get(key)
            if found and (found.path, found.rules) != (path, rules):
                found.stop()
                found = None
            if not found:
                found = self._of[key] = Recording(path, rules)
            return found

    def stop(self) -> None:
        with self._lock:
            for one in self._of.values():
                one.stop()
            self._of.clear()
