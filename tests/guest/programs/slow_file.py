# SPDX-License-Identifier: GPL-2.0-or-later
"""A file system with one file, /FOLDER/slow, whose content arrives late.

usage: python3 slow_file.py FOLDER

Speaks the kernel's FUSE protocol itself. Prints "reading" when the file is read, and answers the
read when a line arrives on standard input. Ends when the file system is unmounted.
"""
import ctypes
import os
import stat
import struct
import sys

LOOKUP, GETATTR, OPEN, READ, FORGET, BATCH_FORGET, INIT = 1, 3, 14, 15, 2, 42, 26
BYTES = 65536
CONTENT = b"late" * (BYTES // 4)
ROOT, FILE = 1, 2
ENOSYS, ENOENT = 38, 2


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    size = 0 if node == ROOT else BYTES
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def read(body):
    offset, size = struct.unpack_from("<QI", body, 8)
    print("reading", flush=True)
    sys.stdin.readline()
    return CONTENT[offset:offset + size]


def answer(opcode, node, body):
    """The body of an answer, or an error number."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 8, 6, 4096, 1, 16, 0, *[0] * 8)
    if opcode == LOOKUP:
        found = body.rstrip(b"\0") == b"slow"
        return struct.pack("<4Q2I", FILE, 0, 9999, 9999, 0, 0) + attributes(FILE) if found else ENOENT
    if opcode == GETATTR:
        return struct.pack("<Q2I", 9999, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 0, 0, 0)
    return read(body) if opcode == READ else ENOSYS


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:     # unmounted
            return
        _, opcode, unique, node = struct.unpack_from("<2I2Q", request)
        if opcode in (FORGET, BATCH_FORGET):
            continue
        said = answer(opcode, node, request[40:])
        error, body = (-said, b"") if isinstance(said, int) else (0, said)
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def main(folder):
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"slow", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    print("mounted", flush=True)
    serve(device)


main(sys.argv[1])
