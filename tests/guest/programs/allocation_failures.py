# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls each verb with each of its kernel allocations failing once (Documentation/fault-injection in the kernel).

usage: python3 allocation_failures.py DEVICE

For N = 1, 2, … the Nth allocation of the system calls of a verb fails, until a call has fewer than N. Each
allocation of the object's destruction then fails once as well. Prints a line for each verb: the numbers of failures at
creation and at destruction, and the verb's name.
"""
import contextlib
import itertools
import os
import pathlib
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import DM, AllocDmAttr, Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.xrcd import XRCD, XRCDInitAttr

DEBUGFS = pathlib.Path("/sys/kernel/debug")
# All allocations may fail, also those that may sleep and those of single pages. Failures are not printed: the test
# regards each stack in the kernel's log as a complaint.
ATTRIBUTES = {"failslab": {"ignore-gfp-wait": "N", "verbose": "0"},
              "fail_page_alloc": {"ignore-gfp-wait": "N", "min-order": "0", "verbose": "0"}}
MOST = 10000        # allocations of one call
FAILED = (PyverbsError, OSError, MemoryError)
LOCAL = e.IBV_ACCESS_LOCAL_WRITE


class Fault:
    """The Nth allocation of this thread fails, from arm() to disarm()."""

    def __init__(self):
        self._file = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def arm(self, nth):
        os.pwrite(self._file, b"%d" % nth, 0)

    def disarm(self):
        """Returns whether an allocation has failed."""
        left = int(os.pread(self._file, 16, 0))
        os.pwrite(self._file, b"0", 0)
        return left == 0


class Verbs:
    """The verbs of a device: a function for each, which returns the object that it has made. Address handles are made
    by the provider alone."""

    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 16)
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=16)))
        self.lid = self.context.query_port(1).lid
        self.table = {
            "open_device": lambda: Context(name=name),
            "alloc_pd": lambda: PD(self.context),
            "open_xrcd": lambda: XRCD(self.context, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD
                                                                 | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1)),
            "create_comp_channel": lambda: CompChannel(self.context),
            "create_cq": lambda: CQ(self.context, 16),
            "create_cq of many entries": lambda: CQ(self.context, 16384),
            "create_srq": lambda: SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=16))),
            "reg_mr of a page": lambda: MR(self.pd, 4096, LOCAL),
            "reg_mr of 16 MiB": lambda: MR(self.pd, 16 << 20, LOCAL),
            "reg_mr on demand": lambda: MR(self.pd, 1 << 20, LOCAL | e.IBV_ACCESS_ON_DEMAND),
            "alloc_mw": lambda: MW(self.pd, e.IBV_MW_TYPE_2),
            "alloc_dm": lambda: DM(self.context, AllocDmAttr(length=4096)),
            "create_qp RC": lambda: self._qp(e.IBV_QPT_RC),
            "create_qp UC": lambda: self._qp(e.IBV_QPT_UC),
            "create_qp UD": lambda: self._qp(e.IBV_QPT_UD),
            "create_qp RC with SRQ": lambda: self._qp(e.IBV_QPT_RC, srq=self.srq),
            "modify_qp": self._connected,
        }

    def _path(self):
        return AHAttr(gr=GlobalRoute(), is_global=0, port_num=1, dlid=self.lid)

    def _qp(self, kind, **more):
        return QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq,
                                      cap=QPCap(max_send_wr=64, max_recv_wr=0 if more else 64), **more))

    def _connected(self):
        qp = self._qp(e.IBV_QPT_RC)
        attr = QPAttr(port_num=1)
        attr.path_mtu = e.IBV_MTU_1024
        attr.dest_qp_num, attr.min_rnr_timer, attr.timeout, attr.retry_cnt = qp.qp_num, 12, 14, 7
        attr.ah_attr = self._path()
        qp.to_rts(attr)
        return qp


def made(fault, nth, make):
    """Returns what was made, or None, and whether an allocation has failed."""
    thing = None
    fault.arm(nth)
    with contextlib.suppress(*FAILED):
        thing = make()
    return thing, fault.disarm()


def closed(fault, nth, thing):
    """Destroys an object, a second time if the first one fails; returns whether an allocation has failed."""
    fault.arm(nth)
    try:
        thing.close()
    except FAILED:
        failed = fault.disarm()
        thing.close()
        return failed
    return fault.disarm()


def failures_of_making(fault, make):
    for nth in range(1, MOST):
        thing, failed = made(fault, nth, make)
        if thing is not None:
            thing.close()
        if not failed:
            if thing is None:
                sys.exit("the verb fails without a cause")
            return nth - 1
    sys.exit(f"after {MOST} failures the verb has more allocations")


def failures_of_destroying(fault, make):
    return next(nth - 1 for nth in itertools.count(1) if not closed(fault, nth, make()))


def main():
    for name, attributes in ATTRIBUTES.items():
        for attribute, value in attributes.items():
            (DEBUGFS / name / attribute).write_text(value)
    fault = Fault()
    for name, make in Verbs(sys.argv[1]).table.items():
        make().close()      # the first call loads modules and fills caches
        print(failures_of_making(fault, make), failures_of_destroying(fault, make), name, flush=True)


if __name__ == "__main__":
    main()
