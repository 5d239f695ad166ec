# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the fabric periodically, keeps its history, and sends changes to the pages."""

import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

from lab.base import errors, ui
from lab.fabric import control, sm_log, source
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort, hca_ports
from lab.web import model, publish
from lab.web.connections import Cuts
from lab.web.history import History
from lab.web.past import FabricLog, with_states
from lab.web.places import Places
from lab.web.readings import Readings
from lab.web.routes import Routes, Tables
from lab.web.routing import RoutingLog
from lab.web.runs import Runs
from lab.web.timeline import Timeline

INTERVAL_S = 1.0
GUESTS_S = 2.0
REST = 20                       # pause after a reading, in multiples of the reading's processor time
SLACK_S = 1.0                   # on a busy host the times of switches' changes may be wrong by this
PATIENCE_S = 3                  # limit of a wait for a reading
MOST_JOURNALS = 16              # limit of switches' journals read per reading


class Watcher:
    """Reads the fabric and the guests in two threads. lock: protects the members."""

    def __init__(self, from_: source.Source, interval_s: float = INTERVAL_S):
        self.source, self.interval_s = from_, interval_s
        self.lock = threading.Lock()
        self.hub = publish.Hub()
        self.fabric, self.history, self.timeline = model.Fabric(), History(), Timeline()
        self.past, self.runs = FabricLog(), Runs()
        self.routing, self._manager_log = RoutingLog(), sm_log.Followed()
        self.guests: dict[str, Json | None] = {}
        self.guests_at = 0.0            # time at which the guests were read
        self.controls: list[pathlib.Path] = []
        self.trouble = ""               # why the last reading failed; "" if it did not
        self._connections: list[control.Control] = []      # one for each path in controls
        self._readings: Readings | None = None
        self._ports: dict[int, HcaPort] = {}
        self._hosts: dict[str, str] = {}    # names in the topology file, by GUID
        self._cuts, self._places = Cuts(), Places()
        self._read_at = time.time()
        self._clock = time.time(), time.monotonic()     # at the last reading
        self._new: set[str] = set()         # switches of a new run whose tables have not been read
        self._noted: dict[str, int] = {}    # by switch: its number of changes when its journal and table were read last
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
            began = time.thread_time()
            try:
                work()
            except Exception as error:      # pylint: disable=broad-exception-caught
                self._set_trouble(errors.sentence(error))       # otherwise the page would not say why it stands still
            self._ending.wait(max(interval_s, REST * (time.thread_time() - began)))

    # -- guests -----------------------------------------------------------------

    def read_guests(self) -> None:
        try:
            found = self.source.guests()
        except ui.LabError:
            found = {}
        decisions = self._decisions(found)
        with self.lock:
            self.guests, self.guests_at = found, time.time()
            before = self.timeline.last()
            if self.runs.note_guests(found, before, self.guests_at):
                self._send_runs()
            for name, guest in found.items():
                for slot, hca in enumerate(guest["hcas"] if guest else []):
                    self.timeline.read_hca(name, slot, hca)
            self.timeline.read_manager(self._manager_log.guest, decisions)
            for one in decisions:
                if engine := one.engine():
                    self.routing.note_engine(one.at, engine)
            self._send_events(before)

    def _decisions(self, guests: dict[str, Json | None]) -> list[sm_log.Decision]:
        """The new decisions in opensm's log since the last call, if opensm runs in one of the guests."""
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
            reading, differs = self._reading()
            now, made = self._time(), model.fabric_of(reading) if differs else self.fabric
        except Exception as error:      # pylint: disable=broad-exception-caught
            self._close()               # the next reading reads everything
            # KeyError: the switch has another version
            self._set_trouble(f"the answer has no {error}" if isinstance(error, KeyError) else errors.sentence(error))
            return
        if differs:
            self._places.give(made)
            model.name_places(made, self._hosts)
        with self.lock:
            before, self.fabric = self.fabric, made
            self.history.add(now, self.fabric, reading.traffic, self._clock[1])
            if differs:
                self.past.note(now, made)
            last = self.timeline.last()
            anew = self._is_another(last, now)
            if before.nodes and differs and not anew:
                self.timeline.differences(before, self.fabric, now)
        self._set_trouble("")
        if differs:
            self._send_fabric(before)
        tables = self.routing.now()
        self._read_journals(before, reading.changes, now)
        with self.lock:
            if anew:
                self._read_at = now     # no connection of the former run passed a link of this one
            else:
                self._follow_connections(before, tables, last, now)
            self._send_events(last)
            loads = self.history.loads()
        self.hub.send("loads", {"at": now, "loads": loads})

    def _is_another(self, last: int, now: float) -> bool:
        """Whether this reading is the first one of another fabric. Adds the event. Call with the lock held. last:
        number of the last event."""
        if not self._readings or not self.runs.note_switches(self._readings.instances, last, now):
            return False
        self._cuts, self._new = Cuts(), set(self.fabric.nodes)
        self.timeline.began_anew(self.fabric, now)
        self._send_runs()
        return True

    def _time(self) -> float:
        """The time of a reading. If the host's clock was set back, all that is kept moves with it: otherwise times
        would be out of order, and later than the present."""
        (before, clock), self._clock = self._clock, (time.time(), time.monotonic())
        if (step := self._clock[0] - before) < 0:
            step -= self._clock[1] - clock
            with self.lock:
                for shift in (self.history.shift, self.past.shift, self.routing.shift, self.timeline.shift,
                              self._cuts.shift, self.runs.shift):
                    shift(step)
                self._read_at += step
        return self._clock[0]

    def fabric_at(self, moment: float) -> model.Fabric:
        """The nodes and links of a moment, with their states. Call with the lock held."""
        if not self.past.since(moment):
            return with_states(self.fabric, self.history.moment(moment)["links"])
        return with_states(self.past.at(moment), self.history.moment(moment)["links"])

    def reading_after(self, at: float) -> float:
        """Time of the first reading at or after a time. Waits for one for PATIENCE_S; if none comes, returns the time
        itself."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with self.lock:
                if found := self.history.reading_after(at):
                    return found
            time.sleep(self.interval_s / 10)
        return at

    def _close(self) -> None:
        for connection in self._connections:
            connection.__exit__()
        self._connections.clear()
        self._readings = None
        self._noted.clear()

    def _reading(self) -> tuple[model.Reading, bool]:
        """Takes a reading; returns it, and whether anything except traffic counters may have changed since the last."""
        controls = self.source.controls()
        if not controls:
            raise ui.LabError("no switch runs. Start the lab:  ./pib up")
        if controls != self.controls or not self._readings:
            self._close()
            self.controls = controls
            for path in controls:
                self._connections.append(control.Control(path))
            self._readings, self._hosts = Readings(self._connections), self.source.hosts()
            self._ports = {}
        ports, before = self._guest_ports(), self._ports
        self._ports = ports
        reading, differs = self._readings.take(ports)
        return reading, differs or ports != before

    def _read_journals(self, before: model.Fabric, changes: dict[str, int], now: float) -> None:
        """Reads journals and forwarding tables of up to MOST_JOURNALS changed switches, first of switches with changed
        links: a sweep of the subnet manager may change thousands of switches."""
        moved_links = {guid for name, link in self.fabric.links.items() if link != before.links.get(name)
                       for guid in (link.a, link.b)} if before is not self.fabric else set()
        behind = [self.fabric.nodes[guid] for guid, number in changes.items() if self._noted.get(guid) != number]
        moved: dict[str, int] = {}
        for node in sorted(behind, key=lambda node: node.id not in moved_links)[:MOST_JOURNALS]:
            asked = self._connections[node.process]
            try:
                journal = asked.ask("journal", switch=node.name)
                table = asked.ask("lft", switch=node.name)["entries"]
            except ui.LabError:
                break                   # the next reading reports the error
            self._noted[node.id] = changes[node.id]
            with self.lock:
                self.timeline.read_switch(self.fabric, node, journal, time.time())
                number = self.routing.note(node.id, dict(table), now)
                if number and node.id not in self._new:
                    moved[node.id] = number
                self._new.discard(node.id)
        with self.lock:
            self.timeline.rerouted(self.fabric, moved, now)

    def _follow_connections(self, before: model.Fabric, tables: Tables, last: int, now: float) -> None:
        """Adds events about cut and mended connections. before, tables: fabric and forwarding tables before this
        reading. last: number of the last event before it."""
        downs = self.timeline.downs(last, self._read_at - SLACK_S)
        self._read_at = now
        if self._cuts:                  # before note(): a cut of this reading may be newer than the reading's links
            after = Routes(self.fabric, self.routing.now())
            self.timeline.connections("mended", self._cuts.mended(after, self.guests, now))
        if downs:
            self.timeline.connections("cut", self._cuts.note(downs, Routes(before, tables), self.guests))

    # -- sending ------------------------------------------------------------------

    def _set_trouble(self, text: str) -> None:
        with self.lock:                 # a page that joins meanwhile must get the text
            if text != self.trouble:
                self.trouble = text
                self.hub.send("trouble", {"text": text})

    def _send_events(self, after: int) -> None:
        if self.timeline.last() != after:
            self.hub.send("events", self.timeline.as_json(after))

    def _send_runs(self) -> None:
        self.hub.send("runs", self.runs.as_json())

    def _send_fabric(self, before: model.Fabric) -> None:
        if list(before.nodes) != list(self.fabric.nodes) or list(before.links) != list(self.fabric.links):
            self.hub.send("fabric", self.fabric.as_json())
            return
        changes = {"nodes": changed(before.nodes, self.fabric.nodes),
                   "links": changed(before.links, self.fabric.links), "sm_lid": self.fabric.sm_lid}
        if changes["nodes"] or changes["links"] or before.sm_lid != self.fabric.sm_lid:
            self.hub.send("changes", changes)

    def join(self) -> publish.Stream | None:
        """A stream of messages for a new page, which begins with everything known."""
        with self.lock:
            begin, _ = self.history.span()
            first = [publish.message("fabric", self.fabric.as_json()),
                     publish.message("runs", self.runs.as_json()),
                     publish.message("events", self.timeline.as_json()),
                     publish.message("loads", {"at": time.time(), "begin": begin, "loads": self.history.loads()}),
                     publish.message("trouble", {"text": self.trouble})]
            return self.hub.join(first)


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(one) for name, one in after.items() if one != before.get(name)]
