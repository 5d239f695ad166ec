# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of a running transfer, as tshark reads them and as the page of ./pib web draws them."""

import subprocess

import pytest

from lab.fabric import capture, evidence, source
from lab.web import answers, watch
from rdma import PATIENCE_S, wait_active, wait_until
from traffic import transfer

PACKETS = 300
WRITE_OPCODES = {6, 7, 8, 10}           # RDMA WRITE FIRST, MIDDLE, LAST, ONLY of RC
ACKNOWLEDGE = 17


def connected_qp(lab, name):
    """The RC QP in RTS of a guest, and its HCA's objects."""
    objects = evidence.objects(lab.monitor(name))
    (qp,) = [qp for one in objects for qp in one["qps"]["entries"] if qp["type"] == "RC" and qp["state"] == "RTS"]
    return qp, objects


@pytest.fixture(name="qp")
def _qp(lab, vm0, vm1):
    """The sender's QP of a transfer from vm1 to vm0, and the objects of vm1."""
    wait_active(vm0, vm1)
    with transfer(vm0, vm1):
        yield connected_qp(lab, "vm1")


def test_tshark_reads_the_packets_of_a_qp(lab, qp, tmp_path):
    (own, objects), file = qp, tmp_path / "qp.pcapng"
    with open(file, "wb") as out:
        seen = capture.relay(lab.switch().control, capture.rules("vm1", objects, own["qpn"]), out, PACKETS)
    assert seen.taken == PACKETS
    done = subprocess.run(["tshark", "-r", file, "-T", "fields", "-e", "infiniband.bth.opcode",
                           "-e", "infiniband.bth.destqp", "-e", "_ws.malformed"],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    packets = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(packets) == PACKETS and not [malformed for _, _, malformed in packets if malformed]
    ends = {(int(opcode) in WRITE_OPCODES, int(opcode) == ACKNOWLEDGE, int(to, 16)) for opcode, to, _ in packets}
    assert ends == {(True, False, own["dest_qpn"]), (False, True, own["qpn"])}


def test_the_page_draws_messages_and_tells_decisions_of_opensm(lab, qp):
    watcher = watch.Watcher(source.Lab(lab.directory))
    page = answers.Answers(watcher)

    def told():
        watcher.read_guests()
        watcher.read_fabric()
        return [event.text for event in watcher.timeline.events]
    try:
        wait_until(lambda: any(text.startswith("opensm in vm0: SUBNET UP") for text in told()), "opensm's decisions")
        sender = next(node.id for node in watcher.fabric.nodes.values() if node.name == "vm1")
        drawn = page.sequence({"node": sender, "qpn": str(qp[0]["qpn"])})["messages"]
        assert {one["qpn"] for one in drawn if one["name"].startswith("RC RDMA_WRITE")} == {qp[0]["dest_qpn"]}
        assert {one["qpn"] for one in drawn if one["answer"] == "ACK"} == {qp[0]["qpn"]}
        assert [one["at"] for one in drawn] == sorted(one["at"] for one in drawn)
    finally:
        watcher.stop()
