# SPDX-License-Identifier: GPL-2.0-or-later
"""A fabric without packets that answers as the control sockets of pib-switch do: all links are Active, LIDs and
forwarding tables are set, and counters grow as a test says. It stands for a fabric with a subnet manager and guests."""

import collections
import contextlib
import json
import pathlib
import select
import socket
import socketserver
import struct
import threading
import time
import zlib
from typing import Any

from lab.fabric import evidence, topology
from lab.fabric.evidence import Evidence

COUNTERS = ("PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortXmitWait", "PortXmitDiscards",
            "PortRcvErrors")
FAULTS = {"drop": 0.0, "corrupt": 0.0, "duplicate": 0.0, "reorder": 0.0, "delay_us": 0.0, "jitter_us": 0.0,
          "vl15": False}


def guid(node: topology.Node) -> str:
    return f"0x{node.guid:016x}"


class Fabric:
    """lids: by name of the node. tables: by name of the switch, ports by LID. rates: octets per second that a switch
    port sends. only: the switch of this process, if there are others."""

    def __init__(self, net: topology.Net, guests: dict[str, str] | None = None, only: str = ""):
        self.net, self.only = net, only
        self.guests = guests or {}                  # names of guests by node
        self.lids = {name: number for number, name in enumerate(net.nodes, 1)}
        self.tables = {switch.name: self._table(switch) for switch in net.switches()}
        self.sm_lid = min((self.lids[host.name] for host in net.hosts()), default=0)
        self.rates: dict[tuple[str, int], float] = {}
        self.counters: dict[tuple[str, int], collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.pulled: set[tuple[str, int]] = set()
        self.faults: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.journals: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
        self.packets: list[tuple[float, bytes]] = []        # packets of captures, and their times; a test adds some
        self.captures, self.most_captures = 0, 4            # captures that run, and their limit
        self.groups = {0xC001: [1, 2, 3]}           # ports by MLID; all switches have the same
        self.reroutes: collections.Counter[str] = collections.Counter()
        self.instance = "0x1"                       # another one after a restart
        self.requests: list[dict[str, Any]] = []
        self._moved = time.monotonic()

    def _distances(self, target: topology.Node) -> dict[str, int]:
        found, waiting = {target.name: 0}, collections.deque([target.name])
        while waiting:
            here = waiting.popleft()
            for peer, _port in self.net.nodes[here].peers.values():
                if peer not in found and (self.net.nodes[peer].kind == "Switch" or here == target.name):
                    found[peer] = found[here] + 1
                    if self.net.nodes[peer].kind == "Switch":
                        waiting.append(peer)
        return found

    def _table(self, switch: topology.Node, spread: bool = True) -> dict[int, int]:
        """A forwarding table with shortest paths. spread: distributes LIDs over paths of equal length."""
        if not hasattr(self, "_far"):
            self._far = {name: self._distances(node) for name, node in self.net.nodes.items()}
        table = {}
        for name, lid in self.lids.items():
            far = self._far[name]
            ports = [port for port, (peer, _) in sorted(switch.peers.items())
                     if far.get(peer, 1 << 30) < far.get(switch.name, 0)
                     and (peer == name or self.net.nodes[peer].kind == "Switch")]
            if ports:
                table[lid] = ports[lid % len(ports) if spread else 0]
        table[self.lids[switch.name]] = 0
        return table

    # -- a test's changes -----------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Moves packets for some time."""
        for (name, port), rate in self.rates.items():
            self._move((name, port), "Xmit", rate * seconds)
            peer, far = self.net.nodes[name].peers[port]
            if self.net.nodes[peer].kind == "Switch":
                self._move((peer, far), "Rcv", rate * seconds)

    def _move(self, port: tuple[str, int], way: str, octets: float) -> None:
        units = int(octets / 4)
        self.counters[port].update({f"Port{way}Data": units, f"Port{way}Pkts": int(octets / 2048),
                                    f"Port{way}DataVL{port[1] % 3}": units})

    def host_sends(self, name: str, rate: float) -> None:
        """Counts packets that a host sends to its switch in a second. rate: octets in a second."""
        peer, port = self.net.nodes[name].peers[1]
        self.counters[peer, port].update({"PortRcvData": int(rate / 4), "PortRcvPkts": int(rate / 2048)})

    def note(self, name: str, port: int, change: str, detail: str = "") -> None:
        self.journals[name].append({"time": time.monotonic(), "port": port, "change": change, "times": 1,
                                    "detail": detail})

    def unplug(self, name: str) -> None:
        """Removes a host and its link."""
        switch, port = self.net.nodes[name].peers[1]
        del self.net.nodes[switch].peers[port]
        self.reroutes[switch] += 1

    def reroute(self, name: str) -> int:
        """Stops spreading the LIDs, as another routing engine may. Returns the number of LIDs whose port changes."""
        before = self.tables[name]
        self.tables[name] = self._table(self.net.nodes[name], spread=False)
        self.reroutes[name] += 1
        return sum(before[lid] != port for lid, port in self.tables[name].items())

    # -- answers ----------------------------------------------------------------------

    def up(self, name: str, port: int) -> bool:
        return not {(name, port), self.net.nodes[name].peers[port]} & self.pulled

    def nodes(self, _request) -> dict[str, Any]:
        return {"nodes": [{"id": node.name, "description": node.description, "ports": node.ports, "guid": guid(node),
                           "type": "switch" if node.kind == "Switch" else "phantom"}
                          for node in self.net.nodes.values() if node.name not in self.guests
                          and (node.kind != "Switch" or self.only in ("", node.name))]}

    def status(self, request) -> dict[str, Any]:
        node = self.net.nodes[request["switch"]]
        return {"switch": {"guid": guid(node), "description": node.description, "lid": self.lids[node.name],
                           "sm_lid": self.sm_lid, "ports": node.ports, "held_packets": 0},
                "ports": [self._port(node, port) for port in range(1, node.ports + 1)]}

    def _port(self, node: topology.Node, port: int) -> dict[str, Any]:
        used = port in node.peers
        up = used and self.up(node.name, port)
        out = {"port": port, "state": "Active" if up else "Down", "phys_state": "LinkUp" if up else "Polling",
               "connected": used, "cable": (node.name, port) not in self.pulled, "mtu": 4096, "data_vls": 8,
               "queued_packets": 0, "width": "4X" if up else "", "speed": "EDR" if up else "",
               "lids": [lid for lid, to in self.tables[node.name].items() if to == port][:16],
               "faults": any((node.name, port, way) in self.faults for way in ("in", "out")), "peer_copy": False}
        if used:
            peer, far = node.peers[port]
            there = self.net.nodes[peer]
            out["neighbour"] = {"node_guid": guid(there), "port": far, "owner": "",
                                "port_guid": f"0x{there.port_guid(far):016x}",
                                "description": there.description}
        return out

    def read_counters(self, request) -> dict[str, Any]:
        node = self.net.nodes[request["switch"]]
        now = time.monotonic()
        if self.rates and now > self._moved + 0.2:
            self.advance(now - self._moved)
            self._moved = now
        ports = [request["port"]] if "port" in request else range(node.ports + 1)
        return {"ports": [{"port": port, **dict.fromkeys(COUNTERS, 0), **self.counters[node.name, port]}
                          for port in ports]}

    def traffic(self, request) -> dict[str, Any]:
        name = request["switch"]
        node = self.net.nodes[name]
        counted = {port["port"]: port for port in self.read_counters(request)["ports"]}
        return {"changes": len(self.journals[name]) + self.reroutes[name], "lid": self.lids[name],
                "sm_lid": self.sm_lid, "rows": [self._row(node, port, counted[port]) for port in sorted(node.peers)]}

    def _row(self, node: topology.Node, port: int, counted: dict[str, int]) -> list[int]:
        status = self._port(node, port)
        row = [port, 4 if status["state"] == "Active" else 1, status["cable"] + 2 * status["faults"],
               *(counted[name] for name in COUNTERS)]
        for vl in range(3):
            row += [vl, *(counted.get(f"Port{way}DataVL{vl}", 0) for way in ("Xmit", "Rcv"))]
        return row

    def lft(self, request) -> dict[str, Any]:
        table = self.tables[request["switch"]]
        return {"top": max(table), "entries": [[lid, port] for lid, port in sorted(table.items())]}

    def mft(self, _request) -> dict[str, Any]:
        return {"entries": [[mlid, ports] for mlid, ports in self.groups.items()]}

    def journal(self, request) -> dict[str, Any]:
        now = time.monotonic()
        entries = [{**{name: value for name, value in entry.items() if name != "time"},
                    "age_ns": int((now - entry["time"]) * 1e9)} for entry in self.journals[request["switch"]]]
        return {"instance": self.instance, "lost": 0, "entries": entries}

    def link(self, request) -> dict[str, Any]:
        at = request["switch"], request["port"]
        if request["state"] == "down":
            self.pulled.add(at)
            self.note(*at, "cable pulled")
            self.note(*at, "down")
        else:
            self.pulled.discard(at)
            self.note(*at, "cable back")
            self.note(*at, "up")
        return {}

    def fault(self, request) -> dict[str, Any]:
        at = request["switch"], request["port"]
        if "set" in request:
            for way in ("in", "out"):
                if request.get("direction", "both") in (way, "both"):
                    self.faults.pop((*at, way), None)
                    if request["set"]:
                        self.faults[(*at, way)] = request["set"]
            words = ", ".join(f"{name} {value}" for name, value in request["set"].items())
            self.note(*at, "faults", words or "none")
        return {way: {**FAULTS, **self.faults.get((*at, way), {}), "counts": {"seen": 0}} for way in ("in", "out")}

    def vls(self, request) -> dict[str, Any]:
        data = [{"vl": vl, "queued_packets": 0, "credits": 256} for vl in range(8)]
        return {"port": request["port"], "by_vl": [*data, {"vl": 15, "queued_packets": 0}], "high": [[0, 4], [1, 2]],
                "low": [[0, 64], [1, 64]], "high_limit": 10, "sl_to_vl": [[level % 8 for level in range(16)]] * 3}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        make = {"nodes": self.nodes, "status": self.status, "counters": self.read_counters, "lft": self.lft,
                "mft": self.mft, "journal": self.journal, "link": self.link, "fault": self.fault,
                "vls": self.vls, "traffic": self.traffic}[request["command"]]
        return {"ok": True, **make(request)}


# -- packets ------------------------------------------------------------------------

def packet(slid: int, dlid: int, qpn: int, opcode: int, psn: int, more: bytes = b"") -> bytes:
    """LRH, BTH and more."""
    octets = 20 + len(more)
    return struct.pack(">BBHHH", 0, 2, dlid, octets // 4, slid) + struct.pack(
        ">BBHII", opcode, 0, 0xFFFF, qpn, 1 << 31 | psn) + more


def _vcrc(octets: bytes) -> int:
    state = 0xFFFF
    for octet in octets:
        state ^= octet
        for _ in range(8):
            state = state >> 1 ^ (0xD008 if state & 1 else 0)
    return state ^ 0xFFFF


def with_crcs(octets: bytes) -> bytes:
    """A packet without a GRH, with ICRC and VCRC."""
    masked = bytearray(octets)
    masked[0] |= 0xF0                   # LRH:VL
    masked[12] = 0xFF                   # the reserved octet of the BTH
    octets += struct.pack("<I", zlib.crc32(masked))
    return octets + struct.pack("<H", _vcrc(octets))


PORT, LID, CREDITS, LOST = 3, 1, 2048, 5     # a capture has them with each packet


def pcapng(packets: list[tuple[float, bytes]]) -> bytes:
    """The packets in pcapng, as CaptureStream of pib-switch writes them."""
    data = struct.pack("=IIIIiiI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, -1, -1, 28)
    data += struct.pack("=IIIIIIII", 1, 32, 197, 0, 9 | 1 << 16, 9, 0, 32)      # ERF; times in nanoseconds
    for at, octets in packets:
        whole = with_crcs(octets)
        arrival = struct.pack(">BBHI", 0x7E, PORT, LID, CREDITS)
        record = struct.pack("<Q", int(at * (1 << 32))) + struct.pack(
            ">BBHHH", 21 | 0x80, 4, 24 + len(whole), LOST, len(whole)) + arrival + whole
        padding = bytes(-len(record) % 4)
        length = 32 + len(record) + len(padding)
        data += struct.pack("=IIIIIII", 6, length, 0, 0, 0, len(record), len(record)) + record + padding + struct.pack(
            "=I", length)
    return data


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.server.open.append(self.connection)                     # type: ignore[attr-defined]
        fabric = self.server.fabric                                  # type: ignore[attr-defined]
        for line in self.rfile:
            request = json.loads(line)
            if request["command"] == "capture":
                fabric.requests.append(request)
                self._capture(fabric)
            else:
                self.wfile.write(json.dumps(fabric.answer(request)).encode() + b"\n")


    def _capture(self, fabric: Fabric) -> None:
        """Sends the packets so far, and those that come, until the reader ends."""
        if fabric.captures >= fabric.most_captures:
            self.wfile.write(b'{"ok":false,"error":"4 captures run, as many as can"}\n')
            return
        fabric.captures += 1
        self.wfile.write(b'{"format":"pcapng","ok":true}\n')
        sent = 0
        with contextlib.suppress(OSError):
            while not select.select([self.connection], [], [], 0.01)[0]:
                if more := fabric.packets[sent:]:
                    self.wfile.write(pcapng(more))
                    sent += len(more)
        fabric.captures -= 1


class _Sockets(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class Process:
    """Serves a fabric at a control socket."""

    def __init__(self, path: pathlib.Path, fabric: Fabric):
        self.path, self.fabric = path, fabric
        self._server = _Sockets(str(path), _Handler)
        self._server.fabric = fabric                        # type: ignore[attr-defined]
        self._server.open = []                              # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def hang_up(self) -> None:
        for connection in self._server.open:                # type: ignore[attr-defined]
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Source:
    """A source of the page, with guests whose objects a test sets."""

    def __init__(self, process: Process, guests: dict[str, Any] | None = None):
        self.process, self.found = process, guests or {}
        self.log = pathlib.Path("/nonexistent")     # opensm's log, in each guest

    def controls(self) -> list[pathlib.Path]:
        return [self.process.path]

    def guests(self) -> dict[str, Any]:
        return self.found

    def hosts(self) -> dict[str, str]:
        return {guid(host): host.name for host in self.process.fabric.net.hosts()}

    def evidence(self) -> Evidence:
        found = evidence.without_guests(self.controls())
        found.guests = {name: guest for name, guest in self.found.items() if guest}
        return found

    def command(self, guest: str, words: list[str]) -> list[str]:
        """Commands of guests run on this machine."""
        assert guest in self.found
        return [word.replace("/var/log/opensm.log", str(self.log)) for word in words]


# -- guests -------------------------------------------------------------------------

def qp(number: int, dlid: int, dest: int) -> dict[str, Any]:
    """A connected QP in RTS, as the property `objects` of a device has it."""
    return {"qpn": number, "type": "RC", "state": "RTS", "pd": 1, "send_cq": 1, "recv_cq": 1, "srq": 0, "uar": 1,
            "port": 1, "sq": {"depth": 128, "producer": 20, "consumer": 14},
            "rq": {"depth": 64, "producer": 64, "consumer": 3, "posted": 61, "wqes": [
                {"counter": 3, "bytes": 2048, "sges": 1, "valid": True},
                {"counter": 4, "bytes": 0, "sges": 0, "valid": False}]},
            "dest_qpn": dest, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "path": {"port": 1, "dlid": dlid},
            "requester": {"una": 0x100, "cursor": 0x104, "sent_end": 0x104, "next": 0x10a, "in_window": 4,
                          "retries_left": 5, "rnr_left": 7,
                          "wqes": [{"counter": 14, "opcode": "RDMA_WRITE", "bytes": 4096, "psn": 0x100, "packets": 4,
                                    "started": True},
                                   {"counter": 15, "opcode": "SEND_WITH_IMM", "bytes": 8, "psn": 0x104, "packets": 1,
                                    "started": False}]},
            "responder": {"expected_psn": 0x2f0, "msn": 12, "received": 1024,
                          "receive": {"counter": 2, "srq": 0, "bytes": 2048}}}


def failure(at: float, dlid: int) -> dict[str, Any]:
    """An entry of a device's journal: QP 0x41, connected to QP 0x51, gets no answer."""
    return {"kind": "completion", "at": at, "qpn": 0x41, "queue": "send", "status": "IBV_WC_RETRY_EXC_ERR",
            "counter": 13, "vendor_err": 0, "port": 1, "dlid": dlid, "dest_qpn": 0x51, "timeout": 14, "retry_cnt": 7,
            "rnr_retry": 7}


def guest(net: topology.Net, fabric: Fabric, node: str, qps: list[dict[str, Any]],
          failures: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    port = {"port": 1, "guid": f"0x{net.nodes[node].port_guid(1):016x}", "lid": fabric.lids[node], "lmc": 0,
            "state": 4, "phys_state": 5}
    def some(entries):
        return {"count": len(entries), "entries": entries}
    objects = {"now_ns": 9 * evidence.NS, "ports": some([port]), "qps": some(qps),
               "cqs": some([{"cqn": 1, "eqn": 1, "depth": 256, "producer": 90, "consumer": 30, "armed": "next",
                             "error": False, "users": 2, "cqes": [
                                 {"time_ns": 7 * evidence.NS, "qpn": qp["qpn"], "counter": 13, "opcode": "RDMA_READ",
                                  "bytes": 512, "status": status}
                                 for qp in qps for status in ("IBV_WC_SUCCESS", "IBV_WC_RETRY_EXC_ERR")]}]),
               "mrs": some([{"kind": "region", "key": "0x1234", "pd": 1, "access": "0x7", "length": 65536}]),
               "srqs": some([]), "eqs": some([]), "counters": {"tx_packets": 100, "rx_packets": 90, "rx_dropped": 0}}
    return {"state": "running", "hcas": [{"objects": objects, "journal": failures or [], "lost": 0, "refusals": []}]}
