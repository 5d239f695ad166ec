# SPDX-License-Identifier: GPL-2.0-or-later
"""The readings of ./pib web: rows of numbers each time, and the rest of a switch when it has changed."""

import pytest

import simulated_fabric
from lab.base import paths
from lab.fabric import control, topology
from lab.web import model, readings, traffic

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"


@pytest.fixture(name="tree")
def simulated_tree(tmp_path):
    running = simulated_fabric.Process(tmp_path / "control", simulated_fabric.Fabric(topology.load(FILE)))
    yield running
    running.end()


@pytest.fixture(name="read")
def readings_of_the_tree(tree):
    with control.Control(tree.path) as asked:
        yield readings.Readings([asked])


def asked_since(fabric: simulated_fabric.Fabric, begin: int, command: str) -> list[str]:
    return [one.get("switch", "") for one in fabric.requests[begin:] if one["command"] == command]


def link_of(reading: model.Reading, name: str) -> model.Link:
    made = model.fabric_of(reading)
    return next(link for link in made.links.values() if name in made.link_name(link))


def test_a_reading_without_changes_asks_for_traffic_alone(tree, read):
    first, differs = read.take({})
    assert differs and len(first.switches) == 6 and len(first.phantoms) == 16
    begin = len(tree.fabric.requests)
    tree.fabric.counters["leaf1", 1]["PortXmitData"] = 25
    second, differs = read.take({})
    assert not differs and {one["command"] for one in tree.fabric.requests[begin:]} == {"traffic"}
    assert second.traffic[simulated_fabric.guid(tree.fabric.net.nodes["leaf1"])][1][traffic.XMIT_DATA] == 25


def test_a_switch_that_has_changed_is_read_anew(tree, read):
    assert link_of(read.take({})[0], "leaf2[5]").cable
    begin = len(tree.fabric.requests)
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    reading, differs = read.take({})
    assert differs and asked_since(tree.fabric, begin, "status") == ["leaf2"]
    assert (link_of(reading, "leaf2[5]").state, link_of(reading, "leaf2[5]").cable) == ("Down", False)
    assert not read.take({})[1]


def test_a_switch_with_another_lid_or_subnet_manager_is_read_anew(tree, read):
    read.take({})
    tree.fabric.lids["spine1"] = 99
    reading, differs = read.take({})
    assert differs and reading.switches[simulated_fabric.guid(tree.fabric.net.nodes["spine1"])]["switch"]["lid"] == 99
    tree.fabric.sm_lid = 12
    assert {one["switch"]["sm_lid"] for one in read.take({})[0].switches.values()} == {12}


def test_rows_give_the_states_of_switches_that_wait_to_be_read(tree, read, monkeypatch):
    read.take({})
    monkeypatch.setattr(readings, "MOST_CHANGED", 1)
    names = [switch.name for switch in tree.fabric.net.switches()]
    for name in names:
        tree.fabric.fault({"switch": name, "port": 1, "set": {"drop": 0.5}})
    begin = len(tree.fabric.requests)
    reading, differs = read.take({})
    assert differs and len(asked_since(tree.fabric, begin, "status")) == 1
    assert all(one["ports"][0]["faults"] for one in reading.switches.values())
    for _ in names:
        read.take({})
    assert sorted(asked_since(tree.fabric, begin, "status")) == sorted(names) and not read.take({})[1]


def test_octets_of_a_row_are_by_vl_without_zeros():
    row = [*traffic.NO_ROW, 0, 10, 0, 3, 0, 7, 15, 2, 2]
    assert traffic.by_vl(row[traffic.VLS:]) == ({0: 40, 15: 8}, {3: 28, 15: 8})
    assert traffic.by_vl([]) == ({}, {})
