# SPDX-License-Identifier: GPL-2.0-or-later
"""The slot of a device is switched off while its links are full or its switch stands still: QEMU goes on."""
import contextlib
import signal
import time

import pytest

from flood import Counters, Flood
from qtest import Qtest
from support import HOT_PLUG, SLTCTL_POWER_OFF, behind_root_port, eventually, preloadable, switch

SHARED = ("-object", "memory-backend-memfd,id=ram,share=on,size=256M", "-machine", "memory-backend=ram")


@contextlib.contextmanager
def plugged(folder, options="", fabric=(), machine=(), slow_futex=False):
    """Yields a device in a slot, a function that switches the slot off, and the process of pib-switch."""
    moments = preloadable(folder, "moments.c")
    variables = {"PIB_SLOW_FUTEX": "1"} if slow_futex else {}
    with switch(folder, *fabric) as process, \
            Qtest(*HOT_PLUG, *machine, "-device", f"pib-hca,bus=plug,id=hot,fabric=unix:{folder}/fabric{options}",
                  preload=(moments,), variables=variables) as qtest:
        port, hca = behind_root_port(qtest)
        slot = port.capability(0x10)
        yield Flood(hca).enable(), lambda: port.config_write(slot + 0x18, SLTCTL_POWER_OFF, 2), process


def is_gone(qtest):
    return "hot" not in str(qtest.qmp("qom-list", path="/machine/peripheral"))


@pytest.mark.parametrize("ports", [2, 4])
def test_unplug_with_a_full_ring_while_other_ports_work(tmp_path, ports):
    """The thread of each port serves the links of all ports."""
    with plugged(tmp_path, f",ports={ports}") as (device, power_off, fabric):
        assert device.all_ports_up(ports)
        fabric.send_signal(signal.SIGSTOP)
        device.create().fill_ring()
        with Counters(fabric).waking():
            power_off()
        assert is_gone(device.hca.qtest)


def test_unplug_with_a_full_ring_and_peer_copy_refused(tmp_path):
    """With peer-copy=on the device accesses its links once more when its memory is removed."""
    with plugged(tmp_path, ",peer-copy=on", fabric=("--no-peer-copy",), machine=SHARED) as (
            device, power_off, fabric):
        assert device.all_ports_up(1)
        fabric.send_signal(signal.SIGSTOP)
        device.create().fill_ring()
        power_off()
        assert is_gone(device.hca.qtest)


def test_unplug_while_the_switch_resets_the_wake_counter(tmp_path):
    """The switch can write to the counter on which a thread sleeps; an unplug still ends the thread."""
    with plugged(tmp_path, slow_futex=True) as (device, power_off, fabric):
        assert device.all_ports_up(1)
        fabric.send_signal(signal.SIGSTOP)
        counters = Counters(fabric)
        with counters.held_back():
            assert eventually(counters.wake)
            time.sleep(0.1)  # the thread is about to sleep again
            power_off()
        assert is_gone(device.hca.qtest)
