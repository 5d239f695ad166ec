# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the tables of on-demand regions: they are made for used pages, and freed with the pages.

usage: python3 odp_tables.py DEVICE FILE

FILE is the driver's odp_tables in debugfs. Memory that the process gives back needs no tables, and works again later.
An implicit region has no tables for addresses without pages, even if the process prefetches there.
"""
import ctypes
import mmap
import pathlib
import sys

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.wr import SGE

TABLE_BYTES = 512 * 4096
TABLES = 16
BYTES = TABLES * TABLE_BYTES


def check_implicit(pd, tables):
    memory = mmap.mmap(-1, BYTES + TABLE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    address += -address % TABLE_BYTES       # a table of an implicit region begins there
    before = tables()
    region = MR(pd, 0, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND, implicit=True)

    def prefetch(advice, at=address):
        pd.advise_mr(advice, e._IBV_ADVISE_MR_FLAG_FLUSH, [SGE(at, BYTES, region.lkey)])

    prefetch(e._IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    assert tables() == before, (before, tables())
    try:
        prefetch(e._IBV_ADVISE_MR_ADVICE_PREFETCH, at=TABLE_BYTES)  # no memory lies there
    except PyverbsRDMAError:
        pass
    else:
        raise AssertionError("a prefetch of no memory succeeds")
    assert tables() == before, (before, tables())
    prefetch(e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE)
    assert tables() == before + TABLES, (before, tables())
    prefetch(e._IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    assert tables() == before + TABLES, (before, tables())
    region.close()
    assert tables() == before, (before, tables())


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
    check_implicit(pd, tables)
    print("fine")


main(sys.argv[1], sys.argv[2])
