# SPDX-License-Identifier: GPL-2.0-or-later
"""Answers the page's requests: questions, and changes of links and faults."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from lab.base import ui
from lab.fabric import capture, control, failures, why
from lab.fabric.evidence import NS, Json, Table
from lab.web import connections, explanations, model, recording, routing
from lab.web.routes import Routes
from lab.web.watch import Watcher

MOST_ROWS = 512                 # limit of a list in an answer
FAULTS = ("drop", "duplicate", "reorder", "corrupt", "delay_us", "jitter_us", "vl15")

Question = dict[str, str]


class Refused(ui.LabError):
    """The request is wrong. Its answer is status 400."""


def _text(question: Json, name: str) -> str:
    value = question.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"the request has no {name}: give it as text")
    return value


def _number(question: Question, name: str) -> float:
    text = _text(question, name)
    try:
        if math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    raise Refused(f"{name}: expected a number, not {ui.printable(text[:40])}")


def _no_link(wanted: str) -> Refused:
    return Refused(f"the fabric has no link {ui.printable(wanted[:80])}. Choose one on the page, which shows all")


def _link_at(watcher: Watcher, question: Question) -> model.Link:
    """A link of the present, or of the moment "at"."""
    wanted = _text(question, "link")
    link = watcher.fabric.links.get(wanted)
    if not link and "at" in question:
        with watcher.lock:
            link = watcher.fabric_at(_number(question, "at")).links.get(wanted)
    if not link:
        raise _no_link(wanted)
    return link


def _answers(node: model.Node) -> bool:
    """Whether a node is a switch whose process can be asked."""
    return node.kind == "switch" and node.process != model.NO_PROCESS


class Answers:
    def __init__(self, watcher: Watcher):
        self.watcher, self.recordings = watcher, recording.Recordings()
        self.get: dict[str, Callable[[Question], Any]] = {
            "link": self.link, "switch": self.switch, "hca": self.hca, "qp": self.qp, "qps": self.qps,
            "sequence": self.sequence,
            "routes": self.routes, "balance": self.balance, "moment": self.moment, "compare": self.compare,
            "rerouted": self.rerouted, "why": self.why, "explanation": self.explanation}
        self.post: dict[str, Callable[[Json], Any]] = {"link": self.set_link, "fault": self.set_fault}

    # -- objects that a request names ---------------------------------------------

    def _link(self, question: Json) -> model.Link:
        wanted = _text(question, "link")
        link = self.watcher.fabric.links.get(wanted)
        if not link:
            raise _no_link(wanted)
        return link

    def _node(self, question: Json) -> model.Node:
        wanted = _text(question, "node")
        node = self.watcher.fabric.nodes.get(wanted)
        if not node:
            raise Refused(f"the fabric has no node {ui.printable(wanted[:80])}. Choose one on the page, which shows "
                          "all")
        return node

    def _ask(self, switch: model.Node, command: str, **members: Any) -> Json:
        with control.Control(self.watcher.controls[switch.process]) as asked:
            return asked.ask(command, switch=switch.name, **members)

    def _ends(self, link: model.Link) -> dict[str, tuple[model.Node, int]]:
        """(switch, port) of the ends of a link that are ports of switches that answer, by "a" and "b"."""
        nodes = self.watcher.fabric.nodes
        ends = {"a": (nodes[link.a], link.a_port), "b": (nodes[link.b], link.b_port)}
        return {name: end for name, end in ends.items() if _answers(end[0])}

    # -- links ----------------------------------------------------------------------

    def link(self, question: Question) -> Json:
        """The state, counters, faults, VLs, curves and connections of a link. A link that no longer exists has only
        its last state and its curves."""
        link, found = _link_at(self.watcher, question), {}
        there = link.id in self.watcher.fabric.links
        for name, (switch, port) in self._ends(link).items() if there else ():
            counters, = self._ask(switch, "counters", port=port)["ports"]
            faults = self._ask(switch, "fault", port=port)
            found[name] = {"counters": {counter: value for counter, value in counters.items()
                                        if value and counter != "port"},
                           "faults": {"in": faults["in"], "out": faults["out"]},
                           "vls": self._ask(switch, "vls", port=port)}
        with self.watcher.lock:
            curves = self.watcher.history.curves(link.id)
        return {"read": time.time(), "link": dataclasses.asdict(link), "ends": found, "curves": curves,
                "connections": self._over(link) if there else {"count": 0, "all": True, "entries": []}}

    def _over(self, link: model.Link) -> Json:
        """The connections whose packets pass a link now. all: no QP was left out of the search."""
        routes, guests = self._routes(), self.watcher.guests
        found = connections.over(link.id, routes, guests)
        looked = sum(1 for _ in connections.connections(routes.fabric, guests))
        return {"count": len(found), "all": looked < connections.MOST_CONNECTIONS, "entries": [
            {"node": one.node, "name": one.guest, "qpn": one.qpn, "to": one.peer(routes)} for one in found[:MOST_ROWS]]}

    def set_link(self, request: Json) -> Json:
        """Pulls the link's cable, puts it back at both ends, or retrains the link."""
        state = _text(request, "state")
        switch, port = self._end(request)
        if state == "up":
            for other, number in self._ends(self._link(request)).values():
                self._ask(other, "link", port=number, state=state)
        return self._ask(switch, "link", port=port, state=state)

    def _end(self, request: Json) -> tuple[model.Node, int]:
        ends = self._ends(self._link(request))
        name = request.get("end", "a")
        end = ends.get(name) if isinstance(name, str) else None
        if not end:
            raise Refused(f"this link has no switch at that end: end is {' or '.join(ends)}")
        return end

    def set_fault(self, request: Json) -> Json:
        switch, port = self._end(request)
        faults = request.get("set")
        if not isinstance(faults, dict) or not set(faults) <= set(FAULTS):
            raise Refused(f"set is an object with some of: {', '.join(FAULTS)}")
        return self._ask(switch, "fault", port=port, direction=request.get("direction", "both"), set=faults)

    # -- nodes ----------------------------------------------------------------------

    def switch(self, question: Question) -> Json:
        """The status, ports, VLs and forwarding tables of a switch. With "at" the LFT is that of that moment; all else
        is the present one."""
        node = self._node(question)
        if node.kind != "switch":
            raise Refused(f"{node.name} is not a switch. Choose one")
        if not _answers(node):
            raise Refused(f"{node.name}: its switch process does not answer. What runs:  ./pib status")
        with control.Control(self.watcher.controls[node.process]) as asked:
            status, lft, mft = (asked.ask(command, switch=node.name) for command in ("status", "lft", "mft"))
            vls = [asked.ask("vls", switch=node.name, port=port["port"]) for port in status["ports"]
                   if "neighbour" in port]
        entries = lft["entries"]
        if "at" in question:
            with self.watcher.lock:
                entries = list(self.watcher.routing.table(node.id, _number(question, "at")).items())
        return {"read": time.time(), "switch": status["switch"], "ports": status["ports"], "vls": vls, "lft": entries,
                "mft": mft["entries"]}

    def _known(self, node: model.Node) -> Json | None:
        """The objects of a node's HCA; None if they are not known."""
        guest = self.watcher.guests.get(node.guest) if node.guest else None
        return guest["hcas"][node.slot]["objects"] if guest and node.slot < len(guest["hcas"]) else None

    def _hca(self, node: model.Node) -> Json:
        objects = self._known(node)
        if objects is None:
            raise Refused(f"{node.name}: its objects are not known, because it is not a guest of this lab, or QEMU "
                          "does not answer. Guests:  ./pib status")
        return objects

    def hca(self, question: Question) -> Json:
        node = self._node(question)
        objects = self._hca(node)
        lists = {name: {"count": found["count"], "entries": found["entries"][:MOST_ROWS]}
                 for name, found in objects.items() if isinstance(found, dict) and "entries" in found}
        guest = self.watcher.guests[node.guest] or {}
        return {"read": self.watcher.guests_at, **lists, "counters": objects.get("counters", {}),
                "state": guest.get("state", ""),
                "failures": failures.of_device(guest["hcas"][node.slot])[-MOST_ROWS:]}

    # -- routes of packets ------------------------------------------------------------

    def _routes_at(self, question: Question) -> Routes:
        """Routes by the links and forwarding tables of the time "at" if the request has it, else of the present."""
        if "at" not in question:
            return self._routes()
        with self.watcher.lock:
            tables = self.watcher.routing.at(_number(question, "at"))
            fabric = self.watcher.fabric_at(_number(question, "at"))
        return Routes(fabric, {switch: routing.Ports(table) for switch, table in tables.items()})

    def _routes(self) -> Routes:
        """Routes by the present links and forwarding tables. Tables that no reading has yet are requested from the
        switches."""
        with self.watcher.lock:
            fabric, tables = self.watcher.fabric, dict[str, Table](self.watcher.routing.now())
        missing = [node for node in fabric.nodes.values() if _answers(node) and node.id not in tables]
        for process in {node.process for node in missing}:
            with control.Control(self.watcher.controls[process]) as asked:
                tables |= {node.id: routing.Ports(routing.packed(dict(asked.ask("lft", switch=node.name)["entries"])))
                           for node in missing if node.process == process}
        return Routes(fabric, tables)

    def qp(self, question: Question) -> Json:
        """A QP, its peer, and the routes between them. With "at" the routes are those of that moment; all else is the
        present one."""
        node, number = self._node(question), int(_number(question, "qpn"))
        objects = self._hca(node)
        qp = _qp_of(objects, number)
        if not qp:              # the QP is gone: its program has ended, perhaps because the QP failed
            return {"read": self.watcher.guests_at, "qp": None}
        found: Json = {"read": self.watcher.guests_at, "qp": qp, "srq": _srq(objects, qp), "cqes": _cqes(objects, qp),
                       "there": [], "back": [], "complete": False, "peer": None}
        if "path" not in qp:
            return found
        routes = self._routes_at(question)
        there = routes.way(node.id, qp["path"]["port"], qp["path"]["dlid"])
        peer = routes.node_of_lid(qp["path"]["dlid"])
        found |= {"there": there.hops, "complete": there.complete, "end": there.end}
        if peer and (others := self._known(peer)) is not None:
            far = _qp_of(others, qp.get("dest_qpn", 0))
            found["peer"] = {"node": peer.id, "name": peer.name, "qp": far,
                             **({"srq": _srq(others, far), "cqes": _cqes(others, far)} if far else {})}
            if far and "path" in far:
                found["back"] = routes.way(peer.id, far["path"]["port"], far["path"]["dlid"]).hops
        return found

    def qps(self, question: Question) -> list[Json]:
        """QPs with a number, of the guest or of all."""
        number, guest = int(_number(question, "qpn")), question.get("guest", "")
        found = []
        for node in self.watcher.fabric.nodes.values():
            objects = self._known(node) if guest.lower() in ("", node.guest.lower()) else None
            if objects and (qp := _qp_of(objects, number)):
                found.append({"node": node.id, "name": node.guest, **{name: qp[name] for name in (
                    "qpn", "type", "state")}})
        return found[:MOST_ROWS]

    def sequence(self, question: Question) -> Json:
        """Returns the LIDs of a QP's port, and packets of the QP. since: number of the first wanted packet, if the
        recording is still the one of the time "began"; of another recording all packets are returned. The capture goes
        on while a page asks. error: the switch does not capture."""
        node, number = self._node(question), int(_number(question, "qpn"))
        objects, fabric = self._hca(node), self.watcher.fabric
        rules = capture.rules(node.name, [objects], number)
        port = (_qp_of(objects, number) or {}).get("port")
        link = next((link for link in fabric.links.values() if (link.b, link.b_port) == (node.id, port)), None)
        if not link:
            raise Refused(f"port {port} of {node.name} has no link. The links:  ./pib map")
        try:
            found = self.recordings.ask((node.id, number), self.watcher.controls[fabric.nodes[link.a].process], rules)
        except ui.LabError as error:
            return {"error": str(error)}
        began, since = (_number({name: "0", **question}, name) for name in ("began", "since"))
        return {**found.answer(began, int(since)), "lids": link.lids}

    def routes(self, question: Question) -> Json:
        return self._routes_at(question).through(_link_at(self.watcher, question))

    def balance(self, question: Question) -> Json:
        routes = self._routes_at(question)
        with self.watcher.lock:
            engine = self.watcher.routing.engine(_number(question, "at") if "at" in question else math.inf)
        return {"engine": engine, "links": [[link, out, count] for (link, out), count in routes.balance().items()],
                "loops": routes.circles(), "lids": routes.counted()}

    # -- time -----------------------------------------------------------------------

    def moment(self, question: Question) -> Json:
        """States and loads of links at a moment. since: time from which on the fabric had the nodes and links of that
        moment; 0 if they are the present ones. fabric: those nodes and links if they are past ones, unless the page
        says by "known" that it has them. With "event" the moment is that of the first reading after an event at that
        time."""
        at, known = _number(question, "at"), _number({"known": "0", **question}, "known")
        if "event" in question:
            at = self.watcher.reading_after(at)
        with self.watcher.lock:
            since, found = self.watcher.past.since(at), self.watcher.history.moment(at)
            fabric = None if since in (0, known) else self.watcher.past.at(at).as_json()
        return {**found, "since": since, "fabric": fabric}

    def compare(self, question: Question) -> Json:
        """Compares the links of two moments. names: those of links that have left the fabric."""
        begin, end = _number(question, "begin"), _number(question, "end")
        with self.watcher.lock:
            found, now = self.watcher.history.compare(begin, end), self.watcher.fabric.links
            fabrics = [self.watcher.past.at(moment) for moment in (begin, end)]
        names = {link: fabric.link_name(fabric.links[link]) for fabric in fabrics for link in found["links"]
                 if link in fabric.links and link not in now}
        return {**found, "names": names}

    def rerouted(self, question: Question) -> Json:
        """Compares the routing of two moments, for example before and after a change of the routing engine. names:
        those of switches that have left the fabric."""
        begin, end = sorted((_number(question, "begin"), _number(question, "end")))
        with self.watcher.lock:
            log, present = self.watcher.routing, self.watcher.fabric.nodes
            moments, known = [(self.watcher.fabric_at(at), log.at(at)) for at in (begin, end)], log.forgotten
            engines = {"before": log.engine(begin), "after": log.engine(end)}
        found = routing.compare(*moments)
        for name in found.keys() & engines.keys():
            found[name]["engine"] = engines[name]
        names = {guid: moments[0][0].nodes[guid].name for guid in found["switches"] if guid not in present}
        return {"begin": begin, "end": end, "known": known, "names": names, **found}

    def why(self, question: Question) -> Json:
        """The lines of ./pib why; nothing: its answer if there are none."""
        try:
            found, about = self.watcher.source.evidence(), question.get("about", "")
            found.tables_at = self._tables_at
            lines = why.lines(found, about)
            return {"lines": lines, "nothing": "" if lines else why.nothing(found, about)}
        except ui.LabError as error:
            return {"lines": [], "error": str(error)}

    def _tables_at(self, moment: float) -> dict[str, Table]:
        with self.watcher.lock:
            return dict(self.watcher.routing.known(moment))

    def explanation(self, question: Question) -> Json:
        """A section of docs/troubleshooting.md, by its anchor."""
        wanted = _text(question, "section")
        found = explanations.find(wanted)
        if not found:
            raise Refused(f"docs/troubleshooting.md has no section {ui.printable(wanted[:80])}. Name one that it has")
        return found


def _qp_of(objects: Json, number: int) -> Json | None:
    return next((qp for qp in objects.get("qps", {}).get("entries", []) if qp["qpn"] == number), None)


def _srq(objects: Json, qp: Json) -> Json | None:
    """The SRQ of a QP, None if it has none."""
    return next((srq for srq in objects.get("srqs", {}).get("entries", []) if srq["srqn"] == qp["srq"]), None)


def _cqes(objects: Json, qp: Json) -> list[Json]:
    """The last completions of a QP, oldest first. age: in seconds at the time when the objects were read."""
    found = [one for cq in objects.get("cqs", {}).get("entries", []) if cq["cqn"] in (qp["send_cq"], qp["recv_cq"])
             for one in cq.get("cqes", []) if one["qpn"] == qp["qpn"]]
    return sorted(({**one, "age": (objects["now_ns"] - one["time_ns"]) / NS} for one in found),
                  key=lambda one: -one["age"])
