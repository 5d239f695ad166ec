# SPDX-License-Identifier: GPL-2.0-or-later
"""Fills the ring of a link with SMPs from QP0, which need no credits, while the switch is stopped."""
import contextlib
import ctypes
import itertools
import mmap
import os
import pathlib
import struct
import threading
import time

import driver
from driver import pages
from loopback import ATTR_PKEY, ATTR_SQ_PSN, ATTR_STATE, CMD_ALLOC_PD, CMD_MODIFY_QP, CQ_PAGES, LOG_CQ
from loopback import QPS_INIT, QPS_RTR, QPS_RTS, SIGNALED, UAR_SEND, Loopback
from support import eventually

ATTR_QKEY = 1 << 6
QP_SMI, PRIVILEGED, WQE_SEND = 0, 1 << 1, 0x00
LOG_DEPTH, LOG_STRIDE = 12, 7
SQ_OFFSET = 4096
RQ_OFFSET = SQ_OFFSET + (1 << LOG_DEPTH + LOG_STRIDE)
QP_PAGES = RQ_OFFSET // 4096 + 1
SMP_BYTES = 256
SMPS = 1 << LOG_DEPTH
FITTING = 1000  # more SMPs than a ring has room for

MEMFD = "/memfd:pib-link"  # docs/fabric-protocol.md, "Shared memory"
WAKES = 1024 + 128         # the futex of the connecting side
PRODUCED, CONSUMED = 0, 64  # offsets in the control of the ring to the switch
SYS_FUTEX, FUTEX_WAKE = 202, 1  # x86-64


class Flood(Loopback):
    """A device whose only QP is QP0."""

    def create(self, port=1):
        self.create_async_eq()
        self.cq, self.qp = self.take(CQ_PAGES), self.take(QP_PAGES)
        assert self.command(CMD_ALLOC_PD) == 0
        self.pd = self.result
        assert self.command(driver.CMD_CREATE_CQ, pages(self.cq, CQ_PAGES) +
                            struct.pack("<IIB7x", self.eqn, 0, LOG_CQ)) == 0
        self.cqn = self.result
        assert self.command(driver.CMD_CREATE_QP, pages(self.qp, QP_PAGES) + struct.pack(
            "<8I6B10x", self.pd, self.cqn, self.cqn, 0, SQ_OFFSET, RQ_OFFSET, PRIVILEGED, 0,
            QP_SMI, port, LOG_DEPTH, 4, LOG_STRIDE, 5)) == 0
        self.qpn, self.producer = self.result, 0
        for state, mask in (QPS_INIT, ATTR_PKEY | ATTR_QKEY), (QPS_RTR, 0), (QPS_RTS, ATTR_SQ_PSN):
            body = struct.pack("<IB", mask | ATTR_STATE, state).ljust(116, b"\0")
            assert self.command(CMD_MODIFY_QP, body, obj=self.qpn) == 0
        return self

    def send_all(self, port=1):
        """Sends more SMPs than a ring has room for."""
        smp = self.take(1)
        key = self.region(smp, SMP_BYTES)
        for number in range(SMPS):
            wqe = struct.pack("<BBBB4xI4x", WQE_SEND, SIGNALED, 1, 0, 0)
            wqe += struct.pack("<HBB28x", 2, 0, port) + struct.pack("<IIH6x", 0, 0, 0)
            wqe += struct.pack("<QII", smp, SMP_BYTES, key)
            self.hca.qtest.write_memory(self.qp + SQ_OFFSET + (number << LOG_STRIDE), wqe)
        self.producer = SMPS
        self.hca.qtest.write(self.qp, self.producer, 4)
        self.hca.write(2, UAR_SEND, self.qpn)

    def fill_ring(self, port=1):
        """Sends SMPs until none fits into the ring any more."""
        self.send_all(port)
        assert eventually(lambda: len(self.statuses()) > FITTING)
        assert eventually(self.stands_still) and set(self.statuses()) == {0}
        assert len(self.statuses()) < SMPS, "the ring never was full"

    def stands_still(self):
        before = len(self.statuses())
        time.sleep(0.05)
        return len(self.statuses()) == before

    def all_ports_up(self, count):
        def state(port):
            info = self.mad(driver.METHOD_GET, driver.ATTR_PORT_INFO, port, port=port)
            return info[driver.PORT_INFO_STATE] & 0xF
        return eventually(lambda: all(state(1 + i) == driver.PORT_INIT for i in range(count)))


def empty_rings(fabric):
    """Removes everything from the rings to the switch, without a wake-up."""
    for page in rings_of(fabric):
        page[CONSUMED:CONSUMED + 4] = page[PRODUCED:PRODUCED + 4]


def link_threads_sleep(qtest):
    """Whether all link threads sleep; QEMU must run with -name debug-threads=on."""
    states = [stat.rsplit(")", 1)[1].split()[0] for path in pathlib.Path(f"/proc/{qtest.process.pid}/task").iterdir()
              if "(pib-hca/" in (stat := (path / "stat").read_text(encoding="utf-8"))]
    assert states, "no link has a thread"
    return set(states) == {"S"}


def rings_of(process):
    """Maps the first page of each link's shared memory."""
    folder = f"/proc/{process.pid}/fd"
    for name in os.listdir(folder):
        if os.readlink(f"{folder}/{name}").startswith(MEMFD):
            with open(f"{folder}/{name}", "r+b") as memory:
                yield mmap.mmap(memory.fileno(), 4096)


class Counters:
    """The futexes by which a switch wakes the threads of its devices."""

    def __init__(self, fabric):
        self.words = [ctypes.c_uint32.from_buffer(page, WAKES) for page in rings_of(fabric)]
        assert self.words, "no shared memory"
        self.libc = ctypes.CDLL(None)

    def store(self, value):
        for word in self.words:
            word.value = value

    def wake(self):
        """Returns how many threads were asleep."""
        return sum(self.libc.syscall(SYS_FUTEX, ctypes.byref(word), FUTEX_WAKE, 1, None, None, 0)
                   for word in self.words)

    @contextlib.contextmanager
    def again_and_again(self, act):
        done = threading.Event()

        def loop():
            while not done.wait(0.001):
                act()

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def waking(self):
        """Wakes all threads continuously, as a busy switch does."""
        numbers = itertools.count()

        def act():
            self.store(next(numbers))
            self.wake()
        return self.again_and_again(act)

    def held_back(self):
        """Resets the counters continuously, so that the device's increments are lost."""
        self.store(0)
        return self.again_and_again(lambda: self.store(0))
