#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The peer of step 7: a program of verbs.

usage: python3 peer.py DEVICE LID QPN PSN R_KEY ADDRESS

The numbers are those of the driver's file `address`. The program prints its own numbers, for the driver's file `peer`.
After a line of input it prints the text that the driver has written to its memory, and writes an answer to the driver's
memory.
"""
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

PSN = 0x234567
TEXT = 64               # bytes of a text, filled up with zeroes
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


def connect(pd, cq, lid, qpn, psn):
    """Makes a QP and takes it to RTS."""
    init = QPAttr(port_num=1)
    init.qp_access_flags = ACCESS
    cap = QPCap(max_send_wr=1, max_recv_wr=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1), init)
    attr = QPAttr(port_num=1)
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num, attr.rq_psn, attr.sq_psn = qpn, psn, PSN
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer, attr.rnr_retry, attr.timeout, attr.retry_cnt = 12, 7, 18, 7
    attr.ah_attr = AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=lid)
    qp.to_rts(attr)
    return qp


def write(qp, cq, mr, rkey, address):
    """Writes the second text of the region to the driver's memory."""
    request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf + TEXT, TEXT, mr.lkey)])
    request.set_wr_rdma(rkey, address)
    qp.post_send(request)
    while not (polled := cq.poll(1))[0]:
        pass
    if polled[1][0].status != e.IBV_WC_SUCCESS:
        sys.exit(f"completion status {polled[1][0].status}. Why:  ./pib why")


def main():
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    lid, qpn, psn, rkey, address = (int(word, 16) for word in sys.argv[2:])
    context = Context(name=sys.argv[1])
    pd = PD(context)
    mr = MR(pd, 2 * TEXT, ACCESS)
    mr.write(b"".ljust(TEXT, b"\0"), TEXT, 0)
    cq = CQ(context, 2)
    qp = connect(pd, cq, lid, qpn, psn)
    print(f"{context.query_port(1).lid:x} {qp.qp_num:x} {PSN:x} {mr.rkey:x} {mr.buf:x}", flush=True)
    sys.stdin.readline()
    text = mr.read(TEXT, 0).rstrip(b"\n\0")
    print(text.decode(errors="replace"), flush=True)
    mr.write(b"heard: " + text[:TEXT - 8].ljust(TEXT - 7, b"\0"), TEXT, TEXT)
    write(qp, cq, mr, rkey, address)


if __name__ == "__main__":
    main()
