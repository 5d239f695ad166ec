# SPDX-License-Identifier: GPL-2.0-or-later
"""Computes the load of guests, links and QPs from two samples."""

import dataclasses
import time

from lab.base import process
from lab.fabric import cluster, control, evidence
from lab.fabric.evidence import Json
from lab.fabric.wiring import HcaPort, hca_ports

MIB = 1 << 20
PSN_MASK = (1 << 24) - 1
COUNTER_MASK = (1 << 32) - 1
# States in which a QP has no PSN for receiving or for sending yet. Its first PSN may have any value, so the step to it
# is no traffic.
NOT_RECEIVING = ("RESET", "INIT")
NOT_SENDING = (*NOT_RECEIVING, "RTR")
BITS = 8
GIGA = 1e9
# Data rates of a link of width 1X in Gb/s, without the line code's overhead.
RATES_OF_1X = {"SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR": 13.64, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0}


@dataclasses.dataclass
class Sample:
    """links: status and counters of switch ports, by (switch, port). cpu: processor time of QEMU in seconds, by guest.
    hcas: objects of each HCA, by guest."""
    at: float
    links: dict[tuple[str, int], tuple[Json, Json]]
    cpu: dict[str, float]
    hcas: dict[str, list[Json]]


@dataclasses.dataclass
class GuestLoad:
    name: str
    cpu: float                  # processors
    sent: float                 # packets a second, as the next two are
    received: float
    dropped: float
    qps: int


@dataclasses.dataclass
class LinkLoad:
    """bytes_out, bytes_in: bytes a second from the switch port to its neighbour, and back."""
    name: str
    neighbour: str
    state: str
    rate: str
    bytes_out: float
    bytes_in: float
    waited: float               # ticks of PortXmitWait a second
    share: float                # share of the link's rate used in the busier direction, 0 to 1


@dataclasses.dataclass
class QpLoad:
    guest: str
    qpn: int
    kind: str
    state: str
    requests: float             # send requests completed, a second
    receives: float             # receives completed, a second
    packets: float              # PSNs acknowledged or received, a second
    waiting: int                # send requests posted and not yet completed
    retries: str                # "LEFT/ALLOWED" retries; "" for datagram QPs


@dataclasses.dataclass
class Load:
    guests: list[GuestLoad]
    links: list[LinkLoad]
    qps: list[QpLoad]


# -- sampling -----------------------------------------------------------------

def _links(lab: cluster.Cluster) -> dict[tuple[str, int], tuple[Json, Json]]:
    found: dict[tuple[str, int], tuple[Json, Json]] = {}
    for asked, name in control.every_switch(one.control for one in lab.switches()):
        counters = {port["port"]: port for port in asked.ask("counters", switch=name)["ports"]}
        found |= {(name, port["port"]): (port, counters[port["port"]])
                  for port in asked.ask("status", switch=name)["ports"] if "neighbour" in port}
    return found


def sample(lab: cluster.Cluster) -> Sample:
    names = lab.nodes()
    used = {name: process.cpu_s(lab.record.processes[name].pid) for name in names}
    return Sample(time.monotonic(), _links(lab), used, {name: evidence.objects(lab.monitor(name)) for name in names})


# -- differences ----------------------------------------------------------------

def _grown(before: int, after: int) -> int:
    """Growth of a counter between samples. A smaller value means a reset: then it grew from 0."""
    return after - before if after >= before else after


def capacity(rate: str) -> float:
    """Bytes a second of "4X EDR" in one direction; 0: unknown, or the link is down."""
    words = rate.split()
    if len(words) != 2 or words[1] not in RATES_OF_1X:
        return 0.0
    return int(words[0].rstrip("X")) * RATES_OF_1X[words[1]] * GIGA / BITS


def _link_load(name: str, ports: tuple[tuple[Json, Json], tuple[Json, Json]], seconds: float,
               guests: dict[int, HcaPort]) -> LinkLoad:
    (_, old), (status, new) = ports
    def per_s(counter: str) -> float:
        return _grown(old[counter], new[counter]) / seconds
    moved = [per_s(counter) * control.BYTES_PER_UNIT for counter in ("PortXmitData", "PortRcvData")]
    rate = f"{status['width']} {status['speed']}".strip()
    peer = status["neighbour"]
    guest = guests.get(int(peer["port_guid"], 16))
    neighbour = guest.guest if guest else peer["description"].split(" ")[0]
    most = capacity(rate)
    return LinkLoad(name, f"{neighbour}[{peer['port']}]", status["state"], rate, moved[0], moved[1],
                    per_s("PortXmitWait"), max(moved) / most if most else 0.0)


def _qps(objects: list[Json]) -> dict[tuple[int, int], Json]:
    return {(slot, qp["qpn"]): qp for slot, one in enumerate(objects)
            for qp in one.get("qps", {}).get("entries", [])}


def _sent(qp: Json) -> int:
    """Number of completed send requests: the queue's consumer counter counts WQEs that the device has copied, and
    in_window of these still wait for their answers."""
    return qp["sq"]["consumer"] - qp.get("requester", {}).get("in_window", 0)


def _goes_on(old: Json, new: Json) -> bool:
    """Whether the counters of a QP have gone on. False: the QP was reset, or its number belongs to another QP now."""
    def is_back(before: int, after: int) -> bool:
        return (after - before & COUNTER_MASK) > COUNTER_MASK // 2
    return (old["type"] == new["type"] and old.get("dest_qpn", 0) in (0, new.get("dest_qpn"))
            and not is_back(_sent(old), _sent(new)) and not is_back(old["rq"]["consumer"], new["rq"]["consumer"]))


def _began_anew(old: list[Json], new: list[Json]) -> bool:
    """Whether a guest was started anew between two samples of its HCAs: its devices' clocks have."""
    return any(after.get("now_ns", 0) < before.get("now_ns", 0) for before, after in zip(old, new))


def _qp_load(guest: str, old: Json, new: Json, seconds: float) -> QpLoad:
    def moved(mask: int, *keys: str) -> float:
        before, after = (one[keys[0]][keys[1]] if keys[0] in one else 0 for one in (old, new))
        return (after - before & mask) / seconds

    def psns(idle: tuple[str, ...], *keys: str) -> float:
        return 0.0 if old["state"] in idle or new["state"] in idle else moved(PSN_MASK, *keys)
    packets = psns(NOT_SENDING, "requester", "una") + psns(NOT_RECEIVING, "responder", "expected_psn")
    retries = f"{new['requester']['retries_left']}/{new['retry_cnt']}" if "requester" in new else ""
    return QpLoad(guest, new["qpn"], new["type"], new["state"],
                  (_sent(new) - _sent(old) & COUNTER_MASK) / seconds, moved(COUNTER_MASK, "rq", "consumer"), packets,
                  new["sq"]["producer"] - _sent(new) & COUNTER_MASK, retries)


def _guest_load(name: str, before: Sample, after: Sample, seconds: float) -> GuestLoad:
    def per_s(counter: str) -> float:
        old, new = (sum(one.get("counters", {}).get(counter, 0) for one in sampled.hcas.get(name, []))
                    for sampled in (before, after))
        return _grown(old, new) / seconds
    cpu = max(after.cpu[name] - before.cpu.get(name, after.cpu[name]), 0.0) / seconds
    return GuestLoad(name, cpu, per_s("tx_packets"), per_s("rx_packets"), per_s("rx_dropped"),
                     len(_qps(after.hcas[name])))


def load(before: Sample, after: Sample) -> Load:
    """The load between two samples, busiest first. Leaves out links and QPs that only one sample has, and QPs that have
    begun anew."""
    seconds = max(after.at - before.at, 1e-6)
    guests = {port.guid: port for name, found in after.hcas.items()
              for port in hca_ports(name, found)}
    links = [_link_load(f"{end[0]}[{end[1]}]", (before.links[end], ports), seconds, guests)
             for end, ports in after.links.items() if end in before.links]
    qps = []
    for name, objects in after.hcas.items():
        earlier = before.hcas.get(name, [])
        old = {} if _began_anew(earlier, objects) else _qps(earlier)
        qps += [_qp_load(name, old[key], qp, seconds) for key, qp in _qps(objects).items()
                if key in old and _goes_on(old[key], qp)]
    return Load(sorted((_guest_load(name, before, after, seconds) for name in after.hcas),
                       key=lambda one: -(one.sent + one.received)),
                sorted(links, key=lambda one: -(one.bytes_out + one.bytes_in)),
                sorted(qps, key=lambda one: -(one.packets + one.requests + one.receives)))
