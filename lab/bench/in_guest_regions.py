# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in a guest for ./pib bench: registers many memory regions, and deregisters them. Prints one JSON object with
the mean time of a region in microseconds, for the first EDGE regions and for the last.

usage: python3 - DEVICE"""
import ctypes
import json
import mmap
import sys
import time

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

COUNT, EDGE = 100_000, 1000     # EDGE: number of regions at each end whose time is measured
PAGE, PAGES = 4096, 256         # regions share pages, which the kernel pins once for each
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


def timed(one, numbers):
    """Mean time of one(number) in microseconds, for the first EDGE and for the last EDGE of these numbers."""
    first, middle, last = numbers[:EDGE], numbers[EDGE:-EDGE], numbers[-EDGE:]
    took = []
    for part in (first, middle, last):
        start = time.perf_counter()
        for number in part:
            one(number)
        took.append((time.perf_counter() - start) / max(len(part), 1) * 1e6)
    return took[0], took[2]


def main():
    domain = PD(Context(name=sys.argv[1]))
    memory = mmap.mmap(-1, PAGE * PAGES)
    base, regions = address_of(memory), []
    out = {}
    out["made_first"], out["made_last"] = timed(
        lambda number: regions.append(MR(domain, PAGE, ACCESS, address=base + number % PAGES * PAGE)), range(COUNT))
    if len({region.rkey for region in regions}) != COUNT:
        sys.exit("two regions have the same R_Key")
    out["ended_first"], out["ended_last"] = timed(lambda number: regions[number].close(), range(COUNT))
    print(json.dumps(out))


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


main()
