# SPDX-License-Identifier: GPL-2.0-or-later
"""An agent of libibumad: sends MADs from QP1 of a port, and receives those of its class."""
import ctypes
import struct
import sys

MAD, LONGEST = 256, 1 << 20             # bytes of a MAD; maximum bytes of a message that the kernel has reassembled
HEADER = struct.Struct(">BBBBHHQHHI")   # bytes of a MAD's header
SUBN_ADM, SA_VERSION = 3, 2
QP1, QP1_KEY = 1, 0x80010000

umad = ctypes.CDLL("libibumad.so.3", use_errno=True)
umad.umad_size.restype = ctypes.c_size_t


class Agent:
    def __init__(self, device, port, mgmt_class, class_version, rmpp=0, methods=()):
        """rmpp: 1 if the kernel does RMPP. methods: those of requests that the agent receives."""
        self.fd = umad.umad_open_port(device.encode(), port)
        mask = (ctypes.c_long * 2)(sum(1 << method for method in methods), 0) if methods else None
        self.id = umad.umad_register(self.fd, mgmt_class, class_version, rmpp, mask)
        if self.fd < 0 or self.id < 0:
            sys.exit(f"port {port} has no agent of class {mgmt_class:#x}: {self.fd} {self.id}. Another program or a "
                     "module of the kernel may have it")
        self.head = umad.umad_size()
        self.buffer = ctypes.create_string_buffer(self.head + LONGEST)

    def send(self, dlid, mad, timeout_ms=0, retries=0):
        """timeout_ms: for the answer, 0 if there is none."""
        umad.umad_set_addr(self.buffer, dlid, QP1, 0, QP1_KEY)
        umad.umad_set_pkey(self.buffer, 0)
        ctypes.memmove(ctypes.addressof(self.buffer) + self.head, mad.ljust(MAD, b"\0"), MAD)
        if umad.umad_send(self.fd, self.id, self.buffer, MAD, timeout_ms, retries) < 0:
            sys.exit(f"umad_send: errno {ctypes.get_errno()}")

    def receive(self, timeout_ms):
        """The next MAD; None if there is none, or if it is a request of this agent that got no answer."""
        length = ctypes.c_int(LONGEST)
        if umad.umad_recv(self.fd, self.buffer, ctypes.byref(length), timeout_ms) < 0 or umad.umad_status(self.buffer):
            return None
        return ctypes.string_at(ctypes.addressof(self.buffer) + self.head, MAD)
