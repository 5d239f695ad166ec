# SPDX-License-Identifier: GPL-2.0-or-later
"""Automatic path migration (IBA vol. 1, 17.2.8) when a path fails.

usage: python3 path_failure.py DEVICE

Two QPs of one HCA with two ports. Their path crosses the cables of both ports; the alternate path is
port 2's alone. Prints "armed", and waits for a line, before which the caller makes port 1's cable lose
all packets. Then it sends: no message may be lost, and both QPs must get the event of the migration.
"""
import sys

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.wr import RecvWR, SendWR

from connection import End


def transfer(source, sink, text):
    sink.qp.post_recv(RecvWR(num_sge=1, sg=sink.sge()))
    source.mr.write(text, len(text))
    source.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=source.sge()))
    source.wait()
    sink.wait()
    if sink.mr.read(len(text), 0) != text:
        sys.exit("other bytes have arrived")


def survive(context, ends):
    """Both QPs have loaded the path of port 2. The caller cuts port 1's path and then writes a line."""
    for i in range(4):  # so that both ends receive the other's REARM
        transfer(ends[i % 2], ends[1 - i % 2], b"both paths are there")
    if [end.query().path_mig_state for end in ends] != [e.IBV_MIG_ARMED] * 2:
        sys.exit("not armed")
    print("armed", flush=True)
    sys.stdin.readline()
    for i in range(4):
        transfer(ends[i % 2], ends[1 - i % 2], b"one path is gone")
    for end in ends:
        event = context.get_async_event()
        event.ack()
        if event.event_type != e.IBV_EVENT_PATH_MIG:
            sys.exit(f"event {event.event_type}")
        after = end.query()
        if (after.path_mig_state, after.ah_attr.port_num) != (e.IBV_MIG_MIGRATED, 2):
            sys.exit(f"state {after.path_mig_state}, port {after.ah_attr.port_num}")
    print("migrated", flush=True)


def main():
    context = Context(name=sys.argv[1])
    lids = {port: context.query_port(port).lid for port in (1, 2)}
    pd = PD(context)
    ends = [End(context, pd, 1), End(context, pd, 2)]
    ends[0].connect(ends[1], lids)
    ends[1].connect(ends[0], lids)
    for end in ends:
        end.load_alternate(lids)
    survive(context, ends)


if __name__ == "__main__":
    main()
