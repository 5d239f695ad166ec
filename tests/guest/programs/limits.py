# SPDX-License-Identifier: GPL-2.0-or-later
"""Attributes of queue pairs, queues and regions at the limits of their ranges, and between.

usage: python3 limits.py DEVICE

The device has two ports, and entry 1 of the GID table of both is not empty. Each check sets attributes and queries
them. Prints "ok NAME" or "not ok NAME: reason" for each check.
"""
import ctypes
import mmap
import sys

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from connection import BYTES, End, completion

# Values of a path: least, between and most. Rates are those of PathRecord.
PATHS = [{"sl": 0, "src_path_bits": 0, "static_rate": 0, "flow_label": 0, "traffic_class": 0, "hop_limit": 0},
         {"sl": 7, "src_path_bits": 64, "static_rate": 7, "flow_label": 0x12345, "traffic_class": 9, "hop_limit": 64},
         {"sl": 15, "src_path_bits": 127, "static_rate": 22, "flow_label": 0xfffff, "traffic_class": 255,
          "hop_limit": 255}]
# path_mtu, PSNs and number of the peer, timeouts, RNR timer
NUMBERS = [(e.IBV_MTU_256, 0, 0, 0), (e.IBV_MTU_1024, 0x123456, 14, 12), (e.IBV_MTU_4096, 0xffffff, 31, 31)]
RTR = (e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
       | e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER | e.IBV_QP_ALT_PATH)
RTS = (e.IBV_QP_STATE | e.IBV_QP_SQ_PSN | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY
       | e.IBV_QP_MAX_QP_RD_ATOMIC | e.IBV_QP_CUR_STATE)


def vector(port, values, gid):
    of_grh = {name: values[name] for name in ("flow_label", "traffic_class", "hop_limit")}
    of_lrh = {name: values[name] for name in ("sl", "src_path_bits", "static_rate")}
    grh = GlobalRoute(dgid=GID(gid), sgid_index=1, **of_grh)
    return AHAttr(gr=grh, is_global=1, port_num=port, dlid=1, **of_lrh)


def shown(path):
    return {"sl": path.sl, "src_path_bits": path.src_path_bits, "static_rate": path.static_rate,
            "flow_label": path.flow_label, "traffic_class": path.traffic_class, "hop_limit": path.hop_limit}

PIECE = 1 << 20                 # bytes of a file that is mapped again and again
RW, OWN = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
MAP_FIXED, PROT_NONE, FAILED = 0x10, 0, ctypes.c_void_p(-1).value

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


def mapped(address, length, protection, flags, fd=-1):
    """A mapping by mmap(2); returns its address. The module mmap gives no choice of the address."""
    found = libc.mmap(address, length, protection, flags, fd, 0)
    if found == FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return found


class Bench:
    def __init__(self, device):
        self.context = Context(name=device)
        self.device = self.context.query_device()
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 16)

    def qp(self, kind):
        init = QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, sq_sig_all=1, cap=QPCap(max_send_wr=4, max_recv_wr=4))
        return QP(self.pd, init)


def same(found, wanted):
    if found != wanted:
        raise ValueError(f"{found} instead of {wanted}")


def attributes_of_a_connection(bench):
    for values, (mtu, number, timer, rnr_timer) in zip(PATHS, NUMBERS, strict=True):
        attr = QPAttr(port_num=1)
        qp = bench.qp(e.IBV_QPT_RC)
        qp.to_init(attr)
        gid = bench.context.query_gid(1, 1).gid
        attr.qp_state, attr.path_mtu, attr.min_rnr_timer, attr.max_dest_rd_atomic = e.IBV_QPS_RTR, mtu, rnr_timer, 1
        attr.dest_qp_num, attr.rq_psn, attr.ah_attr = number, number, vector(1, values, gid)
        attr.alt_ah_attr, attr.alt_port_num = vector(2, values, gid), 2
        attr.alt_timeout, attr.alt_pkey_index = timer, 1
        qp.modify(attr, RTR)
        attr.qp_state, attr.cur_qp_state, attr.sq_psn, attr.timeout = e.IBV_QPS_RTS, e.IBV_QPS_RTR, number, timer
        attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic = 7, 7, 1
        qp.modify(attr, RTS)
        got = qp.query(e.IBV_QP_AV | e.IBV_QP_ALT_PATH)[0]
        same((shown(got.ah_attr), shown(got.alt_ah_attr)), (values, values))
        same((got.ah_attr.sgid_index, got.alt_ah_attr.sgid_index, got.alt_pkey_index), (1, 1, 1))
        same((got.path_mtu, got.min_rnr_timer, got.timeout, got.alt_timeout), (mtu, rnr_timer, timer, timer))
        same((got.rq_psn, got.sq_psn, got.dest_qp_num), (number, number, number))


def assumed_states(bench):
    """CUR_STATE with each state in which a transition takes it. A failed send takes the UD QP to SQE."""
    qp, attr = bench.qp(e.IBV_QPT_UD), QPAttr(port_num=1)
    attr.qkey = 0x11111111
    qp.to_rts(attr)
    to_rts = e.IBV_QP_STATE | e.IBV_QP_CUR_STATE
    attr.qp_state, attr.cur_qp_state = e.IBV_QPS_RTS, e.IBV_QPS_RTS
    qp.modify(attr, to_rts)
    attr.qp_state = e.IBV_QPS_SQD
    qp.modify(attr, e.IBV_QP_STATE)
    attr.qp_state, attr.cur_qp_state = e.IBV_QPS_RTS, e.IBV_QPS_SQD
    qp.modify(attr, to_rts)
    send_with_a_wrong_key(bench, qp)
    same(qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_SQE)
    attr.qp_state, attr.cur_qp_state = e.IBV_QPS_RTS, e.IBV_QPS_SQE
    qp.modify(attr, to_rts)
    same(qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_RTS)


def send_with_a_wrong_key(bench, qp):
    mr = MR(bench.pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    request = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey ^ 1)])
    request.set_wr_ud(AH(bench.pd, attr=AHAttr(dlid=1)), 1, 0x11111111)
    qp.post_send(request)
    same(completion(bench.cq), e.IBV_WC_LOC_PROT_ERR)


def largest_shared_receive_queue(bench):
    most = SrqAttr(max_wr=bench.device.max_srq_wr, max_sge=bench.device.max_srq_sge)
    srq = SRQ(bench.pd, SrqInitAttr(most))
    same((srq.query().max_wr, srq.query().max_sge), (most.max_wr, most.max_sge))
    srq.close()
    srq = SRQ(bench.pd, SrqInitAttr(SrqAttr(max_wr=1, max_sge=1)))
    srq.modify(most, e.IBV_SRQ_MAX_WR)
    same(srq.query().max_wr, most.max_wr)


def completion_queue_grows_to_the_limit(bench):
    cq = CQ(bench.context, 1)
    for entries in (1 << 16, bench.device.max_cqe):
        cq.resize(entries)


def rights_of_a_region_change(bench):
    mr = MR(bench.pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    for right in (e.IBV_ACCESS_MW_BIND, e.IBV_ACCESS_FLUSH_GLOBAL):
        mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=e.IBV_ACCESS_LOCAL_WRITE | right)


def region_of_three_levels_of_tables(bench):
    """More than 512 * 512 pages of 4 KiB: the pages of a file, again and again."""
    page, pages = mmap.PAGESIZE, 512 * 512 + 1
    with open("/dev/shm/limits", "w+b") as file:
        file.truncate(PIECE)
        address = mapped(None, page * pages + PIECE, PROT_NONE, OWN)
        for at in range(0, page * pages, PIECE):
            mapped(address + at, PIECE, RW, mmap.MAP_SHARED | MAP_FIXED, file.fileno())
    made = MR(bench.pd, page * pages, e.IBV_ACCESS_LOCAL_WRITE, address=address)
    changed, end = MR(bench.pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE), connected(bench)
    changed.rereg(e.IBV_REREG_MR_CHANGE_TRANSLATION, pd=bench.pd, addr=address, length=page * pages)
    last = address + page * (pages - 1)
    for mr, said in ((made, b"the last"), (changed, b"the same")):
        ctypes.memmove(last, said, 8)
        send_to_itself(end, SGE(last, 8, mr.lkey))
        same(end.mr.read(8, 0), said)


def connected(bench):
    end, lid = End(bench.context, bench.pd, 1), bench.context.query_port(1).lid
    end.connect(end, {1: lid})
    return end


def send_to_itself(end, sge, flags=e.IBV_SEND_SIGNALED):
    end.qp.post_recv(RecvWR(num_sge=1, sg=end.sge()))
    end.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[sge], send_flags=flags))
    same((completion(end.cq), completion(end.cq)), (e.IBV_WC_SUCCESS, e.IBV_WC_SUCCESS))


def fenced_request(bench):
    end = connected(bench)
    send_to_itself(end, *end.sge(), e.IBV_SEND_FENCE | e.IBV_SEND_SIGNALED)


def on_demand_page_without_access(bench):
    """The driver tells the device that there is no page: the request fails with a protection error."""
    address = mapped(None, BYTES, RW, OWN)
    mr = MR(bench.pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND, address=address)
    mapped(address, BYTES, PROT_NONE, OWN | MAP_FIXED)
    end = connected(bench)
    end.qp.post_recv(RecvWR(num_sge=1, sg=end.sge()))
    end.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(address, BYTES, mr.lkey)]))
    same(completion(end.cq), e.IBV_WC_LOC_PROT_ERR)


CHECKS = (attributes_of_a_connection, assumed_states, largest_shared_receive_queue, completion_queue_grows_to_the_limit,
          rights_of_a_region_change, region_of_three_levels_of_tables, fenced_request, on_demand_page_without_access)


def main():
    bench = Bench(sys.argv[1])
    for check in CHECKS:
        try:
            check(bench)
            print(f"ok {check.__name__}", flush=True)
        except Exception as error:      # the next check runs all the same
            print(f"not ok {check.__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
