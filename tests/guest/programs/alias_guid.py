# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks the subnet administrator for a second GUID of a port, or to take it back (GUIDInfoRecord).

usage: python3 alias_guid.py DEVICE PORT set|delete

The subnet manager chooses the GUID and writes it to entry 1 of the port's GUID table.
"""
import struct
import sys

from pyverbs.device import Context

from mads import HEADER, SA_VERSION, SUBN_ADM, Agent

METHODS = {"set": (0x02, 0x81), "delete": (0x15, 0x95)}     # method of the request, method of the answer
GUID_INFO_RECORD = 0x30
LID, BLOCK, ENTRY_1 = 1 << 0, 1 << 1, 1 << 5    # bits of the component mask
RMPP, SA = 12, struct.Struct(">QHHQ")
PATIENCE_MS = 60_000


def request(method, lid):
    head = HEADER.pack(1, SUBN_ADM, SA_VERSION, method, 0, 0, 0x5678, GUID_INFO_RECORD, 0, 0)
    record = struct.pack(">HBBI", lid, 0, 0, 0)     # with GUIDs of 0
    return head + bytes(RMPP) + SA.pack(0, 0, 0, LID | BLOCK | ENTRY_1) + record


def main():
    device, number = sys.argv[1], int(sys.argv[2])
    asks, answers = METHODS[sys.argv[3]]
    port = Context(name=device).query_port(number)
    agent = Agent(device, number, SUBN_ADM, SA_VERSION)
    agent.send(port.sm_lid, request(asks, port.lid), PATIENCE_MS)
    answer = agent.receive(PATIENCE_MS)
    if answer is None:
        sys.exit("the subnet administrator does not answer")
    method, status = HEADER.unpack_from(answer)[3:5]
    if (method, status) != (answers, 0):
        sys.exit(f"method {method:#x}, status {status:#x}")


if __name__ == "__main__":
    main()
