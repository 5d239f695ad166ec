# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA WRITE between two QPs of one HCA, out of pages that are absent at first.

usage: python3 on_demand.py DEVICE FILE [implicit]

Maps the file read-only and writes its first 64 KiB into memory that is pinned. The file's mapping is
a region with on-demand paging, or part of the implicit region that is all of the address space.
Prints the CRC of what has arrived.
"""
import ctypes
import mmap
import os
import sys
import zlib

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

BYTES = 65536


def map_file(path):
    """The address of a read-only mapping."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return libc.mmap(None, BYTES, mmap.PROT_READ, mmap.MAP_SHARED, os.open(path, os.O_RDONLY), 0)


def region(pd, address, implicit):
    if implicit:    # with write access, which the pages do not permit
        return MR(pd, 0, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND, implicit=True)
    return MR(pd, BYTES, e.IBV_ACCESS_ON_DEMAND, address=address)


def connected_pair(context, pd, cq):
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, sq_sig_all=1, cap=QPCap(max_send_wr=4, max_recv_wr=4))
    first = QPAttr(port_num=1)
    first.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    ends = [QP(pd, init, first) for _ in range(2)]
    lid = context.query_port(1).lid
    for end, peer in (ends, reversed(ends)):
        attr = QPAttr(port_num=1)
        attr.path_mtu, attr.dest_qp_num, attr.rq_psn, attr.sq_psn = e.IBV_MTU_1024, peer.qp_num, 0, 0
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.rnr_retry, attr.timeout, attr.retry_cnt = 12, 7, 14, 7
        attr.ah_attr = AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=lid)
        end.to_rts(attr)
    return ends


def wait(cq):
    while True:
        polled, completions = cq.poll(1)
        if polled:
            return completions[0].status


def main(device, path, implicit):
    context = Context(name=device)
    pd, cq = PD(context), CQ(context, 8)
    sender, _receiver = connected_pair(context, pd, cq)
    target = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
    address = map_file(path)
    source = region(pd, address, implicit)
    request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(address, BYTES, source.lkey)])
    request.set_wr_rdma(target.rkey, target.buf)
    sender.post_send(request)
    status = wait(cq)
    assert status == e.IBV_WC_SUCCESS, status
    print(zlib.crc32(target.read(BYTES, 0)))


main(sys.argv[1], sys.argv[2], len(sys.argv) > 3)
