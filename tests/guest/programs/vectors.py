# SPDX-License-Identifier: GPL-2.0-or-later
"""Raises completion events, one after the other.

usage: python3 vectors.py DEVICE VECTOR COUNT

A receive that is posted to a QP in Error is flushed: a completion for which no fabric is needed.
"""
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR

context = Context(name=sys.argv[1])
channel = CompChannel(context)
cq = CQ(context, 4, None, channel, int(sys.argv[2]))
pd = PD(context)
mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=1)))
qp.to_init(QPAttr(port_num=1))
qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
for _ in range(int(sys.argv[3])):
    cq.req_notify()
    qp.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey)]))
    channel.get_cq_event(cq)
    cq.ack_events(1)
    cq.poll(1)
