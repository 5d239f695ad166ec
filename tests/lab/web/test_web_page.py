# SPDX-License-Identifier: GPL-2.0-or-later
"""The words of the page of ./pib web, made by its JavaScript in node."""

import pytest

import page_code
import simulated_fabric
from lab import paths
from lab.fabric import topology

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
HOST = """
    const {Store} = await import("./store.js");
    const {host} = await import("./hca.js");
    const store = new Store();
    store.takeFabric({nodes: [{id: "0x9", name: "vm0", kind: "guest", description: "vm0", lids: [1], port_guids: [],
                               guest: "vm0", slot: 0}], links: [], sm_lid: 0});
    store.choose("node", "0x9");
    const shown = root(host.show(store, {...hca, failures: [], read: 1}, pane));
"""


@pytest.fixture(name="hca")
def hca_of_a_guest():
    net = topology.load(FILE)
    fabric = simulated_fabric.Fabric(net, {"node1": "vm0"})
    return simulated_fabric.guest(net, fabric, "node1", [])["hcas"][0]["objects"]


def test_an_idle_cq_does_not_look_full(tmp_path, hca):
    """The device reads a CQ's consumer counter only when the CQ looks full, so until then it knows no fill."""
    hca["cqs"]["entries"] = [
        {"cqn": 2, "depth": 2048, "producer": 1862, "consumer": 0, "armed": "next", "error": False},
        {"cqn": 3, "depth": 16, "producer": 52, "consumer": 36, "armed": "none", "error": True}]
    text, bars = page_code.run(tmp_path, HOST + "return [shown.text, shown.all('i').map(({style}) => style.width)];",
                               hca=hca)
    assert "0x2 | 2,048 | 1,862 | next |" in text and "1862 of 2048" not in text
    assert "0x3 | 16 | 52 | none |  full |" in text and bars == ["100%"]
    assert "The device reads what software has taken only when a CQ looks full" in text
