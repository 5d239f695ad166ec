# SPDX-License-Identifier: GPL-2.0-or-later
"""Events in order: from the journals of switches and of guests' HCAs, and from differences of two readings."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from lab.fabric.evidence import NS, Json
from lab.fabric.sm_log import Decision
from lab.interface import refusals
from lab.web.connections import Change
from lab.web.model import Fabric, Link, Node

MOST_EVENTS = 2000
SAME_S = 1.0                    # both ends of a link journal the same change within this time
MOST_BETWEEN = 100              # number of last events among which the other end's entry is searched
# Limits above which events are joined into one, because they would displace all other events.
MOST_UPS = 4                    # successive ports of a switch that went up
MOST_EQUAL = 20                 # changes of one kind between two readings
MOST_DECISIONS = 50             # decisions of the subnet manager in one reading
KINDS = {"up": "up", "down": "down", "cable pulled": "fault", "cable back": "up", "retrained": "fault",
         "faults": "fault", "link error": "trap"}
WORDS = {"up": "went up", "down": "went down", "cable pulled": "the cable was pulled",
         "cable back": "the cable was put back", "retrained": "was retrained on request", "link error": "link error"}


@dataclasses.dataclass
class Event:
    """kind: up, down, fault, trap, state, sm, node, completion, event, refused, cut or mended. link, node: ids, or "".
    guest, slot: an HCA. about: the argument for ./pib why."""
    number: int
    at: float
    kind: str
    text: str
    link: str = ""
    node: str = ""
    guest: str = ""
    slot: int = 0
    qpn: int = 0
    about: str = ""


@dataclasses.dataclass(frozen=True)
class Read:
    """How far a journal has been read. end: number of the next entry. times: how often the last entry was repeated,
    which a switch counts. time_ns: time of the last entry by the device's clock. instance: of a switch's process."""
    end: int = 0
    times: int = 0
    time_ns: int | None = None
    instance: str | None = None

    def is_of(self, answer: Json) -> bool:
        """Whether the answer is of the journal that was read, which may have grown. A restart begins another
        journal."""
        lost, entries = answer.get("lost", 0), answer.get("entries", [])
        if self.end > lost + len(entries) or self.instance != answer.get("instance"):
            return False
        return self.end <= lost or entries[self.end - 1 - lost].get("time_ns") == self.time_ns


class Timeline:
    def __init__(self) -> None:
        self.events: collections.deque[Event] = collections.deque(maxlen=MOST_EVENTS)
        self._number = 0
        self._read: dict[Any, Read] = {}            # by journal

    def as_json(self, after: int = 0) -> list[dict[str, Any]]:
        return [dataclasses.asdict(event) for event in self.events if event.number > after]

    def last(self) -> int:
        """The number of the last event."""
        return self._number

    def shift(self, seconds: float) -> None:
        """Moves all times, because the host's clock was set."""
        for event in self.events:
            event.at += seconds

    def _add(self, at: float, kind: str, text: str, **more: Any) -> None:
        self._number += 1
        self.events.append(Event(self._number, at, kind, text, **more))

    def _unread(self, journal: Any, answer: Json) -> list[Json]:
        """Entries that are new since the last call, or that have been repeated since: a switch counts successive equal
        changes in one entry. After a restart all entries are new."""
        lost, entries = answer.get("lost", 0), answer.get("entries", [])
        read = self._read.get(journal, Read())
        begin, times = (read.end, read.times) if read.is_of(answer) else (0, 0)
        if begin > lost and entries[begin - 1 - lost].get("times", 1) > times:
            begin -= 1
        last = entries[-1] if entries else {}
        self._read[journal] = Read(lost + len(entries), last.get("times", 1 if entries else 0), last.get("time_ns"),
                                   answer.get("instance"))
        return entries[max(begin - lost, 0):]

    # -- journals -----------------------------------------------------------------

    def read_switch(self, fabric: Fabric, node: Node, journal: Json, now: float) -> None:
        links = {port: link for link in fabric.links.values()
                 for guid, port in ((link.a, link.a_port), (link.b, link.b_port)) if guid == node.id}
        for is_up, run in itertools.groupby(self._unread(node.id, journal), key=lambda entry: entry["change"] == "up"):
            entries = list(run)
            if is_up and len(entries) > MOST_UPS:
                self._add(now - entries[-1]["age_ns"] / NS, "up", f"{len(entries)} ports of {node.name} went up",
                          node=node.id, about=node.name)
                continue
            for entry in entries:
                self._change(fabric, node, links.get(entry["port"]), entry, now)

    def _change(self, fabric: Fabric, node: Node, link: Link | None, entry: Json, now: float) -> None:
        """Adds the event for an entry of a switch's journal."""
        here = f"{node.name}[{entry['port']}]"
        text = _switch_words(entry, here, fabric.link_name(link) if link else here)
        at = now - entry["age_ns"] / NS
        if not self._told_by_other_end(node, text, at):
            self._add(at, KINDS[entry["change"]], text, link=link.id if link else "", node=node.id, about=here)

    def _told_by_other_end(self, node: Node, text: str, at: float) -> bool:
        """Whether the switch at the link's other end has already reported this change."""
        return any(event.text == text and event.node != node.id and abs(event.at - at) < SAME_S
                   for event in itertools.islice(reversed(self.events), MOST_BETWEEN))

    def read_hca(self, guest: str, slot: int, hca: Json) -> None:
        """Adds events for the new journal entries of a guest's HCA. hca: as in Evidence."""
        for entry in self._unread((guest, slot), {"lost": hca["lost"], "entries": hca["journal"]}):
            at = entry["at"]
            if entry["kind"] == "completion":
                queue = " of a receive" if entry["queue"] == "recv" else ""
                status = entry["status"].removeprefix("IBV_WC_")
                self._add(at, "completion", f"{guest} QP {entry['qpn']:#x}: {status}{queue}", guest=guest, slot=slot,
                          qpn=entry["qpn"], about=f"{guest}:{entry['qpn']:#x}")
            else:
                self._event(at, guest, slot, entry)
        lost = hca["objects"].get("refusals", {}).get("count", 0) - len(hca["refusals"])
        for entry in self._unread((guest, slot, "refusals"), {"lost": max(lost, 0), "entries": hca["refusals"]}):
            self._refused(guest, slot, entry)

    def _refused(self, guest: str, slot: int, entry: Json) -> None:
        """Adds the event of a refusal. It is an event of a QP if the refusal names exactly one."""
        named = refusals.qpns(entry)
        qpn = named.pop() if len(named) == 1 else 0
        self._add(entry["at"], "refused", f"{guest}: {entry['text']}", guest=guest, slot=slot, qpn=qpn,
                  about=f"{guest}:{qpn:#x}" if qpn else guest)

    def _event(self, at: float, guest: str, slot: int, entry: Json) -> None:
        words = entry["event"].split("_")
        if "QP" in words or "PATH" in words:
            self._add(at, "event", f"{guest} QP {entry['number']:#x}: {entry['event']}", guest=guest, slot=slot,
                      qpn=entry["number"], about=f"{guest}:{entry['number']:#x}")
        else:
            self._add(at, "event", f"{guest}: {entry['event']}, number {entry['number']}, port {entry['port']}",
                      guest=guest, slot=slot, about=guest)

    def read_manager(self, guest: str, decisions: Sequence[Decision]) -> None:
        """Adds events for decisions of the subnet manager in a guest. Successive equal decisions are one event."""
        groups = [(text, list(same)) for text, same in itertools.groupby(decisions, key=lambda one: one.text)]
        for text, same in groups[-MOST_DECISIONS:]:
            times = f" ({len(same)} times)" if len(same) > 1 else ""
            self._add(same[-1].at, "sm", f"opensm in {guest}: {text}{times}", guest=guest, about=guest)
        if (left := len(groups) - MOST_DECISIONS) > 0:
            self._add(groups[-1][1][-1].at, "sm", f"opensm in {guest} has written {left} more lines before",
                      guest=guest, about=guest)

    # -- readings -----------------------------------------------------------------

    def differences(self, before: Fabric, after: Fabric, now: float) -> None:
        """Adds events for differences that no journal has: nodes, LIDs, subnet manager, and states other than Down."""
        self._appeared([node for guid, node in after.nodes.items() if guid not in before.nodes], now)
        self._gone([node for guid, node in before.nodes.items() if guid not in after.nodes], now)
        if after.sm_lid != before.sm_lid:
            manager = next((node for node in after.nodes.values() if node.sm), None)
            place = f"LID {after.sm_lid}" + (f", {manager.name}" if manager else "")
            self._add(now, "sm", f"the subnet manager is at {place}" if after.sm_lid else "there is no subnet manager",
                      node=manager.id if manager else "")
        self._lids(before, after, now)
        self._states(before, after, now)

    def began_anew(self, fabric: Fabric, now: float) -> None:
        """Adds the one event for the exchange of the whole fabric."""
        switches = sum(node.kind == "switch" for node in fabric.nodes.values())
        self._add(now, "node", f"another fabric runs now: its {switches} switches have started anew" if switches > 1
                  else "another fabric runs now: its switch has started anew")

    def _appeared(self, nodes: list[Node], now: float) -> None:
        if len(nodes) > MOST_EQUAL:
            self._add(now, "node", f"{len(nodes)} nodes have appeared")
            return
        for node in nodes:
            self._add(now, "node", f"{node.name} has appeared", node=node.id, about=node.name)

    def _gone(self, nodes: list[Node], now: float) -> None:
        if len(nodes) > MOST_EQUAL:
            self._add(now, "node", f"{len(nodes)} nodes are gone")
            return
        for node in nodes:
            self._add(now, "node", f"{node.name} is gone", about=node.name)

    def _states(self, before: Fabric, after: Fabric, now: float) -> None:
        """Adds events for links in a new state. Joins them above MOST_EQUAL, because a sweep changes all links."""
        changed: dict[str, list[Link]] = collections.defaultdict(list)
        for name, link in after.links.items():
            old = before.links.get(name)
            if old and old.state != link.state and link.state != "Down":
                changed[link.state].append(link)
        for state, links in changed.items():
            if len(links) > MOST_EQUAL:
                self._add(now, "state", f"{len(links)} links are {state}")
                continue
            for link in links:
                self._add(now, "state", f"{after.link_name(link)} is {state}", link=link.id,
                          about=after.end_name(link.a, link.a_port))

    def connections(self, kind: str, changes: Sequence[Change]) -> None:
        """Adds events about connections. kind: cut or mended."""
        for change in changes:
            one = change.connection
            if one:
                self._add(change.at, kind, change.text, guest=one.guest, slot=one.slot, qpn=one.qpn,
                          about=f"{one.guest}:{one.qpn:#x}")
            else:
                self._add(change.at, kind, change.text)

    def downs(self, after: int, since: float) -> list[tuple[str, float]]:
        """(link, time) of links that went down, from events with a number above `after` and not before `since`."""
        newer = itertools.takewhile(lambda event: event.number > after, reversed(self.events))
        return [(event.link, event.at) for event in newer
                if event.kind == "down" and event.link and event.at >= since]

    def rerouted(self, fabric: Fabric, moved: dict[str, int], now: float) -> None:
        """Adds one event for all forwarding tables that the subnet manager has changed. moved: number of changed LIDs
        by switch."""
        names = [fabric.nodes[guid].name for guid in moved]
        if len(names) == 1:
            (guid, lids), = moved.items()
            self._add(now, "sm", f"the subnet manager has changed the routes of {names[0]} to {lids} LIDs", node=guid,
                      about=names[0])
        elif names:
            self._add(now, "sm", f"the subnet manager has changed the routes of {len(names)} switches, to "
                                 f"{sum(moved.values())} LIDs in all")

    def _lids(self, before: Fabric, after: Fabric, now: float) -> None:
        """Adds one event for all LIDs that a sweep has changed."""
        changed = [node for guid, node in after.nodes.items()
                   if guid in before.nodes and before.nodes[guid].lids != node.lids and node.lids]
        if len(changed) == 1:
            node, = changed
            self._add(now, "sm", f"{node.name} has LID {', '.join(map(str, node.lids))}", node=node.id)
        elif changed:
            self._add(now, "sm", f"the subnet manager has changed LIDs of {len(changed)} nodes")


def _switch_words(entry: Json, here: str, link: str) -> str:
    times = f" ({entry['times']} times)" if entry["times"] > 1 else ""
    if entry["change"] == "faults":
        none = entry["detail"] == "none"
        what = "no fault is injected any more" if none else f"faults are injected: {entry['detail']}"
        return f"{link}, at {here}: {what}{times}"
    detail = f": {entry['detail']}" if entry["change"] == "link error" and entry["detail"] else ""
    return f"{link}: {WORDS[entry['change']]}{detail}{times}"
