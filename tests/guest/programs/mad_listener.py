# SPDX-License-Identifier: GPL-2.0-or-later
"""An agent of the subnet administration's class for which the kernel does RMPP, as for saquery.

usage: python3 mad_listener.py DEVICE SM_LID

Queries the SA's ClassPortInfo and prints the upper half of the transaction ID with which the kernel sent the query:
MADs with it belong to this agent. Then reads MADs until its standard input ends, and prints their number. """
import ctypes
import struct
import sys
import threading

GSI_QKEY = 0x80010000
SUBN_ADM, CLASS_VERSION, KERNEL_RMPP = 3, 2, 1
GET, CLASS_PORT_INFO = 1, 1
HEADER = struct.Struct(">BBBBHHQHHI")   # bytes of a MAD
TIMEOUT_MS, RETRIES, LONGEST = 20000, 10, 1 << 20


class Agent:
    def __init__(self, device):
        self.umad = ctypes.CDLL("libibumad.so.3", use_errno=True)
        self.umad.umad_init()
        self.port = self.umad.umad_open_port(device.encode(), 1)
        self.agent = self.umad.umad_register(self.port, SUBN_ADM, CLASS_VERSION, KERNEL_RMPP, None)
        if self.agent < 0:
            sys.exit(f"no agent: {self.agent}")
        self.head = self.umad.umad_size()
        self.buffer = ctypes.create_string_buffer(self.head + LONGEST)

    def ask(self, lid):
        mad = HEADER.pack(1, SUBN_ADM, CLASS_VERSION, GET, 0, 0, 1, CLASS_PORT_INFO, 0, 0).ljust(256, b"\0")
        self.umad.umad_set_addr(self.buffer, lid, 1, 0, GSI_QKEY)
        ctypes.memmove(ctypes.addressof(self.buffer) + self.head, mad, len(mad))
        if self.umad.umad_send(self.port, self.agent, self.buffer, len(mad), TIMEOUT_MS, RETRIES) < 0:
            sys.exit(f"cannot send: errno {ctypes.get_errno()}")

    def receive(self, timeout_ms):
        """The header of the next MAD; None if there is none."""
        length = ctypes.c_int(LONGEST)
        if self.umad.umad_recv(self.port, self.buffer, ctypes.byref(length), timeout_ms) < 0:
            return None
        return HEADER.unpack_from(self.buffer, self.head)


def main():
    agent = Agent(sys.argv[1])
    agent.ask(int(sys.argv[2]))
    answer = agent.receive(RETRIES * TIMEOUT_MS)
    if answer is None:
        sys.exit("the SA says nothing")
    print(answer[6] >> 32, flush=True)
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    heard = 0
    while not ends.is_set():
        heard += agent.receive(100) is not None
    print(f"heard {heard}")


main()
