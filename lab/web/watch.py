# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the fabric at a steady rate, keeps its history, and sends the changes to the pages."""

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

from lab import ui
from lab.fabric import control, source
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort, hca_ports
from lab.web import model, publish, sm_log
from lab.web.history import History
from lab.web.routing import RoutingLog
from lab.web.timeline import Timeline

INTERVAL_S = 1.0
GUESTS_S = 2.0
REST = 20                       # after a reading the watcher rests at least this many times as long
MOST_JOURNALS = 16              # switches' journals that are read at a time


class Watcher:
    """lock: held while the members change."""

    def __init__(self, from_: source.Source, interval_s: float = INTERVAL_S):
        self.source, self.interval_s = from_, interval_s
        self.lock = threading.Lock()
        self.hub = publish.Hub()
        self.fabric, self.history, self.timeline = model.Fabric(), History(), Timeline()
        self.routing, self._manager_log = RoutingLog(), sm_log.Followed()
        self.guests: dict[str, Json | None] = {}
        self.controls: list[pathlib.Path] = []
        self.trouble = ""               # the reason why there is no new reading
        self._connections: dict[pathlib.Path, control.Control] = {}
        self._next_journal = 0
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for work, interval_s in ((self.read_guests, GUESTS_S), (self.read_fabric, self.interval_s)):
            thread = threading.Thread(target=self._repeat, args=(work, interval_s), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._manager_log.stop()
        self._close()

    def _repeat(self, work: Callable[[], None], interval_s: float) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            work()
            self._ending.wait(max(interval_s, REST * (time.monotonic() - began)))

    # -- guests -----------------------------------------------------------------

    def read_guests(self) -> None:
        try:
            found = self.source.guests()
        except ui.LabError:
            found = {}
        decisions = self._decisions(found)
        with self.lock:
            self.guests = found
            before = self.timeline.last()
            for name, guest in found.items():
                for slot, hca in enumerate(guest["hcas"] if guest else []):
                    self.timeline.read_hca(name, slot, hca)
            self.timeline.read_manager(self._manager_log.guest, decisions)
            self._send_events(before)

    def _decisions(self, guests: dict[str, Json | None]) -> list[sm_log.Decision]:
        """The new lines of opensm's log since the last call, if it runs in one of the guests."""
        manager = next((node.guest for node in self.fabric.nodes.values() if node.sm and node.guest in guests), "")
        try:
            return self._manager_log.take(manager, lambda: self.source.command(manager, sm_log.WORDS))
        except ui.LabError:
            return []

    def _guest_ports(self) -> dict[int, HcaPort]:
        return {port.guid: port for name, found in self.guests.items() if found
                for port in hca_ports(name, [hca["objects"] for hca in found["hcas"]])}

    # -- the fabric ---------------------------------------------------------------

    def read_fabric(self) -> None:
        try:
            reading = self._reading()
        except (ui.LabError, KeyError) as error:        # a switch whose answer lacks a member is another version's
            self._close()
            self._set_trouble(str(error) if isinstance(error, ui.LabError) else f"the answer has no {error}")
            return
        now = time.time()
        with self.lock:
            before, self.fabric = self.fabric, model.fabric_of(reading)
            self.history.add(now, self.fabric, reading)
            last = self.timeline.last()
            if before.nodes:
                self.timeline.differences(before, self.fabric, now)
        self._set_trouble("")
        self._send_fabric(before)
        self._read_journals(before, now)
        with self.lock:
            self._send_events(last)
            loads = self.history.loads()
        self.hub.send("loads", {"at": now, "loads": loads})

    def _connection(self, path: pathlib.Path) -> control.Control:
        if path not in self._connections:
            self._connections[path] = control.Control(path)
        return self._connections[path]

    def _close(self) -> None:
        for connection in self._connections.values():
            with contextlib.suppress(OSError):      # a request that could not be sent is still in the buffer
                connection.__exit__()
        self._connections.clear()

    def _reading(self) -> model.Reading:
        controls = self.source.controls()
        if not controls:
            raise ui.LabError("no switch runs. Start the lab:  ./pib up")
        if controls != self.controls:
            self._close()
            self.controls = controls
        switches: dict[str, Json] = {}
        phantoms: set[str] = set()
        for number, path in enumerate(controls):
            found, more = source.read_switches(self._connection(path))
            phantoms |= more
            for name, switch in found.items():
                switches[switch["switch"]["guid"]] = {**switch, "name": name, "process": number}
        return model.Reading(switches, phantoms, self._guest_ports())

    def _read_journals(self, before: model.Fabric, now: float) -> None:
        """Those of switches whose links have changed, and of some others in turn. The latter's forwarding tables too: a
        sweep of the subnet manager may change all, and one round must not read thousands of them."""
        switches = [node for node in self.fabric.nodes.values() if node.kind == "switch"]
        changed = {guid for name, link in self.fabric.links.items() if link != before.links.get(name)
                   for guid in (link.a, link.b)}
        turn = (switches * 2)[self._next_journal:self._next_journal + min(MOST_JOURNALS, len(switches))]
        self._next_journal = (self._next_journal + len(turn)) % max(len(switches), 1)
        moved: dict[str, int] = {}
        for node in [node for node in switches if node.id in changed or node in turn]:
            asked = self._connection(self.controls[node.process])
            try:
                journal = asked.ask("journal", switch=node.name)
                table = asked.ask("lft", switch=node.name)["entries"] if node in turn else None
            except ui.LabError:
                break                   # the next reading tells it
            with self.lock:
                self.timeline.read_switch(self.fabric, node, journal, time.time())
                if table is not None and (number := self.routing.note(node.id, dict(table), now)):
                    moved[node.id] = number
        with self.lock:
            self.timeline.rerouted(self.fabric, moved, now)

    # -- sending ------------------------------------------------------------------

    def _set_trouble(self, text: str) -> None:
        if text != self.trouble:
            self.trouble = text
            self.hub.send("trouble", {"text": text})

    def _send_events(self, after: int) -> None:
        if self.timeline.last() != after:
            self.hub.send("events", self.timeline.as_json(after))

    def _send_fabric(self, before: model.Fabric) -> None:
        if list(before.nodes) != list(self.fabric.nodes) or list(before.links) != list(self.fabric.links):
            self.hub.send("fabric", self.fabric.as_json())
            return
        changes = {"nodes": changed(before.nodes, self.fabric.nodes),
                   "links": changed(before.links, self.fabric.links), "sm_lid": self.fabric.sm_lid}
        if changes["nodes"] or changes["links"] or before.sm_lid != self.fabric.sm_lid:
            self.hub.send("changes", changes)

    def join(self) -> publish.Stream | None:
        """A stream of messages that begins with everything known."""
        with self.lock:
            begin, _ = self.history.span()
            first = [publish.message("fabric", self.fabric.as_json()),
                     publish.message("events", self.timeline.as_json()),
                     publish.message("loads", {"at": time.time(), "begin": begin, "loads": self.history.loads()}),
                     publish.message("trouble", {"text": self.trouble})]
            return self.hub.join(first)


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(one) for name, one in after.items() if one != before.get(name)]
