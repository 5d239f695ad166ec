# SPDX-License-Identifier: GPL-2.0-or-later
"""Places of switches on the map of ./pib web."""

import itertools
import math

import pytest

import simulated_fabric
from lab.base import paths
from lab.fabric import topology
from lab.web import model, places


def fabric(name: str) -> model.Fabric:
    """A fabric with only nodes and links."""
    net = topology.load(paths.ROOT / "examples" / "topologies" / f"{name}.topo")
    made = model.Fabric()
    for node in net.nodes.values():
        kind = "switch" if node.kind == "Switch" else "phantom"
        made.nodes[simulated_fabric.guid(node)] = model.Node(simulated_fabric.guid(node), node.name, kind, level=int(
            kind == "switch"))
    for node in net.switches():
        for port, (peer, far) in node.peers.items():
            end = simulated_fabric.guid(net.nodes[peer])
            name = f"{simulated_fabric.guid(node)}[{port}]"
            made.links[name] = model.Link(name, simulated_fabric.guid(node), port, end, far, "Active", "LinkUp",
                                          "4X EDR", 1.0, 4096, 8, True, False, False)
    return made


@pytest.mark.parametrize("name", ["dragonfly-72", "hypercube-4", "torus-4x4x4"])
def test_switches_of_other_fabrics_than_trees_have_places_of_their_own(name):
    made = fabric(name)
    places.Places().give(made)
    found = [(node.x, node.y) for node in made.nodes.values() if node.kind == "switch"]
    assert all(abs(one[0] - other[0]) > 0.99 or abs(one[1] - other[1]) > 0.99
               for one, other in itertools.combinations(found, 2))
    assert all(node.x is node.y is None for node in made.nodes.values() if node.kind != "switch")


def test_groups_of_a_dragonfly_are_together():
    made = fabric("dragonfly-72")
    places.Places().give(made)
    switches = [node for node in made.nodes.values() if node.kind == "switch"]
    near, far = [], []
    for one, other in itertools.combinations(switches, 2):
        same = one.name.partition("-")[0] == other.name.partition("-")[0]
        (near if same else far).append(math.dist((one.x, one.y), (other.x, other.y)))
    assert sum(near) / len(near) < 0.7 * sum(far) / len(far)


@pytest.mark.parametrize("name", ["fat-tree-16", "line-4", "single-16"])
def test_trees_and_few_switches_need_no_places(name):
    made = fabric(name)
    for node in made.nodes.values():
        node.level = 2 if node.name.startswith("spine") else node.level
    places.Places().give(made)
    assert all(node.x is None for node in made.nodes.values())


def test_places_stay_while_the_wiring_stays(monkeypatch):
    kept, made = places.Places(), fabric("ring-8")
    kept.give(made)
    monkeypatch.setattr(places, "_places", None)        # another call would fail
    again = fabric("ring-8")
    kept.give(again)
    assert [(node.x, node.y) for node in again.nodes.values()] == [(node.x, node.y) for node in made.nodes.values()]


def test_without_graphviz_there_are_no_places(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    made = fabric("hypercube-4")
    places.Places().give(made)
    assert all(node.x is None for node in made.nodes.values())
