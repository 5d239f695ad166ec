# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the tables of an on-demand region: they are made for used pages, and freed with the pages.

usage: python3 odp_tables.py DEVICE FILE

FILE is the driver's odp_tables in debugfs. Memory that the process gives back needs no tables, and works again later.
"""
import ctypes
import mmap
import pathlib
import sys

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.wr import SGE

TABLE_BYTES = 512 * 4096
TABLES = 16
BYTES = TABLES * TABLE_BYTES


def main(device, file):
    def tables():
        return int(pathlib.Path(file).read_text())

    memory = mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)    # a collapse of pages would free tables, too
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pd = PD(Context(name=device))
    before = tables()
    region = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND, address=address)
    for _ in range(3):
        pd.advise_mr(e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, e._IBV_ADVISE_MR_FLAG_FLUSH,
                     [SGE(address, BYTES, region.lkey)])
        assert tables() == before + TABLES, (before, tables())
        memory.madvise(mmap.MADV_DONTNEED)
        assert tables() == before, (before, tables())
    region.close()
    assert tables() == before, (before, tables())
    print("fine")


main(sys.argv[1], sys.argv[2])
