# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks the subnet administrator for a second GUID of a port, or to take it back (GUIDInfoRecord).

usage: python3 alias_guid.py DEVICE PORT set|delete

The subnet manager chooses the GUID and writes it to entry 1 of the port's GUID table.
"""
import ctypes
import struct
import sys

from pyverbs.device import Context

SUBN_ADM, VERSION = 3, 2
METHODS = {"set": (0x02, 0x81), "delete": (0x15, 0x95)}     # method of the request, method of the answer
GUID_INFO_RECORD = 0x30
LID, BLOCK, ENTRY_1 = 1 << 0, 1 << 1, 1 << 5    # bits of the component mask
QP1, QP1_KEY = 1, 0x80010000
MAD, HEADER, RMPP, SA = 256, struct.Struct(">BBBBHHQHHI"), 12, struct.Struct(">QHHQ")
PATIENCE_MS = 60_000

umad = ctypes.CDLL("libibumad.so.3")
umad.umad_get_mad.restype = ctypes.c_void_p
umad.umad_size.restype = ctypes.c_size_t


def request(method, lid):
    head = HEADER.pack(1, SUBN_ADM, VERSION, method, 0, 0, 0x5678, GUID_INFO_RECORD, 0, 0)
    record = struct.pack(">HBBI", lid, 0, 0, 0)     # with GUIDs of 0
    return (head + bytes(RMPP) + SA.pack(0, 0, 0, LID | BLOCK | ENTRY_1) + record).ljust(MAD, b"\0")


def ask(device, number, mad, manager):
    """Sends the MAD from a port to the subnet administrator at the LID `manager`; returns its answer."""
    fd = umad.umad_open_port(device.encode(), number)
    agent = umad.umad_register(fd, SUBN_ADM, VERSION, 0, None)
    if fd < 0 or agent < 0:
        sys.exit(f"no agent: {fd} {agent}")
    buffer, length = ctypes.create_string_buffer(umad.umad_size() + MAD), ctypes.c_int(MAD)
    ctypes.memmove(umad.umad_get_mad(buffer), mad, MAD)
    umad.umad_set_addr(buffer, manager, QP1, 0, QP1_KEY)
    umad.umad_set_pkey(buffer, 0)
    if umad.umad_send(fd, agent, buffer, MAD, PATIENCE_MS, 0):
        sys.exit("umad_send")
    if umad.umad_recv(fd, buffer, ctypes.byref(length), PATIENCE_MS) < 0 or umad.umad_status(buffer):
        sys.exit(f"no answer: {umad.umad_status(buffer)}")
    return ctypes.string_at(umad.umad_get_mad(buffer), MAD)


def main():
    device, number = sys.argv[1], int(sys.argv[2])
    asks, answers = METHODS[sys.argv[3]]
    port = Context(name=device).query_port(number)
    answer = HEADER.unpack_from(ask(device, number, request(asks, port.lid), port.sm_lid))
    method, status = answer[3], answer[4]
    if (method, status) != (answers, 0):
        sys.exit(f"method {method:#x}, status {status:#x}")


if __name__ == "__main__":
    main()
