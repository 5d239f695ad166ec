# SPDX-License-Identifier: GPL-2.0-or-later
"""A connection whose alternate path is agreed upon later: LAP and APR (IBA vol. 1, 12.6.13, 12.7).

usage: python3 alternate_path.py DEVICE

No kernel sends LAP or APR, so this program sends the MADs of connection management itself. ib_cm must not be
loaded. One end is at port 1 of an HCA, the other at port 2. REQ, MRA, REP and RTU connect two QPs, LAP and APR
name port 2's own path as the alternate one. Then it continues as path_failure.py.
"""
import struct
import sys
from types import SimpleNamespace

from pyverbs.device import Context
from pyverbs.pd import PD

import mads
from connection import End
from path_failure import survive

CM_CLASS, CM_VERSION, METHOD_SEND = 7, 2, 3
REQ, MRA, REP, RTU, LAP, APR = 0x10, 0x11, 0x13, 0x14, 0x19, 0x1A
PATIENCE_MS = 60_000
TIMEOUT = 20  # 4.096 us times 2 to this power


class Agent:
    """Connection management of one port: sends messages and receives those that arrive."""

    def __init__(self, device, port):
        self.agent = mads.Agent(device, port, CM_CLASS, CM_VERSION, methods=(METHOD_SEND,))

    def send(self, dlid, attribute, data):
        self.agent.send(dlid, mads.HEADER.pack(1, CM_CLASS, CM_VERSION, METHOD_SEND, 0, 0, 0x1234, attribute, 0, 0)
                        + data)

    def hear(self, attribute):
        """Receives the next message, which must be of this type; returns what follows its header."""
        mad = self.agent.receive(PATIENCE_MS)
        if mad is None:
            sys.exit(f"no message {attribute:#x}")
        found = mads.HEADER.unpack_from(mad)[7]
        if found != attribute:
            sys.exit(f"{found:#x} instead of {attribute:#x}")
        return mad[mads.HEADER.size:]


def number24(value):
    return value.to_bytes(3, "big")


def request(comm_id, qpn, lids):
    return (struct.pack(">IIQQII", comm_id, 0, 0x1000, 0, 0, 0) + number24(qpn) + b"\1"
            + number24(0) + b"\1" + number24(0) + bytes([TIMEOUT << 3])
            + number24(0) + bytes([TIMEOUT << 3 | 3])
            + struct.pack(">HBBHH", 0xFFFF, 3 << 4 | 7, 3 << 4, *lids))


def agree(agents, ends, lids):
    """Exchanges REQ to RTU; port 1's end is the active one. Each end reads the other's parameters from the messages."""
    active, passive = agents
    active.send(lids[2], REQ, request(0xA, ends[0].qp.qp_num, (lids[1], lids[2])))
    heard = passive.hear(REQ)
    asks, qpn = struct.unpack_from(">I", heard)[0], int.from_bytes(heard[32:35], "big")
    active_lid = struct.unpack_from(">H", heard, 52)[0]
    passive.send(active_lid, MRA, struct.pack(">IIBB", 0xB, asks, 0, TIMEOUT << 3))
    active.hear(MRA)
    ends[1].connect(SimpleNamespace(qp=SimpleNamespace(qp_num=qpn), port=1), {1: active_lid})
    passive.send(active_lid, REP, struct.pack(">III", 0xB, asks, 0) + number24(ends[1].qp.qp_num) + b"\0"
                 + number24(0) + b"\0" + number24(0) + b"\0" + b"\1\1\0" + bytes([7 << 5]))
    heard = active.hear(REP)
    answers, _, _, number = struct.unpack_from(">IIII", heard)
    ends[0].connect(SimpleNamespace(qp=SimpleNamespace(qp_num=number >> 8), port=2), lids)
    active.send(lids[2], RTU, struct.pack(">II", asks, answers))
    passive.hear(RTU)
    return asks, answers


def load_alternate(agents, ends, lids, ids):
    """Exchanges LAP and APR: the alternate path leads from port 2 to its own LID."""
    active, passive = agents
    active.send(lids[2], LAP, struct.pack(">III", *ids, 0) + number24(ends[1].qp.qp_num)
                + bytes([TIMEOUT << 3]) + struct.pack(">IHH", 0, lids[2], lids[2]))
    heard = passive.hear(LAP)
    if struct.unpack_from(">II", heard) != ids:
        sys.exit("LAP of another connection")
    theirs, ours = struct.unpack_from(">HH", heard, 20)
    if ours != lids[2]:
        sys.exit(f"LAP for LID {ours}")
    ends[1].load_alternate({2: theirs})
    passive.send(lids[1], APR, struct.pack(">IIBB", ids[1], ids[0], 0, 0))
    heard = active.hear(APR)
    if struct.unpack_from(">IIBB", heard) != (ids[1], ids[0], 0, 0):
        sys.exit("APR is not what was sent")
    ends[0].load_alternate(lids)


def main():
    device = sys.argv[1]
    context = Context(name=device)
    lids = {port: context.query_port(port).lid for port in (1, 2)}
    agents = [Agent(device, port) for port in (1, 2)]
    pd = PD(context)
    ends = [End(context, pd, 1), End(context, pd, 2)]
    load_alternate(agents, ends, lids, agree(agents, ends, lids))
    survive(context, ends)


if __name__ == "__main__":
    main()
