# SPDX-License-Identifier: GPL-2.0-or-later
"""Common set-ups of tests: a switch, a device in a slot that can be switched off, a long transfer."""
import contextlib
import pathlib
import subprocess
import time

import driver
from qtest import BUILD

SLTCTL_POWER_OFF = 0x0700  # power controller and power indicator off (PCIe 7.5.3.10)
PORT_WINDOW = 0xC0000000
# Native hot plug, which a guest can also use to switch off a slot by itself.
HOT_PLUG = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
            "-device", "pcie-root-port,id=plug,chassis=1,addr=5")

MEGABYTE = 1 << 20
SOURCE, TARGET, SIZE = 64 * MEGABYTE, 96 * MEGABYTE, 16 * MEGABYTE


def eventually(done):
    for _ in range(6000):
        if done():
            return True
        time.sleep(0.01)
    return False


@contextlib.contextmanager
def switch(folder, *options):
    """Runs a pib-switch during the block; yields its process."""
    process = subprocess.Popen([BUILD / "fabric-switch" / "pib-switch", "--listen", f"unix:{folder}/fabric",
                                "--control", f"{folder}/control", "--log-level", "off", *options])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def preloadable(folder, name):
    """Compiles a source of this folder that is preloaded into QEMU; returns the library."""
    source = pathlib.Path(__file__).with_name(name)
    library = pathlib.Path(folder) / source.with_suffix(".so").name
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source], check=True)
    return library


def behind_root_port(qtest):
    """Maps the BARs of the hot-plugged device on bus 1 in the root port's window; returns the port and the device."""
    port = qtest.pci(5)
    port.config_write(0x18, 0x00010100)  # bus numbers: primary 0, secondary and subordinate 1
    port.config_write(0x20, (PORT_WINDOW + 0x3F00000 & 0xFFF00000) | PORT_WINDOW >> 16)
    port.config_write(0x04, 0x6, 2)
    return port, qtest.pci(0, bus=1).map_bars(PORT_WINDOW)


def start_transfer(device, source=SOURCE, target=TARGET, **queues):
    """Starts a transfer that takes much longer than the test: hundreds of WRITEs of 16 MiB."""
    qtest = device.hca.qtest
    assert eventually(lambda: device.port_state() == driver.PORT_INIT)
    device.activate()
    device.create(**queues).connect()
    qtest.command("memset", hex(source), SIZE, hex(0x5A))
    qtest.command("memset", hex(target), SIZE, 0)
    source, target = ((at, device.region(at, SIZE)) for at in (source, target))
    for _ in range(300):
        device.post_write(source, target, SIZE)
    device.ring()
    assert eventually(lambda: qtest.read(target[0], 1) == 0x5A), "no transfer"
