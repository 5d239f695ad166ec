# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in a guest for ./pib bench: measures how fast connections and memory regions are created. Prints one JSON
object.

usage: python3 - DEVICE GID_INDEX (-1: paths by LID)"""
import ctypes
import json
import os
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

SECONDS = 0.5                   # duration of one figure's measurement
CHUNK = 1 << 20
SIZES = (4096, 2 << 20, 1 << 30)
READ_WRITE, SHARED_FIXED, ANONYMOUS_NORESERVE = 3, 0x11, 0x4022
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


class Verbs:
    def __init__(self, device, gid_index):
        self.context = Context(name=device)
        self.port = self.context.query_port(1)
        self.pd, self.cq = PD(self.context), CQ(self.context, 16)
        self.gid_index = gid_index

    def path(self):
        """The address vector of a path from this port to itself."""
        if self.gid_index < 0:
            return AHAttr(dlid=self.port.lid, port_num=1)
        route = GlobalRoute(dgid=self.context.query_gid(1, self.gid_index), sgid_index=self.gid_index)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def connect(self):
        """Creates a QP, takes it through INIT and RTR to RTS, and destroys it."""
        qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(16, 16, 1, 1)))
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.path_mtu, attr.dest_qp_num, attr.ah_attr = self.port.active_mtu, qp.qp_num, self.path()
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        qp.to_rts(attr)
        qp.close()


def connections(verbs):
    """Connections created per second."""
    verbs.connect()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        verbs.connect()
        count += 1
    return count / (time.perf_counter() - start)


def region(size):
    """Address of a range that maps one chunk of memory repeatedly, so that the result depends neither on accidentally
    contiguous pages nor on the kernel's work for new pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    file = os.memfd_create("region")
    os.ftruncate(file, CHUNK)
    span = (size + CHUNK - 1) // CHUNK * CHUNK
    base = libc.mmap(None, span, READ_WRITE, ANONYMOUS_NORESERVE, -1, 0)
    for at in range(base, base + span, CHUNK):
        if libc.mmap(at, CHUNK, READ_WRITE, SHARED_FIXED, file, 0) != at:
            raise OSError(ctypes.get_errno(), "mmap")
    ctypes.memset(base, 1, size)
    os.close(file)
    return base


def registration(verbs, size):
    """(microseconds to register this many bytes, microseconds to deregister them)"""
    base, count, making, ending = region(size), 0, 0.0, 0.0
    while making + ending < SECONDS or count < 2:
        start = time.perf_counter()
        mr = MR(verbs.pd, size, ACCESS, address=base)
        made = time.perf_counter()
        mr.close()
        making, ending, count = making + made - start, ending + time.perf_counter() - made, count + 1
    return making / count * 1e6, ending / count * 1e6


def main():
    verbs = Verbs(sys.argv[1], int(sys.argv[2]))
    out = {"connections": connections(verbs)}
    for size in SIZES:
        out[f"mr_{size}"], out[f"unmr_{size}"] = registration(verbs, size)
    print(json.dumps(out))


main()
