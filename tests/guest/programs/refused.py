# SPDX-License-Identifier: GPL-2.0-or-later
"""A command and a work request that the device refuses.

usage: python3 refused.py DEVICE

Asks for an RNR NAK timer that does not exist, which the kernel passes on, and prints the QP's number. Then sends from
another QP with an L_Key that does not exist, and prints the QP's number and the L_Key.
"""
import sys

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, SendWR

from connection import BYTES, End, completion, path

NO_TIMER = 32


def ask_for_no_timer(end, dlid):
    attr = QPAttr(port_num=1)
    end.qp.to_init(attr)
    attr.path_mtu, attr.min_rnr_timer = e.IBV_MTU_1024, NO_TIMER
    attr.ah_attr = path(1, dlid)
    try:
        end.qp.to_rtr(attr)
    except PyverbsRDMAError:
        print(f"{end.qp.qp_num:#x}")
    else:
        sys.exit("the device has taken the timer")


def send_with_no_key(end, dlid):
    end.connect(end, {1: dlid})
    lkey = end.mr.lkey ^ 1
    end.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(end.mr.buf, BYTES, lkey)]))
    status = completion(end.cq)
    if status != e.IBV_WC_LOC_PROT_ERR:
        sys.exit(f"completion status {status}")
    print(f"{end.qp.qp_num:#x} {lkey:#x}")


def main():
    context = Context(name=sys.argv[1])
    pd, dlid = PD(context), context.query_port(1).lid
    ask_for_no_timer(End(context, pd, 1), dlid)
    send_with_no_key(End(context, pd, 1), dlid)


if __name__ == "__main__":
    main()
