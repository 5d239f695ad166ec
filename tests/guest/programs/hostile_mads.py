# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends unsolicited MADs to QP1 of a port.

usage: python3 hostile_mads.py DEVICE DLID AGENT COUNT SEED

The MADs are responses without a request, RMPP segments with impossible numbers, lengths, types and versions, ends of
messages without a beginning, and MADs that are too short or too long, in the classes of subnet administration and of
vendors. AGENT: the upper half of the transaction IDs of an agent at the other end. Prints how many of the MADs the
other end has answered. """
import random
import struct
import sys

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from mads import HEADER, QP1_KEY, SUBN_ADM

SLOT, DEPTH, GRH = 4096, 64, 40
RMPP = struct.Struct(">BBBBII")         # version, type, flags, status, segment, payload length or new window
PING, VENDOR = 0x32, 0x0A
CLASS_VERSIONS = {SUBN_ADM: 2, PING: 1, VENDOR: 1}
RESPONSES = (0x81, 0x86, 0x92, 0x93, 0x94, 0x95)
METHODS = RESPONSES * 3 + (0x01, 0x02, 0x05, 0x06, 0x07, 0x12, 0x13, 0x14, 0x15, 0x7F, 0xFF, 0x00)
ACTIVE, FIRST, LAST = 1, 2, 4
DATA, ACK, STOP, ABORT = 1, 2, 3, 4
SEGMENTS = (0, 1, 1, 2, 3, 64, 65, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
LENGTHS = (0, 1, 19, 20, 21, 199, 200, 219, 220, 221, 440, 1 << 16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
SIZES = (256,) * 40 + (1, 20, 24, 36, 64, 255, 257, 512, 2048)


class Sender:
    def __init__(self, device, dlid):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq, self.heard_cq = CQ(self.context, DEPTH), CQ(self.context, DEPTH)
        self.mr = MR(self.pd, 2 * DEPTH * SLOT, e.IBV_ACCESS_LOCAL_WRITE)
        attr = QPAttr(port_num=1)
        attr.qkey = QP1_KEY
        init = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.heard_cq, sq_sig_all=1,
                          cap=QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH))
        self.qp = QP(self.pd, init, attr)
        self.ah = AH(self.pd, attr=AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=dlid))
        self.sent = self.done = self.heard = 0
        for slot in range(DEPTH):
            self.listen(slot)

    def listen(self, slot):
        place = SGE(self.mr.buf + (DEPTH + slot) * SLOT, GRH + 256, self.mr.lkey)
        self.qp.post_recv(RecvWR(wr_id=slot, num_sge=1, sg=[place]))

    def send(self, mad):
        while self.sent - self.done == DEPTH:
            self.poll()
        slot = self.sent % DEPTH
        self.mr.write(mad, len(mad), slot * SLOT)
        request = SendWR(num_sge=1, sg=[SGE(self.mr.buf + slot * SLOT, len(mad), self.mr.lkey)])
        request.set_wr_ud(self.ah, 1, QP1_KEY)
        self.qp.post_send(request)
        self.sent += 1

    def poll(self):
        for completion in self.cq.poll(DEPTH)[1]:
            if completion.status != e.IBV_WC_SUCCESS:
                sys.exit(f"completion status {completion.status}")
            self.done += 1
        for completion in self.heard_cq.poll(DEPTH)[1]:
            if completion.status == e.IBV_WC_SUCCESS:
                self.heard += 1
                self.listen(completion.wr_id)

    def finish(self):
        while self.done != self.sent:
            self.poll()


def mad(dice, mgmt_class, method, tid, rmpp):
    header = HEADER.pack(1 if dice.random() < 0.98 else dice.randrange(256), mgmt_class,
                         CLASS_VERSIONS[mgmt_class] if dice.random() < 0.95 else dice.randrange(256), method,
                         dice.choice((0, 0, 0, 0x0C, 0xFFFF)), 0, tid, dice.choice((0x01, 0x11, 0x35, 0xFF02)), 0,
                         dice.choice((0, 0xFFFFFFFF)))
    size = dice.choice(SIZES)
    return (header + RMPP.pack(*rmpp) + dice.randbytes(64)).ljust(size, b"\xA5")[:size]


def single(dice, mgmt_class, tid):
    """A MAD with random fields in its RMPP header."""
    kind = dice.choice((DATA, DATA, ACK, STOP, ABORT, 0, 5, 255))
    rmpp = (dice.choice((1, 1, 1, 0, 2, 255)), kind, dice.randrange(256) if dice.random() < 0.3 else
            dice.choice((0, ACTIVE, ACTIVE | FIRST, ACTIVE | LAST, ACTIVE | FIRST | LAST)),
            dice.choice((0, 0, 1, 118, 127, 255)), dice.choice(SEGMENTS), dice.choice(LENGTHS))
    yield mad(dice, mgmt_class, dice.choice(METHODS), tid, rmpp)


def message(dice, mgmt_class, tid):
    """Segments of one message, one of which is wrong, missing or sent twice."""
    method, count = dice.choice(RESPONSES), dice.randrange(1, 6)
    segments = [[1, DATA, ACTIVE, 0, number, 0] for number in range(1, count + 1)]
    segments[0][2:] = [segments[0][2] | FIRST, 0, 1, dice.choice(LENGTHS)]
    segments[-1][2:] = [segments[-1][2] | LAST, 0, count, dice.choice(LENGTHS)]
    wrong = dice.randrange(4)
    if wrong == 0:
        segments.pop(dice.randrange(count))
    elif wrong == 1:
        segments.append(dice.choice(segments))
    elif wrong == 2:
        dice.shuffle(segments)
    else:
        dice.choice(segments)[4] = dice.choice(SEGMENTS)
    for rmpp in segments:
        yield mad(dice, mgmt_class, method, tid, rmpp)


def main():
    device, dlid, agent, count, seed = sys.argv[1], *map(int, sys.argv[2:])
    dice, sender = random.Random(seed), Sender(device, dlid)
    while sender.sent < count:
        upper = agent if dice.random() < 0.7 else dice.choice((0, dice.randrange(1, 64), dice.randrange(1 << 32)))
        tid = upper << 32 | dice.choice((0, 1, dice.randrange(1 << 32)))
        kind = dice.choice((single, message))
        for one in kind(dice, dice.choice((SUBN_ADM, SUBN_ADM, PING, VENDOR)), tid):
            sender.send(one)
    sender.finish()
    print(f"sent {sender.sent}, answered {sender.heard}")


main()
