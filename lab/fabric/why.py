# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib why: failures of the running fabric, in words, with causes and times."""

import collections
import dataclasses
import re
from collections.abc import Iterator

from lab.base import ui
from lab.fabric import failures
from lab.fabric.causes import EVENTS, LOCAL, REFUSED, Causes, drops, ended_name, explains, qp_name, retries, wqe_reason
from lab.fabric.evidence import Evidence, Json
from lab.fabric.qp_paths import QpPaths
from lab.fabric.wiring import Link, Outage, Place, Wiring
from lab.interface import refusals

PAGE = "docs/troubleshooting.md"
FIRST_SECTION = "1-first-looks"
PORT_SECTION = "4-a-port-is-not-active"
WAIT_SECTION = "5-work-requests-do-not-complete"
REFUSAL_SECTION = "7-the-device-refuses-a-command"
LINK_SECTION = "6-a-link-is-down-or-loses-packets"
DOWN = 1
PORT_STATES = {DOWN: "Down: its link has no peer", 2: "Initialize: no subnet manager has found it",
               3: "Armed: the subnet manager has not finished"}
INITIALIZE = "Initialize"
MOST_NAMED = 4                  # limit of ports that a line names
SAME_S = 1.0                    # a port and its switch report the same change within this time
FAILED = ("ERR", "SQE")
QP = re.compile(r"(?:(?P<guest>[^:]+):)?(?P<qpn>0x[0-9a-f]{1,8}|[0-9]{1,10})", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A line of the answer. at: its time, or None. about: names by which a user can ask for it. minor: shown only to a
    user who asks by one of these names."""
    at: float | None
    text: str
    section: str
    about: frozenset[str]
    minor: bool = False


def _qp_names(guest: str, qpn: int) -> set[str]:
    return {guest, f"{qpn:#x}", f"{guest}:{qpn:#x}"}


def _link_names(links: list[Link]) -> set[str]:
    return {name for link in links for end in (link.a, link.b) for name in (end.node, str(end))}


def _how_often(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _anchor(name: str) -> str:
    """The anchor of a heading in docs/troubleshooting.md."""
    return name.lower()


class Findings:
    def __init__(self, evidence: Evidence):
        self.evidence = evidence
        self.causes = Causes(evidence)
        self.paths = QpPaths(self.causes)

    def all(self) -> list[Finding]:
        found = [*self._processes(), *self._guests(), *self._unmanaged(), *self._links(), *self._counters()]
        return sorted(found, key=lambda finding: finding.at or 0)

    def _processes(self) -> Iterator[Finding]:
        for process, switches in self.evidence.ended.items():
            yield Finding(None, f"{ended_name(process, switches)} does not run, so its links are down. Start it again:"
                          "  ./pib up", LINK_SECTION, frozenset({process, *switches}))

    # -- guests ---------------------------------------------------------------

    def _guests(self) -> Iterator[Finding]:
        for name in self.evidence.silent:
            yield Finding(None, f"{name}: QEMU does not answer. Look at its console:  ./pib console {name}   Start the "
                          f"guest anew:  ./pib reboot {name}", FIRST_SECTION, frozenset({name}))
        for name, said in self.evidence.gone.items():
            yield Finding(None, f"{name} does not run: its QEMU has ended" + (f" and said last: {said}" if said else "")
                          + f". Start the guest anew:  ./pib reboot {name}", FIRST_SECTION, frozenset({name}))
        for name, line in self.evidence.faulty.items():
            yield Finding(None, f"{name}: its kernel has reported a fault: {line}. The whole report:  ./pib console "
                          f"{name}   Start the guest anew:  ./pib reboot {name}", FIRST_SECTION, frozenset({name}))
        for name, guest in self.evidence.guests.items():
            if guest["state"] != "running":
                yield Finding(None, f"{name} is stopped ({guest['state']}): it answers nothing", WAIT_SECTION,
                              frozenset({name}))
            for hca in guest["hcas"]:
                yield from self._journal(name, failures.of_device(hca))
                yield from (self._refusal(name, entry) for entry in hca["refusals"] if "qpn" not in entry)
                yield from self._ports(name, hca["objects"])
            yield from self._qps(name)

    def _journal(self, guest: str, journal: list[Json]) -> Iterator[Finding]:
        for entry in journal:
            if entry["kind"] == "completion":
                yield self._completion(guest, entry)
            else:
                yield from self._event(guest, entry)

    @staticmethod
    def _refusal(guest: str, entry: Json) -> Finding:
        text = re.sub(r" id \d+ refused: ", " refused: ", entry["text"], count=1)
        about = {guest}.union(*(_qp_names(guest, qpn) for qpn in refusals.qpns(entry)))
        return Finding(entry["at"], f"{guest}: {text}", REFUSAL_SECTION, frozenset(about))

    def _completion(self, guest: str, entry: Json) -> Finding:
        status = entry["status"]
        links: list[Link] = []
        if status == "IBV_WC_RETRY_EXC_ERR":
            cause, links = self.causes.silence(guest, entry)
            cause += f"; {retries(entry)}"
        elif status == "IBV_WC_RNR_RETRY_EXC_ERR":
            cause = f"{self.causes.no_receive(entry)}; {entry['rnr_retry']} RNR retries"
        elif status in REFUSED and "dlid" in entry and entry["queue"] == "send":
            cause = self.causes.refusal(entry)
        else:
            cause = f"{REFUSED.get(status) or LOCAL.get(status, 'see there')}: {wqe_reason(entry)}"
        names = _qp_names(guest, entry["qpn"]) | _link_names(links) | self._peer_names(entry)
        if "port" in entry:
            names.add(f"{guest}[{entry['port']}]")
        queue = "" if entry["queue"] == "send" else " of a receive"
        return Finding(entry["at"], f"{qp_name(guest, entry['qpn'])}: {status.removeprefix('IBV_WC_')}{queue}, because "
                       f"{cause}", _anchor(status), frozenset(names))

    def _peer_names(self, entry: Json) -> set[str]:
        target = self.causes.wiring.port_of_lid(entry.get("dlid", 0))
        return {target.guest, f"{target.guest}:{entry['dest_qpn']:#x}"} if target else set()

    def _event(self, guest: str, entry: Json) -> Iterator[Finding]:
        number, names = entry["number"], entry["event"].split()
        for name in names:
            if name in EVENTS:
                kind = name.split("_")[2]
                of = {"CQ": f"{guest} CQ {number:#x}", "SRQ": f"{guest} SRQ {number:#x}", "DEVICE": guest}
                about = {guest} if kind in of else _qp_names(guest, number)
                yield Finding(entry["at"], f"{of.get(kind, qp_name(guest, number))}: {name}, because "
                              f"{entry.get('reason') or EVENTS[name]}", _anchor(name), frozenset(about),
                              minor=name == "IBV_EVENT_PATH_MIG")
            else:
                port = f"{guest}[{entry['port']}]"
                yield Finding(entry["at"], f"{port}: {name}{self._why_port(name, guest, entry)}", _anchor(name),
                              frozenset({guest, port}), minor=True)

    def _why_port(self, name: str, guest: str, entry: Json) -> str:
        """The outage that has ended a port's state Active, as words after the event; "" for other events."""
        link = self.causes.wiring.at.get(Place(guest, entry["port"])) if name == failures.ERROR else None
        near = [outage for outage in link.outages if outage.down and abs(outage.begin - entry["at"]) < SAME_S
                ] if link else []
        return f", because {self.causes.outage(link, near[-1])}" if link and near else ""

    def _ports(self, guest: str, objects: Json) -> Iterator[Finding]:
        for port in objects.get("ports", {}).get("entries", []):
            if port["state"] in PORT_STATES:
                name = f"{guest}[{port['port']}]"
                yield Finding(self.evidence.at, f"{name} is {PORT_STATES[port['state']]}", PORT_SECTION,
                              frozenset({guest, name}), minor=port["state"] == DOWN)

    def _qps(self, guest: str) -> Iterator[Finding]:
        for qpn, qp in self.causes.qps(guest).items():
            about = frozenset(_qp_names(guest, qpn))
            requester = qp.get("requester", {})
            if qp["state"] in FAILED and not self.causes.of_qp(guest, qpn):
                yield Finding(self.evidence.at, f"{qp_name(guest, qpn)} is in {qp['state']}: its program did that, or "
                              "the journal has lost the failure", _anchor("IBV_WC_WR_FLUSH_ERR"), about, minor=True)
            elif qp["state"] == "RTS" and requester.get("in_window") and requester["retries_left"] < qp["retry_cnt"]:
                yield self._retrying(guest, qp)

    def _retrying(self, guest: str, qp: Json) -> Finding:
        entry = {**qp, "at": self.evidence.at, "port": qp["path"]["port"], "dlid": qp["path"]["dlid"]}
        left = qp["requester"]["retries_left"]
        cause, links = self.causes.silence(guest, entry)
        names = _qp_names(guest, qp["qpn"]) | _link_names(links) | self._peer_names(entry)
        return Finding(entry["at"], f"{qp_name(guest, qp['qpn'])} gets no answer, has retried "
                       f"{_how_often(qp['retry_cnt'] - left)} since the last one and has {left} retries left, because "
                       f"{cause}; {retries(entry)}",
                       WAIT_SECTION, frozenset(names))

    def of_qp(self, name: str) -> Iterator[Finding]:
        """Tells what links that are down, and faults on its path, mean for a QP. name: as in Finding.about. A QP that
        has failed has a finding of its own."""
        for guest in self.evidence.guests:
            for qpn, qp in self.causes.qps(guest).items():
                if name not in (f"{qpn:#x}", f"{guest}:{qpn:#x}") or qp["state"] in FAILED:
                    continue
                present = self.paths.about(guest, qp)
                for one in present[:MOST_NAMED]:
                    yield Finding(one.outage.begin, f"{self.causes.outage(one.link, one.outage)}; {one.words}",
                                  LINK_SECTION, frozenset({name}))
                if left := len(present[MOST_NAMED:]):
                    yield Finding(self.evidence.at, f"{left} more links are down or have faults. All of them:  "
                                  "./pib why", LINK_SECTION, frozenset({name}))

    # -- the switches' side ---------------------------------------------------

    def _unmanaged(self) -> Iterator[Finding]:
        """One finding for all ports of switches that no subnet manager has set up."""
        connected = {f"{name}[{port['port']}]": port["state"] for name, switch in self.evidence.switches.items()
                     for port in switch["status"]["ports"] if port["phys_state"] == "LinkUp"}
        waiting = [name for name, state in connected.items() if state == INITIALIZE]
        if waiting:
            more = f", … ({len(waiting)} ports)" if len(waiting) > MOST_NAMED else ""
            which = "all connected ports of switches" if len(waiting) == len(connected) else \
                f"{', '.join(waiting[:MOST_NAMED])}{more}"
            nodes = {name.rpartition("[")[0] for name in waiting}
            yield Finding(self.evidence.at, f"no subnet manager has set up {which}: their state is {INITIALIZE}. Start "
                          "opensm in one node of the fabric, or look why it does not reach them", PORT_SECTION,
                          frozenset({*waiting, *nodes}))

    def _links(self) -> Iterator[Finding]:
        for link in self.causes.wiring.links:
            for outage in link.outages:
                if self._is_boot(link, outage):
                    continue
                yield Finding(outage.begin, self.causes.outage(link, outage) + self._so_far(link, outage), LINK_SECTION,
                              frozenset(_link_names([link])),
                              minor=outage.end is not None and not outage.requested)

    def _is_boot(self, link: Link, outage: Outage) -> bool:
        """Whether a link went down and came up again while its guest booted: firmware and driver reset the device."""
        port = self.causes.source(link.b.node, link.b.port)
        if not port or outage.requested or outage.end is None:
            return False
        return failures.was_never_active(self.evidence.guests[port.guest]["hcas"][port.slot], port.number,
                                         outage.begin)

    def _so_far(self, link: Link, outage: Outage) -> str:
        """Tells what a present outage has done: the QPs that a link cuts off or that have other paths, or the
        numbers of packets that faults have dropped or corrupted. "" for a former outage."""
        if outage.end is not None:
            return ""
        if outage.down:
            return self.paths.survived(link)
        said = []
        for end in (link.a, link.b):
            faults = self.evidence.switches.get(end.node, {}).get("faults", {}).get(str(end.port), {})
            for direction in ("in", "out"):
                counts = faults.get(direction, {}).get("counts", {})
                said += [f"{counts[what]} {what} on the way {direction}" for what in ("dropped", "corrupted")
                         if counts.get(what)]
        return f"; packets so far: {', '.join(said)}" if said else ""

    def _counters(self) -> Iterator[Finding]:
        for name, switch in self.evidence.switches.items():
            for port in switch["counters"]:
                if said := drops(port):
                    place = Place(name, port["port"])
                    at, cause = self._dropped_by(place, port)
                    yield Finding(at, f"{place} has counted {said} {self._counts_since(name)}{cause}", LINK_SECTION,
                                  frozenset({name, str(place)}), minor=True)

    def _began(self, switch: str) -> tuple[float, str]:
        """The last time at which the counters of a switch are known to have been zero, and what happened then."""
        return max((self.evidence.switches[switch].get("began", 0.0), "when its process started"),
                   (self.evidence.cleared, "when the lab cleared them"))

    def _counts_since(self, switch: str) -> str:
        began, then = self._began(switch)
        return f"since {self.causes.clock(began)}, {then}, or since a later clear" if began else \
            "since the counters were cleared last"

    def _dropped_by(self, place: Place, counted: Json) -> tuple[float, str]:
        """The outage of a port's link that probably explains its counters, as (time, words to follow the counters). An
        outage that an operator has requested precedes others. If there is no outage, the time is that of the evidence.
        """
        link, began = self.causes.wiring.at.get(place), self._began(place.node)[0]
        found = [outage for outage in link.outages if outage.touches(began, self.evidence.at)
                 and explains(counted, outage) and not self._is_boot(link, outage)] if link else []
        if not link or not found:
            return self.evidence.at, ""
        outage = max(found, key=lambda one: (one.requested, one.begin))
        return outage.begin, f"; probably because {self.causes.outage(link, outage)}"


# -- questions ----------------------------------------------------------------

def _known(findings: Findings) -> set[str]:
    wiring, evidence = findings.causes.wiring, findings.evidence
    names = {*evidence.guests, *evidence.switches, *evidence.silent, *evidence.gone} | _link_names(wiring.links)
    names |= {name for process, switches in evidence.ended.items() for name in (process, *switches)}
    names |= {f"{port.guest}[{port.number}]" for port in wiring.ports}
    for guest in evidence.guests:
        names |= {name for qpn in findings.causes.qps(guest) for name in _qp_names(guest, qpn)}
    return names


def _asked(findings: Findings, wanted: str, found: list[Finding]) -> str:
    """The name that the user asked about, in the form that Finding.about has; an error if the fabric has no such
    name."""
    qp = QP.fullmatch(wanted)
    name = wanted
    if qp:
        number = int(qp["qpn"], 16 if qp["qpn"].lower().startswith("0x") else 10)  # a leading 0 does not mean octal
        name = (f"{qp['guest']}:" if qp["guest"] else "") + f"{number:#x}"
    known = _known(findings) | {name for finding in found for name in finding.about}
    if name not in known:
        nodes = sorted({one.partition("[")[0] for one in known if ":" not in one and not QP.fullmatch(one)})
        raise ui.LabError(f"{wanted}: no node, port or QP of this fabric. Ask for a node ({', '.join(nodes)}), a port "
                          "as NODE[NUMBER], or a QP as 0x41 or vm1:0x41. All of them:  ./pib why")
    return name


def lines(evidence: Evidence, wanted: str = "") -> list[str]:
    """One line for each finding, newest last. A repeated failure has one line, with the time of its last occurrence."""
    findings = Findings(evidence)
    found = findings.all()
    name = _asked(findings, wanted, found) if wanted else ""
    if name:
        found = sorted([*found, *findings.of_qp(name)], key=lambda finding: finding.at or 0)
    shown = [one for one in found if (name in one.about if name else not one.minor)]
    times = collections.Counter(one.text for one in shown)
    last = {one.text: one for one in shown}
    return [_line(findings, one, times[one.text]) for one in shown if last[one.text] is one]


def _line(findings: Findings, finding: Finding, times: int) -> str:
    at = findings.causes.clock(finding.at) if finding.at else "--:--:--"
    return f"{at}  {finding.text}{f' ({times} times)' if times > 1 else ''}  [{PAGE}#{finding.section}]"


def nothing(evidence: Evidence, wanted: str = "") -> str:
    """The answer if there is no line."""
    if not wanted:
        return "Nothing is wrong: no failure, no link that is down, no fault and no stopped guest is recorded."
    elsewhere = len({link for link, _ in Wiring(evidence).present()})
    more = f" Links that are down or have faults elsewhere: {elsewhere}. All of them:  ./pib why" if elsewhere else ""
    return (f"{wanted}: nothing is wrong: no failure of it, and no link of it that is down or has faults, is recorded."
            f"{more}")


def answer(evidence: Evidence, wanted: str = "") -> str:
    return ui.printable("\n".join(lines(evidence, wanted)) or nothing(evidence, wanted))
