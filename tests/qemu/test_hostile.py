# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest kernel that aims the device at itself: interrupt messages, DMA, resets and unplugging in mid-work."""
import contextlib
import pathlib
import signal
import struct
import subprocess
import time

import pytest

import driver
from driver import Driver
from qtest import BUILD, Qtest

SLOT = 4
DEVICE = f"pib-hca,addr={SLOT}"
SLTCTL_POWER_OFF = 0x0700  # power controller and power indicator off (PCIe 7.5.3.10)
PORT_WINDOW = 0xC0000000
# Native hot plug, which a guest can also use to switch off a slot by itself.
HOT_PLUG = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
            "-device", "pcie-root-port,id=plug,chassis=1,addr=5")


def eventually(done):
    for _ in range(6000):
        if done():
            return True
        time.sleep(0.01)
    return False


@contextlib.contextmanager
def switch(folder):
    """A pib-switch; yields its process."""
    process = subprocess.Popen([BUILD / "fabric-switch" / "pib-switch", "--listen", f"unix:{folder}/fabric",
                                "--control", f"{folder}/control", "--log-level", "off"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def aim(hca, vector, address, data):
    """Points an MSI-X vector at any address, and lets it through."""
    for offset, value in ((0, address), (4, address >> 32), (8, data), (12, 0)):
        hca.write(4, 16 * vector + offset, value)
    msix = hca.capability(0x11)
    hca.config_write(msix + 2, 0x8000, 2)


def behind_root_port(qtest):
    """The hot-plugged device on bus 1, its BARs in the root port's window."""
    port = qtest.pci(5)
    port.config_write(0x18, 0x00010100)  # bus numbers: primary 0, secondary and subordinate 1
    port.config_write(0x20, (PORT_WINDOW + 0x3F00000 & 0xFFF00000) | PORT_WINDOW >> 16)
    port.config_write(0x04, 0x6, 2)
    return port, qtest.pci(0, bus=1).map_bars(PORT_WINDOW)


# ---------------------------------------------------------------- interrupts that come back

def fire_by_register(hca, device):
    hca.write(0, driver.REG_TEST_IRQ, 0)


def fire_by_command(hca, device):
    device.arm()
    device.post(driver.CMD_NOP)


@pytest.mark.parametrize("fire", [fire_by_register, fire_by_command])
@pytest.mark.parametrize("target", ["reset", "test-irq", "function-level-reset", "power-off"])
def test_an_interrupt_message_that_acts_on_the_device(fire, target):
    """T21 and its like: a message is a DMA write, and it comes while the device is at work."""
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
        # A message to our own registers is refused while they are at work.
        assert device.status() == driver.ENABLED
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK


def test_two_devices_that_ring_each_other():
    with Qtest("-device", "pib-hca,addr=4", "-device", "pib-hca,addr=5") as qtest:
        first, second = qtest.pci(4).map_bars(), qtest.pci(5).map_bars(0xD0000000)
        aim(first, 0, second.bars[0] + driver.REG_TEST_IRQ, 0)
        aim(second, 0, first.bars[0] + driver.REG_TEST_IRQ, 0)
        for _ in range(100):
            first.write(0, driver.REG_TEST_IRQ, 0)
        for hca in (first, second):
            assert Driver(hca).enable().command(driver.CMD_NOP) == driver.STATUS_OK


@pytest.mark.parametrize("target", ["reset", "function-level-reset", "power-off"])
def test_an_interrupt_for_a_lost_link_that_acts_on_the_device(tmp_path, target):
    """The same from the main loop, which no MMIO dispatch guards."""
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
            assert eventually(lambda: 0x09 in device.events()[-1:])
        else:
            assert eventually(lambda: hca.config_read(0x10) & ~0xF == 0), "no reset"
            hca.map_bars(PORT_WINDOW)
            assert device.status() == 0
            device.enable()
        assert device.status() == driver.ENABLED
        assert device.command(driver.CMD_NOP) == driver.STATUS_OK
