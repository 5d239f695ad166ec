# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of a running transfer, as tshark reads them, as it captures them itself at a port of the running lab, and as
the page of ./pib web draws them."""

import os
import subprocess

import pytest

from lab.base import paths
from lab.fabric import capture, evidence, source
from lab.web import answers, watch
from lab.wireshark import install
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


@pytest.fixture(name="qp", scope="module")
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


# An extcap program of the lab in another directory than the checkout's own.
EXTCAP = """\
#!/usr/bin/python3 -IB
import pathlib, sys
sys.path.insert(0, {root!r})
from lab.base import paths
paths.RUN = pathlib.Path({lab!r})
from lab.wireshark import extcap
sys.argv[1:1] = ["--names", {names!r}]
sys.exit(extcap.main())
"""


@pytest.fixture(name="tshark")
def _tshark(lab, tmp_path):
    """Runs tshark as a user for whom ./pib wireshark has installed its files; returns the lines that it prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "WIRESHARK_"))}
    env["HOME"] = str(tmp_path)

    def run(*words):
        done = subprocess.run(["tshark", *words], env=env, capture_output=True, text=True, timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()
    subprocess.run([paths.ROOT / "pib", "wireshark", "install"], env=env, check=True, timeout=PATIENCE_S)
    place = install.places("\n".join(run("-G", "folders")))
    place.program.write_text(EXTCAP.format(root=str(paths.ROOT), lab=str(lab.directory), names=str(place.names)))
    return run


def test_tshark_captures_a_qp_at_a_port_of_the_running_lab(qp, tshark):
    (own, objects), fields = qp, ("infiniband.bth.destqp", "pib.src", "pib.dst", "_ws.malformed")
    port = objects[0]["ports"]["entries"][0]
    listed = "\n".join(tshark("-D"))
    assert "pib (pib-hca fabric: all packets)" in listed and "pib-vm0-1 (pib-hca fabric: vm0[1] at " in listed
    assert f"LID {port['lid']})" in next(line for line in listed.splitlines() if "pib-vm1-1 (" in line)
    near, far = f"vm1:{own['qpn']:#x}", f"vm0:{own['dest_qpn']:#x}"
    for words in (["-i", "pib-vm1-1", "-o", f"extcap.pib_vm1_1.qp:{own['qpn']:#x}"],
                  ["-i", "pib", "-f", f"qp {own['qpn']:#x} or qp {own['dest_qpn']:#x}"]):
        said = tshark(*words, "-c", str(PACKETS), "-o", "pib.crc:FALSE", "-T", "fields",
                      *(word for name in fields for word in ("-e", name)))
        packets = [line.split("\t") for line in said]
        assert len(packets) == PACKETS and {(int(to, 16), *rest) for to, *rest in packets} == {
            (own["dest_qpn"], near, far, ""), (own["qpn"], far, near, "")}


def test_the_page_draws_messages_and_shows_decisions_of_opensm(lab, qp):
    watcher = watch.Watcher(source.Lab(lab.directory))
    page = answers.Answers(watcher)

    def told():
        watcher.read_guests()
        watcher.read_fabric()
        return [event.text for event in watcher.timeline.events]
    try:
        wait_until(lambda: any(text.startswith("opensm in vm0: SUBNET UP") for text in told()), "opensm's decisions")
        sender = next(node.id for node in watcher.fabric.nodes.values() if node.name == "vm1")
        asked, drawn = {"node": sender, "qpn": str(qp[0]["qpn"])}, []

        def both_ways():
            answer = page.sequence(asked)
            assert "error" not in answer, answer
            drawn.extend(answer["messages"])
            asked.update(began=repr(answer["began"]), since=str(answer["next"]))
            return {True, False} <= {one["answer"] == "ACK" for one in drawn}
        wait_until(both_ways, "a request and an ACK of the QP")
        assert {one["qpn"] for one in drawn if one["name"].startswith("RC RDMA_WRITE")} == {qp[0]["dest_qpn"]}
        assert {one["qpn"] for one in drawn if one["answer"] == "ACK"} == {qp[0]["qpn"]}
        assert [one["at"] for one in drawn] == sorted(one["at"] for one in drawn)
    finally:
        page.recordings.stop()
        watcher.stop()
