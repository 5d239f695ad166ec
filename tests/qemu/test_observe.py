# SPDX-License-Identifier: GPL-2.0-or-later
"""The device's reports about itself by QMP and trace events; see docs/observability.md."""
import json

import driver
from loopback import Loopback
from qtest import Qtest
from test_hostile import eventually, switch

SLOT = 4
DEVICE = f"pib-hca,id=hca,addr={SLOT},node-guid=0x0650000000000100"


def connected(folder):
    return DEVICE + f",fabric=unix:{folder}/fabric"


def get(qtest, name):
    answer = qtest.qmp("qom-get", path="/machine/peripheral/hca", property=name)
    return json.loads(answer["return"])


def move_data(qtest):
    """Posts one RDMA WRITE from the device to itself; returns its Loopback."""
    loop = Loopback(qtest.pci(SLOT).map_bars()).enable()
    assert eventually(lambda: loop.port_state() == driver.PORT_INIT)
    loop.create().activate()
    loop.connect()
    memory = loop.take(1)
    key = loop.region(memory, 4096)
    loop.post_write((memory, key), (memory + 2048, key), 512)
    loop.ring()
    return loop


def test_objects_are_shown_as_json(tmp_path):
    with switch(tmp_path), Qtest("-device", connected(tmp_path)) as qtest:
        assert get(qtest, "objects")["qps"] == {"count": 0, "entries": []}
        loop = move_data(qtest)
        objects = get(qtest, "objects")
        qp, = objects["qps"]["entries"]
        assert (qp["qpn"], qp["type"], qp["state"]) == (loop.qpn, "RC", "RTS")
        assert qp["path"]["dlid"] == 1 and qp["sq"]["producer"] == 1
        assert [cq["cqn"] for cq in objects["cqs"]["entries"]] == [loop.cqn]
        assert objects["mrs"]["count"] == 1 and objects["eqs"]["count"] == 1
        assert objects["ports"]["entries"][0]["lid"] == 1
        assert objects["counters"]["send_doorbells"] == 1
        assert get(qtest, "trace") == []


def test_the_trace_has_packets_wqes_and_commands(tmp_path):
    with switch(tmp_path), Qtest("-device", connected(tmp_path) + ",trace-entries=4096") as qtest:
        loop = move_data(qtest)
        assert eventually(loop.statuses)
        trace = get(qtest, "trace")
        kinds = [entry["kind"] for entry in trace]
        assert kinds.count("send-wqe") == 1 and "command" in kinds
        writes = [entry["kind"] for entry in trace if "write" in entry.get("text", "").lower()]
        assert writes == ["packet-out", "packet-in"]
        assert [entry["sequence"] for entry in trace] == list(range(len(trace)))
        assert not {"load", "store", "dma-read", "dma-write", "interrupt"} & set(kinds)


def test_the_trace_has_registers_memory_and_interrupts(tmp_path):
    kinds = ",trace-entries=4096,trace-registers=on,trace-dma=on,trace-interrupts=on"
    with switch(tmp_path), Qtest("-device", connected(tmp_path) + kinds) as qtest:
        loop = move_data(qtest)
        assert eventually(loop.statuses)
        loop.hca.write(0, driver.REG_TEST_IRQ, 0)
        trace = get(qtest, "trace")
        rung = [entry for entry in trace if entry["kind"] == "store" and entry["bar"] == 2]
        assert loop.qpn in [int(entry["value"], 16) for entry in rung]
        moved = {(entry["kind"], entry["purpose"]) for entry in trace if entry["kind"].startswith("dma")}
        assert {("dma-read", "command"), ("dma-read", "QP"), ("dma-read", "payload"), ("dma-write", "payload"),
                ("dma-write", "CQ")} <= moved
        assert [entry["vector"] for entry in trace if entry["kind"] == "interrupt"][-1] == 0


def test_a_trace_begins_and_ends_while_the_device_runs(tmp_path):
    def choose(name, value):
        return qtest.qmp("qom-set", path="/machine/peripheral/hca", property=name, value=value)

    with switch(tmp_path), Qtest("-device", connected(tmp_path)) as qtest:
        loop = move_data(qtest)
        assert eventually(loop.statuses)
        for name, value in (("trace-registers", True), ("trace-interrupts", True), ("trace-entries", 256)):
            assert "error" not in choose(name, value)
        assert get(qtest, "trace") == []
        loop.hca.write(0, driver.REG_TEST_IRQ, 0)
        assert [entry["kind"] for entry in get(qtest, "trace")] == ["store", "interrupt"]
        choose("trace-entries", 128)
        loop.hca.write(0, driver.REG_TEST_IRQ, 0)
        assert [entry["sequence"] for entry in get(qtest, "trace")] == [2, 3]
        assert "expected 0 to 65536" in choose("trace-entries", 65537)["error"]["desc"]
        choose("trace-entries", 0)
        loop.hca.write(0, driver.REG_TEST_IRQ, 0)
        assert get(qtest, "trace") == []


def test_refusals_are_shown_without_the_objects():
    with Qtest("-device", DEVICE) as qtest:
        qtest.pci(SLOT).map_bars().write(0, driver.REG_TEST_IRQ, 9999)
        found = get(qtest, "refusals")
        assert found.keys() == {"now_ns", "refusals"} and found["refusals"]["count"] == 1
        assert found["refusals"] == get(qtest, "objects")["refusals"]


def test_one_thread_alone_does_not_wait_for_the_lock():
    with Qtest("-device", DEVICE) as qtest:
        Loopback(qtest.pci(SLOT).map_bars()).enable()
        assert get(qtest, "waits") == {"lock_waits": 0, "lock_sleeps": 0}


def test_without_kvm_qemu_sends_the_interrupts():
    with Qtest("-device", DEVICE) as qtest:
        hca = qtest.pci(SLOT).map_bars()
        hca.write(0, driver.REG_TEST_IRQ, 0)
        assert get(qtest, "interrupts") == {"irqfds": 0, "by_irqfd": 0, "by_qemu": 0}  # MSI-X is off
        hca.config_write(hca.capability(0x11) + 2, 0xC000, 2)  # enabled, function masked
        hca.write(0, driver.REG_TEST_IRQ, 0)
        assert get(qtest, "interrupts") == {"irqfds": 0, "by_irqfd": 0, "by_qemu": 1}


def test_properties_are_read_only():
    with Qtest("-device", DEVICE) as qtest:
        for name in ("objects", "refusals", "trace", "waits", "interrupts"):
            answer = qtest.qmp("qom-set", path="/machine/peripheral/hca", property=name, value="")
            assert "error" in answer


def trace_events(qtest, what, **more):
    return qtest.qmp(f"trace-event-{what}-state", **{"name": "pib_hca_*", **more})


def test_qemu_prints_trace_events():
    qtest = Qtest("-device", DEVICE, "-trace", "pib_hca_mmio_*")
    try:
        names = {event["name"] for event in trace_events(qtest, "get")["return"]}
        assert names >= {"pib_hca_mmio_read", "pib_hca_mmio_write", "pib_hca_interrupt",
                         "pib_hca_link_in", "pib_hca_link_out", "pib_hca_message"}
        hca = qtest.pci(SLOT).map_bars()
        hca.write(0, 0x01C, 0x1234)
        assert "return" in trace_events(qtest, "set", enable=False)
        hca.write(0, 0x01C, 0x5678)
    finally:
        qtest.close()
    assert "pib_hca_mmio_write /machine/peripheral/hca bar 0 offset 0x1c size 4 value 0x1234" in qtest.stderr
    assert "0x5678" not in qtest.stderr
