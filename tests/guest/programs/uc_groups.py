# SPDX-License-Identifier: GPL-2.0-or-later
"""UC QPs of one guest that always have something to send, each group with its own address vector.

usage: python3 uc_groups.py DEVICE MIB GROUP,... [SERVER]     without SERVER this is the server

A GROUP is SL:RATE:QPS, RATE a code of PathRecord:Rate or 0. When all groups together have sent MIB
(UC has no acknowledgements), the client prints one line of JSON: the bytes of each group, and the seconds
that it took.
"""
import json
import socket
import struct
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

from meeting import meet

SIZE = 4 << 20
DEPTH = 4
PORT = 18516
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
ENDPOINT = struct.Struct("!HIQI")


def groups(text):
    return [tuple(int(number) for number in group.split(":")) for group in text.split(",")]


class Sender:
    """One connected UC QP."""

    def __init__(self, end, group, level, rate):
        self.end, self.group = end, group
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=1)
        init = QPAttr(port_num=1)
        init.qp_access_flags = ACCESS
        self.qp = QP(end.pd, QPInitAttr(qp_type=e.IBV_QPT_UC, scq=end.cq, rcq=end.cq, cap=cap,
                                        sq_sig_all=1), init)
        lid, number, self.addr, self.key = ENDPOINT.unpack(end.swap(ENDPOINT.pack(
            end.context.query_port(1).lid, self.qp.qp_num, end.mr.buf, end.mr.rkey)))
        attr = QPAttr(port_num=1)
        attr.path_mtu = e.IBV_MTU_4096
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = number, 0, 0
        attr.ah_attr = AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=lid, sl=level,
                              static_rate=rate)
        self.qp.to_rts(attr)
        shown = self.qp.query(e.IBV_QP_AV)[0].ah_attr
        assert (shown.sl, shown.static_rate) == (level, rate), (shown.sl, shown.static_rate)

    def post(self):
        request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1,
                         sg=[SGE(self.end.mr.buf, SIZE, self.end.mr.lkey)])
        request.set_wr_rdma(self.key, self.addr)
        self.qp.post_send(request)


class End:
    def __init__(self, device, peer, specs):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.peer = peer
        self.cq = CQ(self.context, 1024)
        self.mr = MR(self.pd, SIZE, ACCESS)
        self.senders = [Sender(self, group, level, rate)
                        for group, (level, rate, count) in enumerate(specs) for _ in range(count)]

    def swap(self, mine):
        self.peer.sendall(mine)
        return self.peer.recv(len(mine), socket.MSG_WAITALL)

    def send(self, total, sent):
        """Sends until this many bytes are sent; every QP always has DEPTH requests."""
        by_number = {sender.qp.qp_num: sender for sender in self.senders}
        for sender in self.senders:
            for _ in range(DEPTH):
                sender.post()
        while sum(sent) < total:
            for completion in self.cq.poll(64)[1]:
                if completion.status != e.IBV_WC_SUCCESS:
                    sys.exit(f"completion status {completion.status}")
                sender = by_number[completion.qp_num]
                sent[sender.group] += SIZE
                sender.post()


def main():
    specs = groups(sys.argv[3])
    end = End(sys.argv[1], meet(sys.argv[4] if len(sys.argv) > 4 else None, PORT), specs)
    end.swap(b"ready")
    if len(sys.argv) > 4:
        sent = [0] * len(specs)
        begin = time.monotonic()
        end.send(int(sys.argv[2]) << 20, sent)
        print(json.dumps({"sent": sent, "seconds": time.monotonic() - begin}))
    end.swap(b"ended")


main()
