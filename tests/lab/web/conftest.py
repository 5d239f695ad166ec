# SPDX-License-Identifier: GPL-2.0-or-later
"""A watcher of ./pib web whose readings a test makes."""

import pytest

import simulated_fabric
from lab.base import paths
from lab.fabric import topology
from lab.web import watch

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"


@pytest.fixture(name="quiet")
def watcher_without_threads(tmp_path):
    """A watcher that reads only when a test calls it. vm0 has QP 0x41, connected to node16."""
    fabric = simulated_fabric.Fabric(topology.load(FILE), {"node1": "vm0", "node16": "vm1"})
    running = simulated_fabric.Process(tmp_path / "control", fabric)
    watcher = watch.Watcher(simulated_fabric.Source(running, {"vm0": simulated_fabric.guest(
        fabric.net, fabric, "node1", [simulated_fabric.qp(0x41, fabric.lids["node16"], 0x51)])}))
    yield watcher
    watcher.stop()
    running.end()
