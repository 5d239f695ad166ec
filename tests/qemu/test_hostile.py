# SPDX-License-Identifier: GPL-2.0-or-later
"""A hostile guest kernel: interrupt messages to the device itself, DMA to addresses that are not RAM, resets and
unplugging during work."""
import signal
import struct
import time

import pytest

import driver
import loopback
from driver import Driver
from loopback import Loopback
from qtest import Qtest
from support import (HOT_PLUG, PORT_WINDOW, SIZE, SLTCTL_POWER_OFF, TARGET, behind_root_port, eventually,
                     start_transfer, switch)


def aim(hca, vector, address, data):
    """Sets an MSI-X vector to any address, and unmasks it."""
    for offset, value in ((0, address), (4, address >> 32), (8, data), (12, 0)):
        hca.write(4, 16 * vector + offset, value)
    msix = hca.capability(0x11)
    hca.config_write(msix + 2, 0x8000, 2)


# ---------------------------------------------------------------- interrupts that come back

def fire_by_register(hca, device):
    hca.write(0, driver.REG_TEST_IRQ, 0)


def fire_by_command(hca, device):
    device.arm()
    device.post(driver.CMD_NOP)


@pytest.mark.parametrize("fire", [fire_by_register, fire_by_command])
@pytest.mark.parametrize("target", ["reset", "test-irq", "function-level-reset", "power-off"])
def test_an_interrupt_message_to_the_device_itself_is_harmless(fire, target):
    """T21 and similar: a message is a DMA write, which happens while the device works."""
    with Qtest(*HOT_PLUG, "-device", "pib-hca,bus=plug,id=hot") as qtest:
        port, hca = behind_root_port(qtest)
        device = Driver(hca).enable().create_async_eq()
        express, slot = hca.capability(0x10), port.capability(0x10)
        address, data = {
            "reset": (hca.bars[0] + driver.REG_CONTROL, 2),
            "test-irq": (hca.bars[0] + driver.REG_TEST_IRQ, 0),
            "function-level-reset": (hca.config + express + 8, 0x8000),
            "power-off": (port.config + slot + 0x18, SLTCTL_POWER_OFF),
        }[target]
        aim(hca, 0, address, data)
        fire(hca, device)
        if target == "power-off":
            assert hca.config_read(0) == 0xFFFFFFFF
            assert "hot" not in str(qtest.qmp("qom-list", path="/machine/peripheral"))
            return
        if target == "function-level-reset":
            hca.map_bars(PORT_WINDOW)
            assert device.status() == 0
            device.enable()
        # The device refuses a message to its own registers while they are in use.
        assert device.status() == driver.ENABLED
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK


def test_two_devices_whose_interrupts_cause_each_other_keep_working():
    with Qtest("-device", "pib-hca,addr=4", "-device", "pib-hca,addr=5") as qtest:
        first, second = qtest.pci(4).map_bars(), qtest.pci(5).map_bars(0xD0000000)
        aim(first, 0, second.bars[0] + driver.REG_TEST_IRQ, 0)
        aim(second, 0, first.bars[0] + driver.REG_TEST_IRQ, 0)
        for _ in range(100):
            first.write(0, driver.REG_TEST_IRQ, 0)
        for hca in (first, second):
            assert Driver(hca).enable().command(driver.CMD_NOP) == driver.STATUS_OK


@pytest.mark.parametrize("target", ["reset", "function-level-reset", "power-off"])
def test_an_interrupt_for_a_lost_link_may_act_on_the_device(tmp_path, target):
    """The main loop raises the interrupt, so QEMU's dispatch of MMIO does not guard the device against re-entry."""
    with switch(tmp_path) as fabric, \
            Qtest(*HOT_PLUG, "-device", f"pib-hca,bus=plug,id=hot,fabric=unix:{tmp_path}/fabric") as qtest:
        port, hca = behind_root_port(qtest)
        device = Driver(hca).enable().create_async_eq()
        assert eventually(lambda: device.port_state() == driver.PORT_INIT)
        device.set_port(driver.PORT_ARMED)
        device.set_port(driver.PORT_ACTIVE)
        assert device.port_state() == driver.PORT_ACTIVE
        express, slot = hca.capability(0x10), port.capability(0x10)
        address, data = {
            "reset": (hca.bars[0] + driver.REG_CONTROL, 2),
            "function-level-reset": (hca.config + express + 8, 0x8000),
            "power-off": (port.config + slot + 0x18, SLTCTL_POWER_OFF),
        }[target]
        aim(hca, 0, address, data)
        device.arm(len(device.events()))
        fabric.send_signal(signal.SIGKILL)
        if target == "power-off":
            assert eventually(lambda: hca.config_read(0) == 0xFFFFFFFF)
            return
        if target == "reset":
            assert eventually(lambda: driver.EVENT_PORT in device.events()[-1:])
        else:
            assert eventually(lambda: hca.config_read(0x10) & ~0xF == 0), "no reset"
            hca.map_bars(PORT_WINDOW)
            assert device.status() == 0
            device.enable()
        assert device.status() == driver.ENABLED
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK


# ---------------------------------------------------------------- addresses that are not RAM

RAM_END = 0x10000000
CMD_QUERY_DEVICE, QUERY_DEVICE_LENGTH = 0x01, 240
REG_SCRATCH = 0x01C
HOLES = {
    "own registers": 0xC0000000,
    "own doorbells": 0xC1000000,
    "own MSI-X table": 0xC2000000,
    "another's registers": 0xD0000000,
    "another's doorbells": 0xD1000000,
    "configuration space": 0xB0000000,
    "nothing": 0xE0000000,
    "beyond RAM": RAM_END,
    "local APIC": 0xFEE00000,
    "far away": 1 << 62,
}


@pytest.mark.parametrize("address", HOLES.values(), ids=HOLES.keys())
def test_addresses_that_are_not_ram_are_refused(address):
    """T12, T21: commands with an address outside RAM fail, and the device accesses no registers at that address."""
    with Qtest("-device", "pib-hca,addr=4", "-device", "pib-hca,addr=5") as qtest:
        hca, other = qtest.pci(4).map_bars(), qtest.pci(5).map_bars(0xD0000000)
        device = Driver(hca).enable()
        for function in (hca, other):
            function.write(0, REG_SCRATCH, 0x5EA1ED)
        table = device.free
        eq = struct.pack("<IBB10x", 0, 7, 0)

        def create_eq(pages):
            return device.command(driver.CMD_CREATE_EQ, pages + eq)

        assert create_eq(driver.pages(address)) == driver.STATUS_BAD_MEMORY
        assert create_eq(driver.pages(address, 1, levels=1)) == driver.STATUS_BAD_MEMORY
        qtest.write_memory(table, struct.pack("<Q", address))
        assert create_eq(driver.pages(table, 1, levels=1)) == driver.STATUS_BAD_MEMORY
        assert create_eq(driver.pages(table, 1, levels=2)) == driver.STATUS_BAD_MEMORY
        assert device.command(loopback.CMD_ALLOC_PD) == driver.STATUS_OK
        region = struct.pack("<IIQQ", device.result, 0xF, 0, 4096) + driver.pages(address)
        assert device.command(driver.CMD_CREATE_MR,
                              region + struct.pack("<IBBxx", 0, 7, 0)) == driver.STATUS_BAD_MEMORY
        # The structures of commands, and one that only begins in RAM.
        for start in (address, address - 8 if address == RAM_END else address + 4096 - 8):
            device.input, good_input = start, device.input
            assert device.command_raw(driver.CMD_CREATE_EQ, 32) == driver.STATUS_BAD_MEMORY
            device.input = good_input
            device.output, good_output = start, device.output
            assert device.command(CMD_QUERY_DEVICE, b"", QUERY_DEVICE_LENGTH) == driver.STATUS_BAD_MEMORY
            device.output = good_output
        for function in (hca, other):
            assert function.read(0, REG_SCRATCH) == 0x5EA1ED
        assert create_eq(driver.pages(table)) == driver.STATUS_OK


def test_a_structure_across_the_end_of_the_address_space_is_refused():
    with Qtest("-device", "pib-hca,addr=4") as qtest:
        device = Driver(qtest.pci(4).map_bars()).enable()
        device.output = 2**64 - 8
        assert device.command(CMD_QUERY_DEVICE, b"", QUERY_DEVICE_LENGTH) == driver.STATUS_BAD_MEMORY
        rom = 0xFFFFF000  # the firmware, which is read-only
        device.output = rom
        assert device.command(CMD_QUERY_DEVICE, b"", QUERY_DEVICE_LENGTH) == driver.STATUS_BAD_MEMORY
        assert device.command(driver.CMD_CREATE_EQ, driver.pages(rom) + struct.pack("<IBB10x", 0, 7, 0)) == (
            driver.STATUS_BAD_MEMORY)


# ---------------------------------------------------------------- endings in mid-transfer

def end_by_flr(hca, port):
    hca.config_write(hca.capability(0x10) + 8, 0x8000, 2)


def end_by_register(hca, port):
    hca.write(0, driver.REG_CONTROL, 2)


def end_by_system_reset(hca, port):
    hca.qtest.qmp("system_reset")
    hca.qtest._map_configuration_space()


def end_by_bus_mastering(hca, port):
    hca.config_write(0x04, 0x2, 2)


def end_by_power_state(hca, port):
    hca.config_write(hca.capability(0x01) + 4, 3, 2)


def end_by_secondary_bus_reset(hca, port):
    port.config_write(0x3E, 0x40, 2)
    port.config_write(0x3E, 0, 2)


def end_by_power_off(hca, port):
    port.config_write(port.capability(0x10) + 0x18, SLTCTL_POWER_OFF, 2)


def end_by_stop(hca, port):
    hca.qtest.qmp("stop")


@pytest.mark.parametrize("end", [
    end_by_flr, end_by_register, end_by_system_reset, end_by_bus_mastering, end_by_power_state,
    end_by_secondary_bus_reset, end_by_power_off, end_by_stop], ids=lambda f: f.__name__)
def test_an_end_of_the_device_ends_its_dma(tmp_path, end):
    """T59, T60: a reset, a loss of power or bus mastering, and a stop of the VM each end the device's DMA at once; a
    device that remains then works again."""
    with switch(tmp_path), \
            Qtest(*HOT_PLUG, "-device", f"pib-hca,bus=plug,id=hot,fabric=unix:{tmp_path}/fabric") as qtest:
        port, hca = behind_root_port(qtest)
        device = Loopback(hca).enable()
        start_transfer(device)
        end(hca, port)
        qtest.command("memset", hex(device.cq), loopback.CQ_PAGES * 4096, hex(0xC5))
        qtest.command("memset", hex(TARGET), SIZE, hex(0xC5))
        for _ in range(20):
            time.sleep(0.01)
            qtest.qmp("query-status")  # lets QEMU's main loop run
        assert qtest.read_memory(TARGET, SIZE) == b"\xC5" * SIZE
        assert qtest.read_memory(device.cq, 4096) == b"\xC5" * 4096
        if end is end_by_power_off:
            assert "hot" not in str(qtest.qmp("qom-list", path="/machine/peripheral"))
            return
        if end is end_by_stop:
            qtest.qmp("cont")
            assert eventually(lambda: qtest.read(TARGET, 1) == 0x5A), "the device does not go on"
            return
        if end is end_by_power_state:
            hca.config_write(hca.capability(0x01) + 4, 0, 2)
        port, hca = behind_root_port(qtest)
        hca.write(0, driver.REG_CONTROL, 2)
        again = Loopback(hca).enable()
        start_transfer(again)


# ---------------------------------------------------------------- memory that goes away

SHARED = 0xD0000000  # another device's BAR that is RAM: memory that can be switched off


@pytest.mark.parametrize("what", ["source", "target", "cq", "qp", "eq"])
def test_memory_may_disappear_under_the_device(tmp_path, what):
    """T12, T64: no access uses an old mapping; the queue or QP that uses the memory gets the error."""
    with switch(tmp_path), Qtest("-device", f"pib-hca,addr=4,fabric=unix:{tmp_path}/fabric",
                                 "-object", "memory-backend-ram,id=shared,size=16M",
                                 "-device", "ivshmem-plain,memdev=shared,addr=6") as qtest:
        memory = qtest.pci(6)
        memory.config_write(0x18, SHARED)
        memory.config_write(0x1C, 0)
        memory.config_write(0x04, 0x2, 2)
        device = Loopback(qtest.pci(4).map_bars()).enable()
        if what == "eq":
            device.eq = SHARED
        start_transfer(device, **({} if what == "eq" else {what: SHARED}))
        memory.config_write(0x04, 0, 2)
        if what == "eq":
            assert eventually(lambda: device.rings_fatal())
            assert device.hca.read(0, driver.REG_FATAL_CAUSE) == driver.FATAL_EQ_DMA
        elif what == "cq":
            assert eventually(lambda: driver.EVENT_CQ_ERROR in device.events())
            assert driver.EVENT_QP_FATAL in device.events()
        elif what == "qp":
            # The device continues with copied work requests; the next read of the queue fails.
            device.hca.write(2, loopback.UAR_SEND, device.qpn)
            assert eventually(lambda: driver.EVENT_QP_FATAL in device.events())
        else:
            assert eventually(lambda: loopback.WC_WR_FLUSH_ERR in device.statuses())
            statuses = [s for s in device.statuses() if s != loopback.WC_SUCCESS]
            assert set(statuses[1:]) == {loopback.WC_WR_FLUSH_ERR}
            if what == "source":
                assert statuses[0] == loopback.WC_LOC_PROT_ERR
            else:  # the QP is its own peer: its responder half has ended before its NAK arrives
                assert driver.EVENT_QP_ACCESS_ERROR in device.events()
        if what != "eq":
            assert device.command(driver.CMD_NOP) == driver.STATUS_OK
        device.hca.write(0, driver.REG_CONTROL, 2)
        assert device.enable().command(driver.CMD_NOP) == driver.STATUS_OK
