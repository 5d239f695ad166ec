# SPDX-License-Identifier: GPL-2.0-or-later
"""An RC queue pair that is its own peer, so that one device without a guest moves data. See docs/device-spec.md."""
import struct

import driver
from driver import Driver, pages

CMD_ALLOC_PD = 0x12
CMD_MODIFY_QP = 0x51
UAR_SEND = 0x00
ACCESS_ALL = 0xF
LOG_CQ, LOG_SQ, LOG_RQ, LOG_SQ_STRIDE, LOG_RQ_STRIDE = 12, 10, 4, 6, 5
SQ_OFFSET, RQ_OFFSET = 4096, 4096 + (1 << LOG_SQ + LOG_SQ_STRIDE)
QP_PAGES, CQ_PAGES = 18, 65
QP_RC, WQE_RDMA_WRITE, SIGNALED = 2, 0x02, 1
WC_SUCCESS, WC_LOC_PROT_ERR, WC_WR_FLUSH_ERR, WC_REM_ACCESS_ERR = 0, 4, 5, 10

QPS_INIT, QPS_RTR, QPS_RTS = 1, 2, 3
ATTR_STATE, ATTR_ACCESS, ATTR_PKEY, ATTR_PORT, ATTR_AV, ATTR_MTU = 1, 1 << 3, 1 << 4, 1 << 5, 1 << 7, 1 << 8
ATTR_TIMEOUT, ATTR_RETRY, ATTR_RNR_RETRY, ATTR_RQ_PSN = 1 << 9, 1 << 10, 1 << 11, 1 << 12
ATTR_RD_ATOMIC, ATTR_MIN_RNR, ATTR_SQ_PSN, ATTR_DEST_RD_ATOMIC, ATTR_DEST_QPN = (
    1 << 13, 1 << 15, 1 << 16, 1 << 17, 1 << 20)


class Loopback(Driver):
    """A driver whose QP can write from the driver's memory to itself, once the port is Active."""

    def create(self, cq=None, qp=None):
        """cq, qp: addresses of the queues' memory; None: new pages."""
        self.create_async_eq()
        self.cq, self.qp = cq or self.take(CQ_PAGES), qp or self.take(QP_PAGES)
        assert self.command(CMD_ALLOC_PD) == 0
        self.pd = self.result
        assert self.command(driver.CMD_CREATE_CQ, pages(self.cq, CQ_PAGES) +
                            struct.pack("<IIB7x", self.eqn, 0, LOG_CQ)) == 0
        self.cqn = self.result
        assert self.command(driver.CMD_CREATE_QP, pages(self.qp, QP_PAGES) + struct.pack(
            "<8I6B10x", self.pd, self.cqn, self.cqn, 0, SQ_OFFSET, RQ_OFFSET, 0, 0,
            QP_RC, 0, LOG_SQ, LOG_RQ, LOG_SQ_STRIDE, LOG_RQ_STRIDE)) == 0
        self.qpn = self.result
        self.producer = 0
        return self

    def take(self, count):
        """The address of new pages, zeroed."""
        address, self.free = self.free, self.free + 4096 * count
        self.hca.qtest.command("memset", hex(address), count * 4096, 0)
        return address

    def region(self, address, length, access=ACCESS_ALL):
        """Makes a region whose virtual addresses are its bus addresses; returns its key."""
        body = struct.pack("<IIQQ", self.pd, access, address, length)
        status = self.command(driver.CMD_CREATE_MR, body + pages(address, -(-length // 4096)) +
                              struct.pack("<IBBxx", 0, 7, 0))
        assert status == 0, f"CREATE_MR: status {status}"
        return self.result

    def activate(self):
        self.set_port(driver.PORT_ARMED)
        self.set_port(driver.PORT_ACTIVE)
        assert self.port_state() == driver.PORT_ACTIVE

    def connect(self, timeout=14):
        self._modify(QPS_INIT, ATTR_PORT | ATTR_PKEY | ATTR_ACCESS, timeout)
        self._modify(QPS_RTR, ATTR_AV | ATTR_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN |
                     ATTR_DEST_RD_ATOMIC | ATTR_MIN_RNR, timeout)
        self._modify(QPS_RTS, ATTR_TIMEOUT | ATTR_RETRY | ATTR_RNR_RETRY | ATTR_SQ_PSN |
                     ATTR_RD_ATOMIC, timeout)
        return self

    def _modify(self, state, mask, timeout):
        mtu = self.port_info()[36] >> 4  # NeighborMTU
        address_vector = struct.pack("<HBB28x", 1, 0, 0)
        body = struct.pack("<IBBBBIIIIIHH", mask | ATTR_STATE, state, 0, mtu, 0, 0, 0, 0, self.qpn,
                           ACCESS_ALL, 0, 0) + address_vector + bytes(32)
        body += struct.pack("<11Bx8x", 1, 0, timeout, 0, 7, 7, 1, 4, 4, 0, 0)
        assert self.command(CMD_MODIFY_QP, body, obj=self.qpn) == 0

    def post_write(self, source, target, length):
        """Source and target are (address, key)."""
        at = self.qp + SQ_OFFSET + (self.producer % (1 << LOG_SQ) << LOG_SQ_STRIDE)
        wqe = struct.pack("<BBBB4xI4x", WQE_RDMA_WRITE, SIGNALED, 1, 0, 0)
        wqe += struct.pack("<QI4x", *target) + struct.pack("<QII", source[0], length, source[1])
        self.hca.qtest.write_memory(at, wqe)
        self.producer += 1

    def ring(self):
        self.hca.qtest.write(self.qp, self.producer, 4)
        self.hca.write(2, UAR_SEND, self.qpn)

    def statuses(self):
        """Statuses of all completions since the CQ's creation; the CQ must not have wrapped."""
        ring = self.hca.qtest.read_memory(self.cq + 64, 64 << LOG_CQ)
        return [ring[at + 25] for at in range(0, len(ring), 64) if ring[at + 63] & 1]
