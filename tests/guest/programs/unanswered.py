# SPDX-License-Identifier: GPL-2.0-or-later
"""A SEND that gets no answer.

usage: python3 unanswered.py DEVICE

Two QPs of one HCA with two ports are connected. Prints the number of port 1's QP, and waits for a line, before
which the caller pulls port 2's cable. Then it sends, and prints the status of the completion.
"""
import sys

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.wr import RecvWR, SendWR

from connection import End, completion


def main():
    context = Context(name=sys.argv[1])
    lids = {port: context.query_port(port).lid for port in (1, 2)}
    pd = PD(context)
    source, sink = End(context, pd, 1), End(context, pd, 2)
    source.connect(sink, lids)
    sink.connect(source, lids)
    sink.qp.post_recv(RecvWR(num_sge=1, sg=sink.sge()))
    print(source.qp.qp_num, flush=True)
    sys.stdin.readline()
    source.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=source.sge()))
    print(completion(source.cq), flush=True)


if __name__ == "__main__":
    main()
