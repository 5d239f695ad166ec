# SPDX-License-Identifier: GPL-2.0-or-later
"""DMA behind a vIOMMU (VT-d, legacy mode): translated by its tables, page by page, and only to RAM."""
import struct

import pytest

import driver
from driver import Driver
from loopback import WC_SUCCESS, Loopback
from qtest import Qtest
from support import TARGET, eventually, start_transfer, switch

IOMMU = 0xFED90000
REG_GCMD, REG_GSTS, REG_ROOT, REG_FSTS, REG_FECTL, REG_FEDATA, REG_FEADDR, REG_IOTLB = (
    0x18, 0x1C, 0x20, 0x34, 0x38, 0x3C, 0x40, 0xF8)
SET_ROOT, ENABLE = 1 << 30, 1 << 31
FAULT_PENDING = 1 << 1  # bit of FSTS
INVALIDATE_ALL = 1 << 63 | 1 << 60
LOCAL_APIC, FAULT_VECTOR = 0xFEE00000, 0x30
ROOT, CONTEXT, TABLES = 0x800000, 0x801000, 0x802000
READ, WRITE, LARGE = 1, 2, 1 << 7
LARGE_PAGE = 2 << 20
FOUR_LEVELS = 2
CMD_QUERY_DEVICE, LENGTH = 0x01, 240
BASE = 0x40000000  # bus address of the memory that Driver uses
REG_SCRATCH = 0x01C
SLOT = 4


class Iommu:
    def __init__(self, qtest):
        self.qtest = qtest
        self.next_table = TABLES
        self.top = self._table()
        devfn = SLOT << 3
        qtest.write_memory(ROOT, struct.pack("<QQ", CONTEXT | 1, 0))
        qtest.write_memory(CONTEXT + 16 * devfn, struct.pack("<QQ", self.top | 1, 1 << 8 | FOUR_LEVELS))
        qtest.write(IOMMU + REG_ROOT, ROOT, 8)
        for command in (SET_ROOT, ENABLE):
            qtest.write(IOMMU + REG_GCMD, command, 4)
            assert qtest.read(IOMMU + REG_GSTS, 4) & command

    def _table(self):
        self.next_table += 4096
        return self.next_table - 4096

    def _entry(self, seen, last):
        """The address of the entry for `seen` in a table of level `last`; makes the tables above that one."""
        table = self.top
        for level in range(3, last, -1):
            entry = table + 8 * (seen >> (12 + 9 * level) & 511)
            table = self.qtest.read(entry, 8) & ~0xFFF
            if table == 0:
                table = self._table()
                self.qtest.write(entry, table | READ | WRITE, 8)
        return table + 8 * (seen >> (12 + 9 * last) & 511)

    def map(self, seen, real, rights=READ | WRITE):
        self.qtest.write(self._entry(seen, 0), real | rights, 8)

    def map_same(self, length):
        """Maps the first `length` bytes to themselves, by large pages."""
        for place in range(0, length, LARGE_PAGE):
            self.qtest.write(self._entry(place, 1), place | READ | WRITE | LARGE, 8)

    def unmap_large(self, seen):
        self.qtest.write(self._entry(seen, 1), 0, 8)
        self.qtest.write(IOMMU + REG_IOTLB, INVALIDATE_ALL, 8)

    def interrupt_at_faults(self):
        self.qtest.write(IOMMU + REG_FEADDR, LOCAL_APIC, 4)
        self.qtest.write(IOMMU + REG_FEDATA, FAULT_VECTOR, 4)
        self.qtest.write(IOMMU + REG_FECTL, 0, 4)


class TranslatedDriver(Driver):
    """A driver whose memory is at `real(address)`; the device uses `address` for it."""

    def __init__(self, hca, iommu):
        super().__init__(hca, BASE)
        self.qtest = hca.qtest
        # Maps every page somewhere else, never two neighbours next to each other.
        self.places = {BASE + 4096 * n: 0x2000000 + 4096 * 3 * (64 - n) for n in range(64)}
        for seen, real in self.places.items():
            iommu.map(seen, real)

    def real(self, address):
        return self.places[address & ~0xFFF] + (address & 0xFFF)

    def run(self, opcode, data=b"", out_length=0):
        slot = self.count % (1 << driver.LOG_DEPTH)
        if data:
            self.qtest.write_memory(self.real(self.input), data)
        entry = struct.pack("<HHIQQII32x", opcode, self.count & 0xFFFF, 0, self.input if data else 0,
                            self.output if out_length else 0, len(data), out_length)
        self.qtest.write_memory(self.real(self.commands) + 64 * slot, entry)
        self.count += 1
        self.hca.write(0, driver.REG_CMDQ_DOORBELL, self.count)
        return self.qtest.read_memory(self.real(self.completions) + 16 * slot, 16)[10]


@pytest.fixture
def parts():
    with Qtest("-device", "intel-iommu,intremap=off", "-device", f"pib-hca,addr={SLOT}") as qtest:
        hca = qtest.pci(SLOT).map_bars()
        iommu = Iommu(qtest)
        device = TranslatedDriver(hca, iommu)
        hca.write(0, driver.REG_CMDQ_BASE, device.commands, 8)
        hca.write(0, driver.REG_CMDQ_CPL_BASE, device.completions, 8)
        hca.write(0, driver.REG_CMDQ_LOG_DEPTH, driver.LOG_DEPTH)
        hca.write(0, driver.REG_CONTROL, 1)
        assert device.status() == driver.ENABLED
        yield device, iommu


def test_dma_goes_through_the_tables(parts):
    device, _ = parts
    assert device.run(driver.CMD_NOP) == driver.STATUS_OK
    assert device.run(CMD_QUERY_DEVICE, b"", LENGTH) == driver.STATUS_OK
    whole = device.qtest.read_memory(device.real(device.output), LENGTH)
    assert whole != bytes(LENGTH)
    # An access across two pages that are far from each other.
    device.output += 4096 - 100
    assert device.run(CMD_QUERY_DEVICE, b"", LENGTH) == driver.STATUS_OK
    assert device.qtest.read_memory(device.real(device.output), 100) == whole[:100]
    assert device.qtest.read_memory(device.real(device.output + 100), LENGTH - 100) == whole[100:]


@pytest.mark.parametrize("what", ["not mapped", "read-only", "registers", "second half"])
def test_accesses_that_the_tables_do_not_permit_are_refused(parts, what):
    """An access is complete or not done, and never reaches a device's registers."""
    device, iommu = parts
    device.hca.write(0, REG_SCRATCH, 0x5EA1ED)
    place = BASE + 0x100000
    if what == "read-only":
        iommu.map(place, 0x3000000, READ)
    elif what == "registers":
        iommu.map(place, device.hca.bars[0])
    elif what == "second half":
        iommu.map(place, 0x3000000)
        iommu.map(place + 4096, device.hca.bars[0])
        device.qtest.command("memset", hex(0x3000000), 4096, hex(0xC5))
        place += 4096 - 100
    device.output = place
    assert device.run(CMD_QUERY_DEVICE, b"", LENGTH) == driver.STATUS_BAD_MEMORY
    if what == "second half":
        assert device.qtest.read_memory(0x3000000, 4096) == b"\xC5" * 4096
    assert device.hca.read(0, REG_SCRATCH) == 0x5EA1ED
    eq = struct.pack("<IBB10x", 0, 9, 0)
    request = driver.pages(place & ~0xFFF, 2) + eq
    assert device.run(driver.CMD_CREATE_EQ, request) == driver.STATUS_BAD_MEMORY
    assert device.run(driver.CMD_NOP) == driver.STATUS_OK


def test_a_page_may_vanish_under_the_thread_of_a_link(tmp_path):
    """The thread of a link in shared memory accesses the page, and the IOMMU raises an interrupt for the fault."""
    with switch(tmp_path), Qtest("-device", "intel-iommu,intremap=off",
                                 "-device", f"pib-hca,addr={SLOT},fabric=unix:{tmp_path}/fabric") as qtest:
        hca = qtest.pci(SLOT).map_bars()
        iommu = Iommu(qtest)
        iommu.map_same(256 << 20)
        iommu.interrupt_at_faults()
        device = Loopback(hca).enable()
        start_transfer(device)
        iommu.unmap_large(TARGET + LARGE_PAGE)
        assert eventually(lambda: qtest.read(IOMMU + REG_FSTS, 4) & FAULT_PENDING)
        assert eventually(lambda: device.statuses()[-1:] not in ([], [WC_SUCCESS]))
        assert driver.EVENT_QP_ACCESS_ERROR in device.events()
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK
