#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A program of verbs with the memory that  userspace-driver rdma  writes and reads.

usage: python3 peer.py DEVICE HOST

Each end sends LID, QPN and first PSN in a line of hexadecimal numbers. The driver writes the first half of the
memory, reads the second half, and then asks whether the first half is right.
"""
import socket
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

PORT = 18515
PSN = 0x345678
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


def pattern(count, seed):
    """The bytes of pattern.h."""
    return bytes((i * 31 + i // 4096 + seed * 7) & 0xff for i in range(count))


def connect(context, pd, cq, lid, qpn, psn):
    """Makes a QP and takes it to RTS."""
    init = QPAttr(port_num=1)
    init.qp_access_flags = ACCESS
    cap = QPCap(max_send_wr=1, max_recv_wr=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap), init)
    attr = QPAttr(port_num=1)
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num, attr.rq_psn, attr.sq_psn = qpn, psn, PSN
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer, attr.rnr_retry, attr.timeout, attr.retry_cnt = 12, 7, 18, 7
    attr.ah_attr = AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=lid)
    qp.to_rts(attr)
    return qp


def verdict(found, wanted):
    wrong = next((i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), None)
    return "right" if wrong is None else f"byte {wrong} is {found[wrong]:#04x} instead of {wanted[wrong]:#04x}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    device, host = sys.argv[1:]
    try:
        stream = socket.create_connection((host, PORT)).makefile("rw")
    except OSError as error:
        sys.exit(f"{host}: {error}. Start this program when the driver there says that it waits for a peer")
    lid, qpn, psn, count, seed = (int(word, 16) for word in stream.readline().split())
    context = Context(name=device)
    pd = PD(context)
    mr = MR(pd, 2 * count, ACCESS)
    mr.write(pattern(count, seed), count, count)
    cq = CQ(context, 2)
    qp = connect(context, pd, cq, lid, qpn, psn)
    print(f"{context.query_port(1).lid:x} {qp.qp_num:x} {PSN:x} {mr.rkey:x} {mr.buf:x}", file=stream, flush=True)
    asked = stream.readline().split()
    if asked[:1] != ["check"]:
        sys.exit("the other end has ended, or has asked for something else than a check: read what it has printed")
    said = verdict(mr.read(count, 0), pattern(count, int(asked[1])))
    print(said, file=stream, flush=True)
    print(f"{count} bytes written by the other end: {said}")
    if said != "right":
        sys.exit(1)


if __name__ == "__main__":
    main()
