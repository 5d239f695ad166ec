# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the mappings of a device's doorbells: core dumps leave them out, and nobody can make them executable.

usage: python3 mappings.py DEVICE
"""
import ctypes
import errno
import mmap
import pathlib
import re
import sys

from pyverbs.device import Context


def mappings():
    """(first address, bytes, flags) of each mapping of a device of verbs."""
    for mapping in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", pathlib.Path("/proc/self/smaps").read_text(encoding="utf-8"),
                            flags=re.MULTILINE)[1:]:
        if "/uverbs" in mapping.splitlines()[0]:
            first, end = (int(at, 16) for at in mapping.split()[0].split("-"))
            yield first, end - first, re.search(r"^VmFlags: (.*)", mapping, re.MULTILINE)[1].split()


context = Context(name=sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
found = list(mappings())
assert found, "no doorbells are mapped"
for address, length, flags in found:
    assert "dd" in flags and "me" not in flags, flags
    refused = libc.mprotect(address, length, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    assert refused == -1 and ctypes.get_errno() == errno.EACCES, (refused, ctypes.get_errno())
print("fine")
