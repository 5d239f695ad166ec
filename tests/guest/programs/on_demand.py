# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA WRITEs between QPs of one HCA, out of pages that are absent at first.

usage: python3 on_demand.py DEVICE FILE [implicit]

Maps the file read-only. Two connections write its first 64 KiB into memory that is pinned, and so
fault on the same pages at once. The file's mapping is a region with on-demand paging, or part of the
implicit region that is all of the address space. Prints the CRC of what has arrived.
"""
import ctypes
import mmap
import os
import sys
import zlib

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.wr import SGE, SendWR

from connection import End

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


class Writer:
    """A connection, and memory that its WRITE fills."""

    def __init__(self, context, pd):
        self.sender, receiver = (End(context, pd, 1, e.IBV_ACCESS_REMOTE_WRITE) for _ in range(2))
        lids = {1: context.query_port(1).lid}
        self.sender.connect(receiver, lids)
        receiver.connect(self.sender, lids)
        self.receiver = receiver
        self.target = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)

    def write(self, sge):
        request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[sge])
        request.set_wr_rdma(self.target.rkey, self.target.buf)
        self.sender.qp.post_send(request)

    def arrived(self):
        self.sender.wait()
        return zlib.crc32(self.target.read(BYTES, 0))


def main(device, path, implicit):
    context = Context(name=device)
    pd = PD(context)
    writers = [Writer(context, pd) for _ in range(2)]
    address = map_file(path)
    source = region(pd, address, implicit)
    for writer in writers:
        writer.write(SGE(address, BYTES, source.lkey))
    found, = {writer.arrived() for writer in writers}
    print(found)


main(sys.argv[1], sys.argv[2], len(sys.argv) > 3)
