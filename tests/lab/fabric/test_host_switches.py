# SPDX-License-Identifier: GPL-2.0-or-later
"""The switches of a lab over several hosts: their options, and the GUIDs in their certificates."""

import shlex

import pytest

from lab.base import ui
from lab.fabric import cluster, host_switches, split, spread, topology, topology_kinds, up
from lab.fabric.wanted import Wanted
from lab.hosts import place

A, B = "qemu+ssh://a/system", "qemu+ssh://me@b:2222/system?keyfile=/k"


def test_the_switches_of_hosts_are_joined_to_the_first():
    hosts = place.hosts([A, B, "qemu+ssh://c/system"])
    first, second, third = (host_switches.options(hosts, None, [], number) for number in range(3))
    assert first == ["--tls", ".", "--guid", "0x670696200030000", "--name", "host0", "--listen", "tls:[::]:7471"]
    assert second == ["--tls", ".", "--guid", "0x670696200030001", "--name", "host1", "--connect", "tls:a:7471"]
    assert third[-2:] == second[-2:]
    assert host_switches.guids(None, [], 1) == ["0x670696200030001-0x670696200030001"]
    assert "--listen" not in host_switches.options(hosts[:1], None, [], 0)


def test_hosts_share_the_switches_of_a_topology():
    net = topology.net(topology_kinds.make("fat-tree", [], "4xEDR"))
    hosts, parts = place.hosts([A, B]), split.parts(net, 2)
    assert host_switches.options(hosts, net, parts, 0)[2:] == [
        "--topology", "topology", "--only", "leaf1,leaf2,spine1", "--listen", "tls:[::]:7471"]
    assert host_switches.options(hosts, net, parts, 1)[-1] == "tls:a:7471=leaf1,leaf2,spine1"
    one = host_switches.guids(net, parts, 0)
    assert one == [f"{net.nodes['leaf1'].guid:#x}-{net.nodes['leaf2'].guid:#x}",
                   f"{net.nodes['spine1'].guid:#x}-{net.nodes['spine1'].guid:#x}"]


def test_more_guids_than_a_certificate_has_room_for_are_refused_before_anything_is_built(tmp_path):
    hosts, file = place.hosts([A, B]), tmp_path / "site.topo"
    count = 2 * host_switches.MOST_RANGES + 2
    file.write_text("".join(f'switchguid={0x1000 + 2 * one:#x}\nSwitch 8 "s{one}"\n[1] "h{one}"[1]\n\nCa 1 "h{one}"\n\n'
                            for one in range(count)))
    with pytest.raises(ui.LabError, match="host0: the GUIDs of its 255 switches form 255 ranges.*Take more hosts"):
        up.boot(cluster.Cluster(tmp_path / "lab"), Wanted(2, hosts=hosts, fabric_file=file))
    file.write_text(file.read_text().partition(f'switchguid={0x1000 + 2 * (count - 2):#x}')[0])
    spread.check(Wanted(2, hosts=hosts, fabric_file=file))


@pytest.mark.parametrize("name", ["a b", "a,b", "it's", "a\\b", "-a", "a=b"])
def test_a_switch_with_an_unusual_name_is_named_by_its_guid(tmp_path, name):
    """pib-switch splits lists at commas, and systemd splits the options of a unit at spaces, quotes and backslashes."""
    file = tmp_path / "two.topo"
    file.write_text(f'Switch 8 "{name}"\n[1] "vm0"[1]\n[2] "leaf"[2]\n\nSwitch 8 "leaf"\n[1] "vm1"[1]\n\n'
                    'Ca 1 "vm0"\n\nCa 1 "vm1"\n')
    net, hosts = topology.load(file), place.hosts([A, B])
    parts = split.parts(net, 2)
    assert parts == [[name], ["leaf"]]
    first, second = (host_switches.options(hosts, net, parts, number) for number in (0, 1))
    guid = f"{net.nodes[name].guid:#x}"
    assert first[first.index("--only") + 1] == guid and second[-1] == f"tls:a:7471={guid}"
    assert shlex.split(" ".join(second)) == second
