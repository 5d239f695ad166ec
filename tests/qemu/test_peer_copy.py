# SPDX-License-Identifier: GPL-2.0-or-later
"""peer-copy=on: the memory that is shared, the message if it cannot be, and the release of mappings."""
import json
import os
import signal
import time

import driver
from loopback import Loopback
from qtest import Qtest, run_qemu
from support import HOT_PLUG, eventually, switch

SHARED = ("-object", "memory-backend-memfd,id=ram,share=on,size=256M", "-machine", "memory-backend=ram")
PRIVATE = ("-object", "memory-backend-memfd,id=ram,share=off,size=256M", "-machine", "memory-backend=ram")


def device(folder, more=""):
    return f"pib-hca,id=hca,addr=4,fabric=unix:{folder}/fabric,peer-copy=on{more}"


def copies(qtest):
    answer = qtest.qmp("qom-get", path="/machine/peripheral/hca", property="objects")
    return json.loads(answer["return"])["ports"]["entries"][0]["copies"]


def mapped_by(process):
    """Memory of VMs that a process has mapped: the memfds' inodes."""
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        return {line.split()[4] for line in maps if "memory-backend-memfd" in line}


def test_a_value_other_than_on_and_off_is_refused():
    refused = run_qemu("-device", "pib-hca,peer-copy=switch")
    assert refused.returncode == 1
    assert "peer-copy" in refused.stderr


def test_peer_copy_is_off_by_default(tmp_path):
    with switch(tmp_path) as fabric, \
            Qtest(*SHARED, "-device", f"pib-hca,id=hca,addr=4,fabric=unix:{tmp_path}/fabric") as qtest:
        hca = Loopback(qtest.pci(4).map_bars()).enable()
        assert eventually(lambda: hca.port_state() == driver.PORT_INIT)
        assert copies(qtest) == "three"
        assert not mapped_by(fabric)
    assert "peer-copy" not in qtest.stderr


def test_memory_that_cannot_be_shared_causes_a_warning(tmp_path):
    """One line tells the user what to do, and the device copies payload itself."""
    for memory in ((), PRIVATE):
        with switch(tmp_path), Qtest(*memory, "-device", device(tmp_path)) as qtest:
            hca = Loopback(qtest.pci(4).map_bars()).enable()
            assert eventually(lambda: hca.port_state() == driver.PORT_INIT)
            assert copies(qtest) == "three"
        warnings = [line for line in qtest.stderr.splitlines() if "peer-copy=on has no effect" in line]
        assert len(warnings) == 1 and "-object memory-backend-memfd,id=ram,share=on" in warnings[0]
        os.unlink(tmp_path / "fabric")


def test_a_property_that_keeps_the_switch_from_guest_memory_is_named(tmp_path):
    for name, value in (("record", tmp_path / "run.rec"), ("adversary", "7"), ("trace-dma", "on,trace-entries=16")):
        with switch(tmp_path), Qtest(*SHARED, "-device", device(tmp_path, f",{name}={value}")) as qtest:
            hca = Loopback(qtest.pci(4).map_bars()).enable()
            assert eventually(lambda: hca.port_state() == driver.PORT_INIT)
            assert copies(qtest) == "three"
        warnings = [line for line in qtest.stderr.splitlines() if "peer-copy=on has no effect" in line]
        assert len(warnings) == 1 and f"with {name} the device" in warnings[0]
        os.unlink(tmp_path / "fabric")


def test_a_link_without_shared_memory_has_three_copies(tmp_path):
    with switch(tmp_path), Qtest(*SHARED, "-device", device(tmp_path, ",shared-memory=off")) as qtest:
        hca = Loopback(qtest.pci(4).map_bars()).enable()
        assert eventually(lambda: hca.port_state() == driver.PORT_INIT)
        assert copies(qtest) == "three"


def test_the_switch_has_the_memory_while_the_link_stands(tmp_path):
    with Qtest(*SHARED, "-device", device(tmp_path)) as qtest:
        for _ in range(3):
            with switch(tmp_path) as fabric:
                assert eventually(lambda: copies(qtest) == "one")
                assert len(mapped_by(fabric)) == 1
                qtest.qmp("system_reset")
                Loopback(qtest.pci(4).map_bars()).enable()
                assert copies(qtest) == "one"
            assert eventually(lambda: copies(qtest) == "three")
            os.unlink(tmp_path / "fabric")


def test_an_unplugged_device_takes_its_memory_back(tmp_path):
    plugged = f"pib-hca,id=hca,bus=plug,fabric=unix:{tmp_path}/fabric,peer-copy=on"
    with switch(tmp_path) as fabric, Qtest(*SHARED, *HOT_PLUG, "-device", plugged) as qtest:
        assert eventually(lambda: copies(qtest) == "one")
        qtest.qmp("device_del", id="hca")
        # Native hot plug waits until the guest switches the slot off.
        port = qtest.pci(5)
        at = port.capability(0x10)
        assert eventually(lambda: port.config_read(at + 0x1A, 2) & 0x1)  # attention button pressed
        port.config_write(at + 0x18, 0x0700 | 0x1000, 2)
        assert eventually(lambda: not mapped_by(fabric))


def test_a_switch_that_stands_still_does_not_stop_qemu(tmp_path):
    with switch(tmp_path) as fabric, Qtest(*SHARED, "-device", device(tmp_path)) as qtest:
        hca = Loopback(qtest.pci(4).map_bars()).enable()
        assert eventually(lambda: copies(qtest) == "one")
        fabric.send_signal(signal.SIGSTOP)
        assert hca.command(driver.CMD_NOP) == driver.STATUS_OK
        qtest.qmp("stop")
        qtest.qmp("cont")
        qtest.qmp("system_reset")
        time.sleep(0.1)
        fabric.send_signal(signal.SIGCONT)
        assert eventually(lambda: copies(qtest) == "one")
