# SPDX-License-Identifier: GPL-2.0-or-later
"""Causes of failed work requests and of asynchronous events, in words."""

import time

from lab.fabric.evidence import Evidence, Json, Table
from lab.fabric.wiring import HcaPort, Link, Outage, Wiring

T_TR_S = 4.096e-6               # a Local ACK Timeout of n is this times 2^n (IBA 9.9.2.1.1)
GRACE_S = 0.2                   # upper limit for what the device adds to the timeout
READ_S = 2.0                    # limit of the delay with which a table that changed before an outage is read
UNKNOWN_THEN = "the forwarding tables of that time are not known, but ./pib web keeps those since its start"
LOOPED_BACK = "no cause is recorded: packets to the port's own LID do not leave the port"
DAY_S = 86400
RECEIVING = ("RTR", "RTS", "SQD", "SQE")        # states in which a QP answers requests
DROPS = ("PortRcvErrors", "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards",
         "PortXmitConstraintErrors", "PortRcvConstraintErrors", "LocalLinkIntegrityErrors",
         "ExcessiveBufferOverrunErrors", "VL15Dropped")

# Causes of local failures; docs/troubleshooting.md explains them in detail.
LOCAL = {
    "IBV_WC_LOC_LEN_ERR": "a message, a receive buffer or inline data has the wrong length",
    "IBV_WC_LOC_QP_OP_ERR": "the QP cannot have such a request",
    "IBV_WC_LOC_PROT_ERR": "an SGE's lkey, address or right is not valid",
    "IBV_WC_MW_BIND_ERR": "the region, window or rights of the bind do not fit",
    "IBV_WC_BAD_RESP_ERR": "a response does not match the request",
    "IBV_WC_GENERAL_ERR": "the device gave no other reason",
}
REFUSED = {
    "IBV_WC_REM_INV_REQ_ERR": "the responder does not allow the operation, or its receive buffer is too short",
    "IBV_WC_REM_ACCESS_ERR": "the rkey, the address or the region's rights are not valid at the responder",
    "IBV_WC_REM_OP_ERR": "the responder could not use its own receive request",
}
EVENTS = {
    "IBV_EVENT_QP_FATAL": "a completion could not be written, or the queue's producer or memory is not valid",
    "IBV_EVENT_QP_REQ_ERR": "the peer sent a request that this QP does not allow",
    "IBV_EVENT_QP_ACCESS_ERR": "the peer's rkey, address or right was not valid here",
    "IBV_EVENT_PATH_MIG_ERR": "a migration request came by a path that is not the alternate one",
    "IBV_EVENT_PATH_MIG": "the connection uses its alternate path now",
    "IBV_EVENT_CQ_ERR": "the CQ was full, or its memory is no longer RAM",
    "IBV_EVENT_SRQ_ERR": "the SRQ's producer or memory is not valid",
    "IBV_EVENT_DEVICE_FATAL": "the device has stopped: the guest's kernel log has the cause",
}


def clock(at: float, now: float) -> str:
    """The time of day, with the date if it was not today."""
    today = time.localtime(at)[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", time.localtime(at))


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


def qp_name(guest: str, qpn: int) -> str:
    return f"{guest} QP {qpn:#x}"


def wqe_reason(entry: Json) -> str:
    """The rule that a work request broke, with the field."""
    return entry.get("reason") or f"vendor_err {entry['vendor_err']}"


def retries(entry: Json) -> str:
    if not entry["timeout"]:
        return "no local ACK timeout"
    return f"local ACK timeout {duration(T_TR_S * 2 ** entry['timeout'])}, {entry['retry_cnt']} retries"


def _waited_s(entry: Json) -> float:
    """An upper limit for the time from the first transmission to the failure."""
    timeout = T_TR_S * 2 ** entry["timeout"]
    return (entry["retry_cnt"] + 1) * (timeout + min(3 * timeout, GRACE_S))


def drops(counters: Json) -> str:
    return ", ".join(f"{name} {counters[name]}" for name in DROPS if counters.get(name))


def explains(counters: Json, outage: Outage) -> bool:
    """Whether an outage makes a port of the link count what it has counted: packets for a link that is down are
    discarded, and corrupted ones are errors."""
    if outage.down:
        discards = counters.get("PortXmitDiscards", 0)
        return discards > 0 and counters.get("PortInactiveDiscards", discards) > 0
    return "corrupt" in outage.cause and counters.get("PortRcvErrors", 0) > 0


def ended_name(process: str, switches: list[str]) -> str:
    """The name of a switch process that does not run, for a message. switches: names of its switches; empty: the
    process has no topology file."""
    return f"{process} ({', '.join(switches)})" if switches else process


class Causes:
    def __init__(self, evidence: Evidence):
        self.evidence = evidence
        self.wiring = Wiring(evidence)
        self._known_tables: dict[float, dict[str, Table]] = {}      # by time

    def clock(self, at: float) -> str:
        return clock(at, self.evidence.at)

    def outage(self, link: Link, outage: Outage) -> str:
        """An outage in words that can follow "because"."""
        ends = f"link {link} to {link.b}"
        if not outage.down:
            cleared = f", until {self.clock(outage.end)}" if outage.end else ""
            return f"faults were set on {ends} at {self.clock(outage.begin)} ({outage.cause}){cleared}"
        if outage.end is None:
            return f"{ends} went down at {self.clock(outage.begin)}: {outage.cause}"
        return f"{ends} was down from {self.clock(outage.begin)} to {self.clock(outage.end)}: {outage.cause}"

    def source(self, guest: str, port: int) -> HcaPort | None:
        return next((found for found in self.wiring.ports if (found.guest, found.number) == (guest, port)), None)

    def _is_complete(self, route: list[Link], target: HcaPort | None) -> bool:
        """Whether a route has the target's own link to its switch."""
        return target is not None and self.wiring.host_link(target) in route

    def _links_between(self, source: HcaPort, dlid: int) -> list[Link]:
        """The links that packets may take: the route of the forwarding tables; if that ends before the target, also
        the target's link and the links of all shortest paths."""
        target, route = self.wiring.port_of_lid(dlid), self.wiring.route(source, dlid)
        host_link = self.wiring.host_link(target) if target else None
        if not target or not host_link or host_link in route:
            return route
        return list(dict.fromkeys([*route, host_link, *self.wiring.shortest(source.guest, target.guest)]))

    def silence(self, guest: str, entry: Json) -> tuple[str, list[Link]]:
        """The cause of a request that got no answer, and the link of that cause, if any."""
        source = self.source(guest, entry["port"])
        if not source:
            return "the port's state is not known", []
        links, loops_back = self._links_between(source, entry["dlid"]), source.owns(entry["dlid"])
        found = [one for one in self._outages(links, entry) if one[1].down or not loops_back]
        for link, outage in found:
            if outage.down:
                return self.outage(link, outage), [link]
        target = self.wiring.port_of_lid(entry["dlid"])
        if said := target and self._peer_before(target, entry):
            return said, []
        if self.evidence.ended and not self._is_complete(self.wiring.route(source, entry["dlid"]), target):
            names = " and ".join(ended_name(*one) for one in self.evidence.ended.items())
            return f"the path is not known: {names} does not run", []
        if found:
            link, outage = found[0]
            return self.outage(link, outage), [link]
        return self._beside(source, target, entry) or (
            self._peer_now(target, source, entry) or (LOOPED_BACK if loops_back else self._dropped(links)), [])

    def _beside(self, source: HcaPort, target: HcaPort | None, entry: Json) -> tuple[str, list[Link]] | None:
        """The last outage on another shortest path, if the peer's QP is gone or in a state that explains the failure.
        After an outage the subnet manager routes around the link, and the failed program and the peer's QP end, so the
        present state is not a cause."""
        if not target:
            return None
        if entry["dest_qpn"] in self.qps(target.guest) and self._peer_now(target, source, entry):
            return None
        # A large fabric has thousands of links, of which few have an outage: outages precede paths.
        used = [(self.used(link, source, entry["dlid"], outage.begin), link, outage)
                for link, outage in self._outages(self.wiring.links, entry)
                if outage.down and self.wiring.is_on_shortest(link, source.guest, target.guest)]
        certain = [one for one in used if one[0]]
        for known, link, outage in certain or [one for one in used if one[0] is None]:
            passed = "its packets or the answers passed there then, but do not now" if known else \
                f"its packets may have passed there then, but do not now: {UNKNOWN_THEN}"
            return f"{self.outage(link, outage)}; {passed}", [link]
        return None

    def used(self, link: Link, source: HcaPort, dlid: int, moment: float) -> bool | None:
        """Whether packets to a LID, or the answers, passed a link at a time when it went down. None: the forwarding
        tables of that time are not known."""
        target = self.wiring.port_of_lid(dlid)
        if not self.evidence.tables_at or not target:
            return None
        complete = True
        for at in (moment, moment + READ_S):
            tables = self._tables_at(at)
            there, back = self.wiring.route(source, dlid, tables), self.wiring.route(target, source.lid, tables)
            if link in there or link in back:
                return True
            complete = complete and self._is_complete(there, target) and self._is_complete(back, source)
        return False if complete else None

    def _tables_at(self, moment: float) -> dict[str, Table]:
        if moment not in self._known_tables and self.evidence.tables_at:
            self._known_tables[moment] = self.wiring.tables(self.evidence.tables_at(moment))
        return self._known_tables[moment]

    def _outages(self, links: list[Link], entry: Json) -> list[tuple[Link, Outage]]:
        """Outages of the links from the first transmission to the failure, latest first."""
        begin = entry["at"] - _waited_s(entry)
        touched = [(link, outage) for link in links for outage in link.outages if outage.touches(begin, entry["at"])]
        return sorted(touched, key=lambda one: -one[1].begin)

    def _journal(self, guest: str) -> list[Json]:
        return [entry for hca in self.evidence.guests[guest]["hcas"] for entry in hca["journal"]]

    def qps(self, guest: str) -> dict[int, Json]:
        return {qp["qpn"]: qp for hca in self.evidence.guests[guest]["hcas"]
                for qp in hca["objects"].get("qps", {}).get("entries", [])}

    def of_qp(self, guest: str, qpn: int) -> list[Json]:
        """The journal's entries about a QP."""
        return [entry for entry in self._journal(guest)
                if entry.get("qpn") == qpn or (entry.get("event") in EVENTS and entry["number"] == qpn
                                               and entry["event"].split("_")[2] in ("QP", "PATH"))]

    def _peer_before(self, target: HcaPort, entry: Json) -> str:
        """The state of the peer's virtual machine, or the failure of its QP before this one."""
        state = self.evidence.guests[target.guest]["state"]
        if state != "running":
            return f"{target.guest} is stopped ({state})"
        earlier = [one for one in self.of_qp(target.guest, entry["dest_qpn"]) if one["at"] <= entry["at"]
                   and one.get("event") != "IBV_EVENT_PATH_MIG"]
        if not earlier:
            return ""
        last = earlier[-1]
        return (f"{qp_name(target.guest, entry['dest_qpn'])} had failed at {self.clock(last['at'])}: "
                f"{last.get('status') or last['event']}")

    def _peer_now(self, target: HcaPort | None, source: HcaPort, entry: Json) -> str:
        if not target:
            return f"no port of this lab's guests has LID {entry['dlid']}"
        peer = self.qps(target.guest).get(entry["dest_qpn"])
        name = qp_name(target.guest, entry["dest_qpn"])
        if not peer:
            return f"{name} does not exist, or not any more"
        if peer["state"] not in RECEIVING:
            return f"{name} is in {peer['state']}"
        back = peer.get("path", {}).get("dlid", source.lid)
        if peer.get("dest_qpn", entry["qpn"]) != entry["qpn"] or not source.owns(back):
            return f"{name} is connected to QP {peer['dest_qpn']:#x} at LID {back}"
        return ""

    def _dropped(self, links: list[Link]) -> str:
        said = []
        for link in links:
            for end in (link.a, link.b):
                counted = self.evidence.switches.get(end.node, {}).get("counters", [])
                said += [f"{end} ({drops(port)})" for port in counted if port["port"] == end.port and drops(port)]
        if said:
            return "no cause is recorded; ports on the path have dropped packets at some time: " + ", ".join(said)
        return ("no cause is recorded: " + ("the path is up, and no port on it has dropped a packet" if links
                                            else "no switch knows the path"))

    def refusal(self, entry: Json) -> str:
        """The cause of a request that the responder has refused, with the responder's event, if it has one."""
        target = self.wiring.port_of_lid(entry["dlid"])
        if not target:
            return REFUSED[entry["status"]]
        events = [one for one in self.of_qp(target.guest, entry["dest_qpn"]) if "event" in one]
        nearest = min(events, key=lambda one: abs(one["at"] - entry["at"]), default=None)
        own = f"; {nearest['event']} there at {self.clock(nearest['at'])}" if nearest else ""
        said = nearest.get("reason") if nearest and entry["status"] == "IBV_WC_REM_ACCESS_ERR" else None
        return f"{qp_name(target.guest, entry['dest_qpn'])} refused it{own}: {said or REFUSED[entry['status']]}"

    def no_receive(self, entry: Json) -> str:
        target = self.wiring.port_of_lid(entry["dlid"])
        name = qp_name(target.guest, entry["dest_qpn"]) if target else f"QP {entry['dest_qpn']:#x}"
        return f"{name} had no receive request"
