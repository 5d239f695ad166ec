# SPDX-License-Identifier: GPL-2.0-or-later
"""Random bytes between two guests by SEND, RDMA WRITE with immediate and RDMA READ over one RC QP.

usage: python3 random_traffic.py DEVICE MIB SEED [SERVER]     without SERVER this is the server

Both ends draw the same work from the seed: rounds of requests with random sizes, packed without
alignment into a buffer. After each round both buffers must be the same, byte for byte.
"""
import hashlib
import os
import random
import socket
import struct
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from meeting import meet

ROUND = 16 << 20
DEPTH = 64
PORT = 18515
OPCODES = (e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE_WITH_IMM, e.IBV_WR_RDMA_READ)
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
ENDPOINT = struct.Struct("!HIIQI")


class End:
    """One end: its verbs objects, and the TCP connection by which the ends agree."""

    def __init__(self, device, peer):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 4 * DEPTH)
        self.mr = MR(self.pd, ROUND, ACCESS)
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH)
        init = QPAttr(port_num=1)
        init.qp_access_flags = ACCESS
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap,
                                         sq_sig_all=1), init)
        self.peer = peer
        self.is_server = peer.getsockname()[1] == PORT
        self.connect()

    def connect(self):
        mine = ENDPOINT.pack(self.context.query_port(1).lid, self.qp.qp_num, self.qp.qp_num,
                             self.mr.buf, self.mr.rkey)
        lid, number, psn, self.remote_addr, self.remote_key = ENDPOINT.unpack(self.swap(mine))
        attr = QPAttr(port_num=1)
        attr.path_mtu = e.IBV_MTU_4096
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = number, psn, self.qp.qp_num
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer, attr.rnr_retry = 12, 7
        attr.timeout, attr.retry_cnt = 13, 7     # retries for 0.27 s, because the host may be busy
        attr.ah_attr = AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=lid)
        self.qp.to_rts(attr)
        self.swap(bytes(ENDPOINT.size))

    def swap(self, mine):
        self.peer.sendall(mine)
        return self.peer.recv(len(mine), socket.MSG_WAITALL)

    def sge(self, offset, size):
        return SGE(self.mr.buf + offset, size, self.mr.lkey)

    def post(self, opcode, offset, size):
        request = SendWR(opcode=opcode, num_sge=1, sg=[self.sge(offset, size)])
        request.set_wr_rdma(self.remote_key, self.remote_addr + offset)
        self.qp.post_send(request)

    def wait(self, count):
        while count:
            _, completions = self.cq.poll(16)
            for completion in completions:
                if completion.status != e.IBV_WC_SUCCESS:
                    sys.exit(f"completion status {completion.status}")
            count -= len(completions)


def draw(dice):
    """One round: (opcode, offset, size) of each request; together the requests nearly fill the buffer."""
    work, offset = [], 0
    while len(work) < DEPTH:
        size = 1 + dice.randrange(1 << dice.randrange(1, 21))
        if offset + size > ROUND:
            break
        work.append((dice.choice(OPCODES), offset, size))
        offset += size
    return work, offset


def run_round(end, work, length):
    """Only the client posts send requests. Random bytes are written at the server for READs, else at the client."""
    mine = [item for item in work if (item[0] == e.IBV_WR_RDMA_READ) == end.is_server]
    for _, offset, size in mine:
        end.mr.write(os.urandom(size), size, offset)
    receives = [item for item in work if item[0] != e.IBV_WR_RDMA_READ]
    if end.is_server:
        for _, offset, size in receives:  # a WRITE's immediate data takes a receive request, but none of its bytes
            end.qp.post_recv(RecvWR(num_sge=1, sg=[end.sge(offset, size)]))
    end.swap(b"ready")
    if not end.is_server:
        for item in work:
            end.post(*item)
    end.wait(len(receives) if end.is_server else len(work))
    # The server cannot see the end of READs from its memory, so the client reports it.
    end.swap(b"ended")
    digest = hashlib.sha256(end.mr.read(length, 0)).digest()
    if end.swap(digest) != digest:
        sys.exit(f"the buffers differ after {work}")


def main():
    device, mib, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    end = End(device, meet(sys.argv[4] if len(sys.argv) > 4 else None, PORT))
    dice = random.Random(seed)
    moved = requests = 0
    while moved < mib << 20:
        work, length = draw(dice)
        run_round(end, work, length)
        moved += length
        requests += len(work)
    print(f"{moved} bytes by {requests} requests, the same at both ends")


main()
