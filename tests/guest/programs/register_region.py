# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the registration of 1 GiB in a guest, as root: ibv_reg_mr as a whole, with the kernel's
pinning of 262144 pages, and the command to the device alone, by the kernel's function tracer.
The memory is one MiB of a file, mapped repeatedly, so that large contiguous memory does not happen to
make the registration faster.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import time

from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "pib_0"
SIZE, CHUNK, ROUNDS = 1 << 30, 1 << 20, 5
READ_WRITE, SHARED_FIXED, ANONYMOUS_NORESERVE = 3, 0x11, 0x4022
REMOTE_ACCESS = 1 | 2 | 4       # local write, remote write, remote read
TRACING = pathlib.Path("/sys/kernel/tracing")


def region():
    """The address of SIZE bytes of address space, all of which map the same CHUNK bytes of memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    file = os.memfd_create("region")
    os.ftruncate(file, CHUNK)
    base = libc.mmap(None, SIZE, READ_WRITE, ANONYMOUS_NORESERVE, -1, 0)
    for at in range(base, base + SIZE, CHUNK):
        assert libc.mmap(at, CHUNK, READ_WRITE, SHARED_FIXED, file, 0) == at
    ctypes.memset(base, 1, SIZE)
    return base


def trace(**settings):
    for name, value in settings.items():
        (TRACING / name).write_text(f"{value}\n")


def main():
    if not (TRACING / "trace").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=True)
    base, pd = region(), PD(Context(name=DEVICE))
    trace(current_tracer="function_graph", set_ftrace_filter="pib_hca_cmd_create")
    for _ in range(ROUNDS):
        trace(trace="", tracing_on=1)
        start = time.monotonic()
        mr = MR(pd, SIZE, REMOTE_ACCESS, address=base)
        took = time.monotonic() - start
        trace(tracing_on=0)
        command = [line for line in (TRACING / "trace").read_text().splitlines() if "pib_hca_cmd_create" in line]
        mr.close()
        traced = command[0].split("|")[0].strip() if command else "not traced"
        print(f"ibv_reg_mr {took * 1e3:.1f} ms; command: {traced}")
    trace(current_tracer="nop", set_ftrace_filter="")


main()
