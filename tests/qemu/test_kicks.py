# SPDX-License-Identifier: GPL-2.0-or-later
"""Doorbells by eventfd: the main loop reads the shadow doorbell page. See docs/device-spec.md, "Kicks"."""
import os
import resource
import struct

import pytest

import driver
from flood import SMPS, Flood
from loopback import WC_SUCCESS, Loopback
from qtest import Qtest
from support import HOT_PLUG, SLTCTL_POWER_OFF, behind_root_port, eventually, switch

CMD_ALLOC_UAR, CMD_FREE_UAR, CMD_SET_SHADOW_PAGE = 0x10, 0x11, 0x16
STATUS_NOT_SUPPORTED = 0x0A
UAR_KICK = 0x20
SUMMARY, FLAGS, RUNG = 0, 8, 64
AWAKE = 1
EVENTFDS = 32  # limit of eventfds of a device
SLOTS = 4096
SOURCE, TARGET, SIZE = 64 << 20, 96 << 20, 1 << 20


class Kicked(Loopback):
    """Rings doorbells as a driver with a shadow doorbell page does."""

    def set_shadow_page(self):
        self.shadow = self.take(1)
        return self.command(CMD_SET_SHADOW_PAGE, struct.pack("<Q", self.shadow))

    def ring(self):
        qtest, slot = self.hca.qtest, self.qpn % SLOTS
        qtest.write(self.qp, self.producer, 4)
        qtest.write(self.shadow + RUNG + slot // 64 * 8, 1 << slot % 64, 8)
        qtest.write(self.shadow + SUMMARY, 1 << slot // 64, 8)
        if not qtest.read(self.shadow + FLAGS, 8) & AWAKE:
            self.hca.write(2, UAR_KICK, 0)

    def nothing_noted(self):
        return self.hca.qtest.read_memory(self.shadow, 576) == bytes(576)

    def ready(self):
        """Connects the QP to itself, and makes regions to write from and to."""
        assert eventually(lambda: self.port_state() == driver.PORT_INIT)
        self.activate()
        self.create().connect()
        self.hca.qtest.command("memset", hex(SOURCE), SIZE, hex(0x5A))
        self.hca.qtest.command("memset", hex(TARGET), SIZE, 0)
        self.source, self.target = ((at, self.region(at, SIZE)) for at in (SOURCE, TARGET))
        return self

    def write(self):
        self.post_write(self.source, self.target, SIZE)
        self.ring()


def target(descriptor):
    """Target of a descriptor in /proc; empty if it was closed since the listing."""
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:
        return ""


def eventfds(qtest):
    folder = f"/proc/{qtest.process.pid}/fd"
    return sum(target(f"{folder}/{name}").startswith("anon_inode:[eventfd]") for name in os.listdir(folder))


@pytest.fixture
def device(tmp_path):
    with switch(tmp_path), \
            Qtest("-device", f"pib-hca,addr=4,doorbells=eventfd,fabric=unix:{tmp_path}/fabric") as qtest:
        yield Kicked(qtest.pci(4).map_bars()).enable().ready()


def test_a_kick_signals_an_eventfd(device):
    qtest = device.hca.qtest
    before = eventfds(qtest)
    assert device.set_shadow_page() == driver.STATUS_OK
    assert eventually(lambda: eventfds(qtest) == before + 1)
    for count in range(1, 7):
        device.write()
        assert eventually(lambda: device.statuses() == [WC_SUCCESS] * count)
    assert qtest.read_memory(TARGET, SIZE) == b"\x5A" * SIZE
    assert eventually(device.nothing_noted)
    # Doorbells with a value still work.
    device.post_write(device.source, device.target, SIZE)
    Loopback.ring(device)
    assert eventually(lambda: device.statuses() == [WC_SUCCESS] * 7)


def test_a_stopped_vm_sees_its_kicks_when_it_runs(device):
    qtest = device.hca.qtest
    before = eventfds(qtest)
    assert device.set_shadow_page() == driver.STATUS_OK
    assert eventually(lambda: eventfds(qtest) == before + 1)
    qtest.qmp("stop")
    device.write()
    for _ in range(20):
        qtest.qmp("query-status")  # lets QEMU's main loop run
    assert device.statuses() == []
    assert not device.nothing_noted()
    qtest.qmp("cont")
    assert eventually(lambda: device.statuses() == [WC_SUCCESS])


def set_shadow_pages(device, count):
    """Allocates UARs, each with a shadow doorbell page."""
    uars = []
    for _ in range(count):
        assert device.command(CMD_ALLOC_UAR) == driver.STATUS_OK
        uars.append(device.result)
        page = device.take(1)
        assert device.command(CMD_SET_SHADOW_PAGE, struct.pack("<Q", page), obj=uars[-1]) == driver.STATUS_OK
    return uars


def test_uars_share_eventfds_and_a_reset_closes_all(device):
    qtest = device.hca.qtest
    before = eventfds(qtest)
    assert device.set_shadow_page() == driver.STATUS_OK
    uars = set_shadow_pages(device, EVENTFDS + 8)
    assert eventually(lambda: eventfds(qtest) == before + EVENTFDS)
    device.write()
    assert eventually(lambda: device.statuses() == [WC_SUCCESS])
    # These two UARs share an eventfd.
    assert device.command(CMD_FREE_UAR, obj=uars[0]) == driver.STATUS_OK
    for _ in range(20):
        qtest.qmp("query-status")  # lets QEMU's main loop run
    assert eventfds(qtest) == before + EVENTFDS
    assert device.command(CMD_FREE_UAR, obj=uars[EVENTFDS]) == driver.STATUS_OK
    assert eventually(lambda: eventfds(qtest) == before + EVENTFDS - 1)
    for uar in uars:
        device.hca.write(2, uar * 4096 + UAR_KICK, 0)
    device.hca.write(0, driver.REG_CONTROL, 2)
    assert eventually(lambda: eventfds(qtest) == before)


def test_many_shadow_pages_leave_file_descriptors_to_qemu(tmp_path):
    """Many shadow doorbell pages leave descriptors for a new link in shared memory."""
    with Qtest("-device", f"pib-hca,addr=4,doorbells=eventfd,fabric=unix:{tmp_path}/fabric") as qtest:
        pid = qtest.process.pid
        device = Flood(qtest.pci(4).map_bars()).enable()
        limit = len(os.listdir(f"/proc/{pid}/fd")) + 2 * EVENTFDS
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        set_shadow_pages(device, 8 * EVENTFDS)
        for _ in range(20):
            qtest.qmp("query-status")  # lets QEMU's main loop run
        with switch(tmp_path):      # only now: the descriptors of an earlier link would be enough for it
            assert device.all_ports_up(1)
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                assert "/memfd:pib-link" in maps.read()
            device.create().send_all()
            assert eventually(lambda: len(device.statuses()) == SMPS), "nobody wakes the switch"


def test_a_device_is_unplugged_with_kicks_under_way(tmp_path):
    with switch(tmp_path), Qtest(*HOT_PLUG, "-device", "pib-hca,bus=plug,id=hot,doorbells=eventfd,"
                                 f"fabric=unix:{tmp_path}/fabric") as qtest:
        port, hca = behind_root_port(qtest)
        device = Kicked(hca).enable().ready()
        with_device = eventfds(qtest)
        assert device.set_shadow_page() == driver.STATUS_OK
        assert eventually(lambda: eventfds(qtest) == with_device + 1)
        for _ in range(50):
            device.write()
        port.config_write(port.capability(0x10) + 0x18, SLTCTL_POWER_OFF, 2)
        assert eventually(lambda: "hot" not in str(qtest.qmp("qom-list", path="/machine/peripheral")))
        assert eventually(lambda: eventfds(qtest) < with_device + 1)


@pytest.mark.parametrize("way", ["inline", "auto"])
def test_without_kvm_a_shadow_page_needs_doorbells_eventfd(way):
    with Qtest("-device", f"pib-hca,addr=4,doorbells={way}") as qtest:
        device = Kicked(qtest.pci(4).map_bars()).enable()
        assert device.set_shadow_page() == STATUS_NOT_SUPPORTED
