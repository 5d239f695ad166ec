# SPDX-License-Identifier: GPL-2.0-or-later
"""One end of an RC connection, with a CQ and a region of its own."""
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE

BYTES = 4096
MIGRATION = e.IBV_QP_ALT_PATH | e.IBV_QP_PATH_MIG_STATE


def path(port, dlid):
    return AHAttr(gr=GlobalRoute(), is_global=0, port_num=port, dlid=dlid)


def completion(cq):
    """Waits for the next completion of a CQ; returns its status."""
    while True:
        count, found = cq.poll(1)
        if count:
            return found[0].status


class End:
    def __init__(self, context, pd, port, access=0):
        """access: what the QP permits its peer."""
        self.port, self.context = port, context
        self.cq = CQ(context, 16)
        self.mr = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, sq_sig_all=1,
                          cap=QPCap(max_send_wr=8, max_recv_wr=8))
        first = QPAttr(port_num=port)
        first.qp_access_flags = access
        self.qp = QP(pd, init, first)

    def connect(self, peer, lids):
        attr = QPAttr(port_num=self.port)
        attr.path_mtu = e.IBV_MTU_1024
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = peer.qp.qp_num, 0, 0
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.rnr_retry = 12, 7
        attr.timeout, attr.retry_cnt = 14, 3
        attr.ah_attr = path(self.port, lids[peer.port])
        self.qp.to_rts(attr)

    def load_alternate(self, lids):
        attr = QPAttr()
        attr.alt_ah_attr, attr.alt_port_num, attr.alt_timeout = path(2, lids[2]), 2, 14
        attr.path_mig_state = e.IBV_MIG_REARM
        self.qp.modify(attr, MIGRATION)

    def query(self):
        return self.qp.query(e.IBV_QP_PATH_MIG_STATE | e.IBV_QP_AV)[0]

    def sge(self):
        return [SGE(self.mr.buf, BYTES, self.mr.lkey)]

    def wait(self):
        status = completion(self.cq)
        if status != e.IBV_WC_SUCCESS:
            sys.exit(f"completion status {status}")
