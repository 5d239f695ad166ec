# SPDX-License-Identifier: GPL-2.0-or-later
"""The PCI function in a real QEMU, without a guest: identity, properties, registers, resets, hot plug."""
import os
import pathlib
import random
import re
import resource
import time

import pytest

from qtest import Qtest, run_qemu

SLOT = 4
DEVICE = f"pib-hca,id=hca,addr={SLOT},node-guid=0x0650000000000100"

REG_VERSION, REG_CONTROL, REG_STATUS = 0x000, 0x004, 0x008
REG_PORT_COUNT, REG_VECTOR_COUNT, REG_UAR_COUNT, REG_SCRATCH = 0x010, 0x014, 0x018, 0x01C
REG_CMDQ_BASE, REG_CMDQ_CPL_BASE, REG_CMDQ_LOG_DEPTH, REG_CMDQ_DOORBELL = 0x020, 0x028, 0x030, 0x034
REG_TEST_IRQ, REG_NODE_GUID = 0x03C, 0x048
ENABLED, BAD_ENABLE = 1, 4

COMMAND_RING, COMPLETION_RING = 0x100000, 0x101000


@pytest.fixture
def hca():
    with Qtest("-device", DEVICE) as qtest:
        yield qtest.pci(SLOT).map_bars()


def enable(hca):
    hca.qtest.write_memory(COMPLETION_RING, bytes(4096))
    hca.write(0, REG_CMDQ_BASE, COMMAND_RING, 8)
    hca.write(0, REG_CMDQ_CPL_BASE, COMPLETION_RING, 8)
    hca.write(0, REG_CMDQ_LOG_DEPTH, 4)
    hca.write(0, REG_CONTROL, 1)


def nop(hca, index):
    """Runs NOP number `index` since ENABLE and returns its completion."""
    slot = index % 16
    command = (0).to_bytes(2, "little") + (0x100 + index).to_bytes(2, "little") + bytes(60)
    hca.qtest.write_memory(COMMAND_RING + 64 * slot, command)
    hca.write(0, REG_CMDQ_DOORBELL, index + 1)
    return hca.qtest.read_memory(COMPLETION_RING + 16 * slot, 16)


def test_help_documents_every_property():
    """The properties of PCI and PCI Express, which a pcie-root-port has as well, are left out."""
    listed = re.compile(r"^  ([\w-]+)=<\w+>(?: +- (\w?).*)?$", re.M)
    others = dict(listed.findall(run_qemu("-device", "pcie-root-port,help").stdout))
    all_of_them = listed.findall(run_qemu("-device", "pib-hca,help").stdout)
    own = {name: text for name, text in all_of_them if name not in others}
    assert {"fabric", "bursts", "poll-us", "objects", "waits"} <= own.keys() and len(own) > 40
    assert [name for name, text in own.items() if not text] == []


@pytest.mark.parametrize("bad, expected", [
    ("ports=0", "ports=0: expected 1 to 4"),
    ("ports=5", "expected 1 to 4"),
    ("adversary=x", "the adversary must be a number"),
    ("adversary=7:x", "kinds must be some of commands, interrupts"),
    ("vectors=0", "vectors=0: expected 1 to 64"),
    ("vectors=65", "expected 1 to 64"),
    ("link-width=2x", "expected one of 1x, 4x, 8x, 12x"),
    ("link-speed=fast", "expected one of sdr, ddr, qdr, fdr, edr, hdr, ndr"),
    ("mtu=1500", "expected one of 256, 512, 1024, 2048, 4096"),
    ("vls=3", "expected one of 1, 2, 4, 8, 15"),
    ("strict=maybe", "strict=maybe: expected one of off, on, fatal"),
    ("doorbells=loud", "doorbells=loud: expected one of auto, inline, eventfd"),
    ("trace-entries=65537", "trace-entries=65537: expected 0 to 65536"),
    ("record=/nonexistent/file", "name a file that QEMU may write"),
    ("record=/dev/null", "name a regular file"),
    ("record-payload=on", "need record=FILE"),
    ("record-limit=1G", "need record=FILE"),
    ("trace-dma=on", "must have entries: trace-entries=1 to 65536"),
    ("fabric=nowhere", "expected unix:PATH or tcp:HOST:PORT"),
    ("fabric=tcp:fd:0", "expected unix:PATH or tcp:HOST:PORT"),
    ("fabric=tcp:vsock:2:9", "expected unix:PATH or tcp:HOST:PORT"),
    ("fabric=tcp:unix:/nonexistent", "expected unix:PATH or tcp:HOST:PORT"),
    ("fabric=tcp:192.0.2.1:9", "give tls-creds=ID, or permit it with plain-tcp=on"),
    ("fabric=tcp:127.evil.example:9", "give tls-creds=ID"),
    ("fabric=tcp:127.0.0.1:9,tls-creds=none", "add -object tls-creds-x509,id=none"),
    ("fabric=unix:/nonexistent,tls-creds=none", "only with fabric=tcp:HOST:PORT"),
    ("node-description=" + "x" * 64, "expected at most 63 bytes"),
])
def test_bad_property_is_refused_in_one_line(bad, expected):
    result = run_qemu("-device", f"pib-hca,{bad}")
    assert result.returncode == 1
    assert expected in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_devices_behind_root_ports_have_guids_of_their_own():
    """The GUIDs come from the VM's UUID and the place of the device, and stay the same."""
    def guids():
        with Qtest("-uuid", "70696200-0000-4000-8000-000000000001",
                   "-device", "pcie-root-port,id=rp0,chassis=1,addr=5",
                   "-device", "pcie-root-port,id=rp1,chassis=2,addr=6",
                   "-device", "pib-hca,id=a,bus=rp0", "-device", "pib-hca,id=b,bus=rp1") as qtest:
            return [qtest.qmp("qom-get", path=f"/machine/peripheral/{name}", property="node-guid")["return"]
                    for name in ("a", "b")]

    first = guids()
    assert first[0] != first[1]
    assert guids() == first


def test_two_devices_with_one_guid_are_refused():
    result = run_qemu("-device", "pib-hca,node-guid=0x10", "-device", "pib-hca,node-guid=0x10")
    assert result.returncode == 1
    assert "belongs to another pib-hca" in result.stderr


def test_two_devices_with_one_recording_are_refused(tmp_path):
    device = f"pib-hca,record={tmp_path}/run.rec,node-guid="
    result = run_qemu("-device", f"{device}0x10", "-device", f"{device}0x20")
    assert result.returncode == 1
    assert "another device records to this file" in result.stderr


def test_only_its_owner_may_read_a_recording(tmp_path):
    """A file that exists already loses its contents and its mode."""
    file = tmp_path / "run.rec"
    file.write_bytes(bytes(100_000))
    file.chmod(0o644)
    with Qtest("-device", f"{DEVICE},record={file}") as qtest:
        assert qtest.pci(SLOT).map_bars().read(0, REG_VERSION) != 0
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.read_bytes().startswith(b"PIBREC\x1a\n")
        assert file.stat().st_size < 100_000


def has_open(process, file):
    links = (os.path.realpath(link) for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir())
    return str(file) in links


def test_a_recording_that_may_not_grow_ends(tmp_path):
    """The limit on the size of files (ulimit -f) ends the recording, not QEMU."""
    file = tmp_path.resolve() / "run.rec"
    with Qtest("-device", f"{DEVICE},record={file}") as qtest:
        hca = qtest.pci(SLOT).map_bars()
        _, hard = resource.prlimit(qtest.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(qtest.process.pid, resource.RLIMIT_FSIZE, (file.stat().st_size + 100, hard))
        rounds = 0
        while has_open(qtest.process, file):
            rounds += 1
            assert rounds < 1000, "the recording goes on"
            for value in range(100):
                hca.write(0, REG_SCRATCH, value)
        assert hca.read(0, REG_SCRATCH) == 99
    assert "ends here: File too large" in qtest.stderr


def test_conventional_pci_is_refused():
    result = run_qemu("-machine", "pc", "-device", "pib-hca")
    assert result.returncode == 1
    assert "PCI Express" in result.stderr


def test_configuration_space_identifies_the_function(hca):
    assert hca.config_read(0x00) == 0x1B0C1234
    assert hca.config_read(0x08) >> 8 == 0x020700
    assert hca.capability(0x10), "no PCI Express capability"
    assert hca.capability(0x01), "no power management capability"
    msix = hca.capability(0x11)
    assert hca.config_read(msix + 2, 2) & 0x7FF == 9 - 1


def test_bars_have_their_sizes():
    with Qtest("-device", DEVICE) as qtest:
        function = qtest.pci(SLOT)
        assert [function.bar_size(n) for n in (0, 2, 4)] == [0x10000, 0x800000, 0x1000]


def test_registers_identify_a_new_device(hca):
    assert hca.read(0, REG_VERSION) >> 16 == 1
    assert hca.read(0, REG_STATUS) == 0
    assert hca.read(0, REG_PORT_COUNT) == 1
    assert hca.read(0, REG_VECTOR_COUNT) == 9
    assert hca.read(0, REG_UAR_COUNT) == 1024
    assert hca.read(0, REG_NODE_GUID, 8) == 0x0650000000000100
    hca.write(0, REG_SCRATCH, 0x12345678)
    assert hca.read(0, REG_SCRATCH) == 0x12345678


def test_the_command_queue_answers(hca):
    enable(hca)
    assert hca.read(0, REG_STATUS) == ENABLED
    for index in range(40):
        completion = nop(hca, index)
        assert int.from_bytes(completion[8:10], "little") == 0x100 + index
        assert completion[10] == 0
        assert completion[15] & 1 == 1 - (index // 16) % 2


def flr(hca):
    express = hca.capability(0x10)
    control = hca.config_read(express + 8, 2)
    hca.config_write(express + 8, control | 0x8000, 2)


@pytest.mark.parametrize("reset", ["flr", "register", "system"])
def test_reset_leaves_nothing_behind(hca, reset):
    enable(hca)
    nop(hca, 0)
    if reset == "flr":
        flr(hca)
        hca.map_bars()
    elif reset == "register":
        hca.write(0, REG_CONTROL, 2)
    else:
        hca.qtest.qmp("system_reset")
        hca.qtest._map_configuration_space()
        hca.map_bars()
    assert hca.read(0, REG_STATUS) == 0
    assert hca.read(0, REG_CMDQ_BASE, 8) == 0
    hca.qtest.write_memory(COMPLETION_RING, bytes(4096))
    hca.write(0, REG_CMDQ_DOORBELL, 1)
    assert hca.qtest.read_memory(COMPLETION_RING, 4096) == bytes(4096), "DMA after reset"
    enable(hca)
    assert nop(hca, 0)[15] & 1 == 1


def test_no_dma_without_bus_mastering(hca):
    hca.config_write(0x04, 0x2, 2)
    hca.write(0, REG_CMDQ_BASE, COMMAND_RING, 8)
    hca.write(0, REG_CMDQ_CPL_BASE, COMPLETION_RING, 8)
    hca.write(0, REG_CMDQ_LOG_DEPTH, 4)
    hca.qtest.write_memory(COMPLETION_RING, bytes(64))
    hca.write(0, REG_CONTROL, 1)
    hca.write(0, REG_CMDQ_DOORBELL, 1)
    assert hca.qtest.read_memory(COMPLETION_RING, 64) == bytes(64)


def test_rings_in_our_own_bars_are_refused(hca):
    hca.write(0, REG_CMDQ_BASE, hca.bars[0], 8)
    hca.write(0, REG_CMDQ_CPL_BASE, hca.bars[2], 8)
    hca.write(0, REG_CMDQ_LOG_DEPTH, 4)
    hca.write(0, REG_CONTROL, 1)
    hca.write(0, REG_CMDQ_DOORBELL, 1)
    assert hca.read(0, REG_STATUS) == BAD_ENABLE


def test_msix_test_interrupt_sets_pending_bit(hca):
    msix = hca.capability(0x11)
    hca.config_write(msix + 2, 0xC000, 2)  # enabled, function masked
    hca.write(0, REG_TEST_IRQ, 3)
    assert hca.read(4, 0x800, 4) & (1 << 3)


def test_accesses_at_any_offset_are_harmless(hca):
    """T01: every size and alignment at random offsets of both BARs; then the device still works."""
    seeded = random.Random(1)
    for _ in range(3000):
        bar = seeded.choice((0, 2))
        size = seeded.choice((1, 2, 4, 8))
        # Half of the accesses near the registers, the others anywhere; CONTROL and TEST_IRQ included.
        span = 0x100 if seeded.random() < 0.5 else (0x10000 if bar == 0 else 0x400000)
        offset = seeded.randrange(span - size)
        if seeded.random() < 0.5:
            hca.read(bar, offset, size)
        else:
            hca.write(bar, offset, seeded.getrandbits(8 * size), size)
    hca.write(0, REG_CONTROL, 2)
    assert hca.read(0, REG_STATUS) == 0
    enable(hca)
    assert nop(hca, 0)[15] & 1 == 1


def test_plug_and_unplug_many_times():
    with Qtest("-device", "pcie-root-port,id=plug,chassis=1") as qtest:
        for round_number in range(50):
            arguments = {"driver": "pib-hca", "id": "hot", "bus": "plug"}
            if round_number % 5 == 4:
                arguments["link-speed"] = "wrong"
                assert "error" in qtest.qmp("device_add", **arguments)
                continue
            assert "return" in qtest.qmp("device_add", **arguments)
            # A surprise removal: no guest could agree to a hot unplug.
            qtest.qmp("device_del", id="hot")
            qtest.qmp("system_reset")
            while "hot" in str(qtest.qmp("qom-list", path="/machine/peripheral")):
                time.sleep(0.01)


def test_two_devices_have_guids_and_ports_of_their_own():
    with Qtest("-device", "pib-hca,addr=4", "-device", "pib-hca,addr=5,ports=4") as qtest:
        first, second = qtest.pci(4).map_bars(), qtest.pci(5).map_bars(0xD0000000)
        guids = [device.read(0, REG_NODE_GUID, 8) for device in (first, second)]
        assert guids[0] != guids[1]
        # Linux's ib_cm refuses service IDs that begin with 0x02, and SRP targets use their GUID as service ID.
        assert [guid >> 56 for guid in guids] == [0x06, 0x06]
        assert second.read(0, REG_PORT_COUNT) == 4


def test_snapshot_is_refused_with_a_reason():
    with Qtest("-device", DEVICE) as qtest:
        answer = qtest.qmp("migrate", uri="exec:cat > /dev/null")
        assert "error" in answer and "pib-hca" in answer["error"]["desc"]
