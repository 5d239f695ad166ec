# SPDX-License-Identifier: GPL-2.0-or-later
"""Topology files: made, read again, and the examples that are in the tree."""

import itertools
import pathlib
import re

import pytest

from lab import __main__ as command_line
from lab.base import paths, ui
from lab.fabric import split, topology, topology_kinds

EXAMPLES = sorted((paths.ROOT / "examples" / "topologies").glob("*.topo"))


@pytest.mark.parametrize("kind", topology_kinds.KINDS)
def test_a_made_topology_is_read_back(kind):
    net = topology.net(topology_kinds.make(kind, [], "4xHDR"))
    assert net.hosts() and net.switches()
    assert all(host.peers for host in net.hosts())
    guids = [node.guid for node in net.nodes.values()]
    assert len(set(guids)) == len(guids)
    assert {guid >> 56 for guid in guids} == {0x06}
    for node in net.nodes.values():
        for port, (peer, peer_port) in node.peers.items():
            assert net.nodes[peer].peers[peer_port] == (node.name, port)
            assert node.speeds[port] == "4xHDR"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_what_its_command_makes(path):
    text = path.read_text()
    command = next(line for line in text.splitlines() if "./pib topology" in line).split()
    assert topology_kinds.make(command[3], command[4:], "4xEDR") == text


def test_the_tree_has_a_dozen_examples():
    assert len(EXAMPLES) >= 12


def test_wrong_settings_of_a_topology_are_refused():
    net = topology.net(topology_kinds.make("fat-tree", ["leaves=3", "hosts=2"], "4xEDR"))
    assert (len(net.hosts()), len(net.switches())) == (6, 5)
    for wrong in ("leaves", "leaves=x", "leaves=0", "leafs=3"):
        with pytest.raises(ui.LabError, match="NAME=NUMBER"):
            topology_kinds.make("fat-tree", [wrong], "4xEDR")
    with pytest.raises(ui.LabError, match="no such kind"):
        topology_kinds.make("mobius", [], "4xEDR")
    with pytest.raises(ui.LabError, match="leaf1 has 36 ports, and needs one more .* take fewer hosts"):
        topology_kinds.make("fat-tree", ["hosts=40"], "4xEDR")


@pytest.mark.parametrize("words, said", [
    ("hypercube dimensions=20", "more than 49151 switches and hosts.*take fewer"),
    ("mesh x=49151 y=49151", "more than 49151 switches and hosts"),
    ("dragonfly groups=900 routers=30 globals=30 hosts=1", "more than 49151 switches and hosts"),
    ("hypercube dimensions=60 hosts=4", "switch0 would have 64 ports, and a switch has at most 63: take fewer"),
    ("dragonfly routers=40 globals=40", "would have 81 ports"), ("ring hosts=62", "would have 64 ports"),
    ("line switches=99999999999", "NUMBER 1 to 49151"), ("line switches=" + "9" * 5000, "NUMBER 1 to 49151")])
def test_a_fabric_that_the_switch_refuses_is_not_made(words, said, monkeypatch):
    """make() refuses before it makes the links, which could take minutes."""
    count, link = itertools.count(), topology.Net.link
    monkeypatch.setattr(topology.Net, "link", lambda *given: next(count) < 200_000 and link(*given))
    kind, *settings = words.split()
    with pytest.raises(ui.LabError, match=said):
        topology_kinds.make(kind, settings, "4xEDR")
    assert next(count) < 200_000


def test_a_file_that_is_too_large_for_the_switch_is_not_made(monkeypatch):
    text = topology_kinds.make("star", [], "4xEDR")
    monkeypatch.setattr(topology, "MOST_BYTES", len(text) - 1)
    with pytest.raises(ui.LabError, match="pib-switch reads at most .*: take fewer links"):
        topology_kinds.make("star", [], "4xEDR")


def test_the_limits_of_a_fabric_are_those_of_the_switch():
    folder = paths.ROOT / "fabric-switch"
    limits = dict(re.findall(r"constexpr \S+ (kMax\w+) = (.*);", (folder / "fabric" / "topology.h").read_text()
                             + (folder / "switch" / "switch_node.h").read_text()))
    assert int(limits["kMaxTopologyNodes"], 16) == topology.MOST_NODES
    assert int(limits["kMaxPorts"]) == topology.MOST_PORTS
    assert limits["kMaxTopologyBytes"] == "size_t{64} << 20" and topology.MOST_BYTES == 64 << 20


def test_a_large_fabric_is_made_in_time_that_grows_with_its_size(monkeypatch):
    """Numbers of nodes are counted, not found by a look at all nodes."""
    monkeypatch.setattr(topology.Net, "hosts", lambda _net: [])
    monkeypatch.setattr(topology.Net, "switches", lambda _net: [])
    text = topology_kinds.make("line", ["switches=3", "hosts=1"], "4xEDR")
    assert [host.name for host in topology.net(text).nodes.values() if host.kind == "Ca"] == ["node1", "node2", "node3"]


@pytest.mark.parametrize("wrong", ["foo", "4xedr", "EDR", "4x", "3xEDR", "4x EDR", ""])
def test_a_speed_that_the_switch_would_pass_over_is_refused(wrong):
    with pytest.raises(ui.LabError, match="expected a width and a speed, such as 4xEDR"):
        topology_kinds.make("single", [], wrong)


def test_the_speeds_are_those_of_the_switch():
    source = (paths.ROOT / "fabric-switch" / "fabric" / "topology_line.cc").read_text()
    table = source.split("kSpeeds[] = {", 1)[1].split("};", 1)[0]
    assert re.findall(r'\{"(\w+)",', table) == list(topology_kinds.SPEEDS)
    widths = source.split("widths_up_to(", 1)[1].split("default:", 1)[0]
    assert [f"{lanes}x" for lanes in re.findall(r"case (\d+):", widths)] == list(topology_kinds.WIDTHS)


def test_the_heading_of_a_file_has_the_command_that_makes_it_with_its_speed():
    text = topology_kinds.make("ring", ["switches=3"], "4xHDR")
    command = next(line for line in text.splitlines() if "./pib topology" in line)
    options = command_line.parser().parse_args(command.split()[2:])
    assert topology_kinds.make(options.kind, options.settings, options.speed) == text and "4xHDR" in command


def test_a_link_may_be_named_at_one_end():
    net = topology.net('Switch 4 "s"\n[2] "h"\n\nCa 1 "h" # "a host"\n')
    assert net.nodes["h"].peers == {1: ("s", 2)}
    assert net.nodes["h"].description == "a host"
    assert net.nodes["h"].port_guid(1) == net.nodes["h"].guid + 1


def test_guests_take_hosts_far_apart():
    net = topology.net(topology_kinds.make("fat-tree", [], "4xEDR"))
    taken = topology.places(net, 4)
    assert len({host.peers[1][0] for host in taken}) == 4
    with pytest.raises(ui.LabError, match="too few"):
        topology.places(net, 17)
    net.host("vm0"), net.host("vm1")
    assert [host.name for host in topology.places(net, 2)] == ["vm0", "vm1"]


def test_a_fabric_is_split_between_processes_with_hosts():
    net = topology.net(topology_kinds.make("fat-tree", [], "4xEDR"))
    made = split.parts(net, 2)
    assert made == [["leaf1", "leaf2", "spine1"], ["leaf3", "leaf4", "spine2"]]
    one, other = topology.places(net, 2)
    assert (split.part_of(net, made, one), split.part_of(net, made, other)) == (0, 1)
    trunks = split.trunks(pathlib.Path("/tmp/x"), 2)
    assert split.options(net, made, 0, trunks[0], trunks) == ["--only", "leaf1,leaf2,spine1",
                                                              "--listen", "unix:/tmp/x/trunk0"]
    assert split.options(net, made, 1, trunks[1], trunks) == ["--only", "leaf3,leaf4,spine2",
                                                              "--connect", "unix:/tmp/x/trunk0=leaf1,leaf2,spine1"]
    with pytest.raises(ui.LabError, match="at most 4"):
        split.parts(net, 5)


def test_adapters_with_two_ports_keep_their_switches_together():
    net = topology.net(topology_kinds.make("pair", [], "4xEDR"))
    with pytest.raises(ui.LabError, match="at most 1"):
        split.parts(net, 2)


def test_two_adapters_on_one_cable_are_refused(tmp_path):
    file = tmp_path / "pair.topo"
    file.write_text('Ca 1 "vm0"\n[1] "vm1"[1]\n\nCa 1 "vm1"\n')
    with pytest.raises(ui.LabError, match=r'pair.topo: vm0\[1\] is joined to "vm1".*Put a switch between them'):
        topology.load(file)


def test_a_guest_takes_no_switch_and_no_host_without_a_cable():
    net = topology.net('Switch 4 "vm0"\n[1] "a"[1]\n[2] "b"[1]\n\nCa 1 "a"\n\nCa 1 "b"\n\nCa 1 "vm1"\n')
    assert [host.name for host in topology.places(net, 2)] == ["a", "b"]
    with pytest.raises(ui.LabError, match="vm1 has no cable"):
        split.part_of(net, split.parts(net, 1), net.nodes["vm1"])
