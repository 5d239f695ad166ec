# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of ./pib web names the connection that a pulled cable broke."""

import subprocess

from lab.fabric import source
from lab.web import answers, watch
from rdma import DEVICE, PATIENCE_S, put_program, wait_until
from test_why import RETRY_EXC_ERR, wait_both_active


def read(watcher: watch.Watcher) -> watch.Watcher:
    watcher.read_guests()
    watcher.read_fabric()
    return watcher


def test_the_page_names_the_connection_that_a_pulled_cable_broke(lab, vm1):
    wait_both_active(vm1)
    watcher = watch.Watcher(source.Lab(lab.directory))
    page = answers.Answers(watcher)
    nodes = {node.name: node for node in read(watcher).fabric.nodes.values()}
    assert nodes["vm0"].kind == nodes["vm1"].kind == "guest" and any(node.sm for node in nodes.values())
    vm1_links = {link.b_port: link.id for link in watcher.fabric.links.values() if link.b == nodes["vm1"].id}
    put_program(vm1, "unanswered.py")
    running = vm1.start([f"exec timeout {PATIENCE_S} python3 /tmp/unanswered.py {DEVICE}"], text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = running.stdout.readline()
        assert said.strip().isdigit(), said + running.stdout.read()
        at_qp = {"node": nodes["vm1"].id, "qpn": str(int(said))}
        watcher.read_guests()
        shown = page.qp(at_qp)
        assert shown["complete"] and shown["qp"]["state"] == "RTS" and shown["peer"]["name"] == "vm1"
        assert [link for link, _ in shown["there"]] == [vm1_links[1], vm1_links[2]]
        assert page.hca({"node": nodes["vm1"].id})["mrs"]["count"] > 0
        page.set_link({"link": vm1_links[2], "state": "down"})
        wait_until(lambda: read(watcher).fabric.links[vm1_links[2]].state == "Down", "the link to be down")
        assert not page.qp(at_qp)["complete"]
        assert running.communicate("go\n", timeout=PATIENCE_S)[0].strip() == RETRY_EXC_ERR
        told = [event.text for event in read(watcher).timeline.events]
        assert any(text.endswith("– vm1[2]: the cable was pulled") for text in told), told
        assert f"vm1 QP {int(said):#x}: RETRY_EXC_ERR" in told
        lines = page.why({"about": f"vm1:{int(said):#x}"})["lines"]
        assert any("RETRY_EXC_ERR, because link " in line and "the cable was pulled" in line for line in lines), lines
    finally:
        running.kill()
        page.set_link({"link": vm1_links[2], "state": "up"})
        wait_both_active(vm1)
        watcher.stop()
