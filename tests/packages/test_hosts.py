# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib up --connect: guests and switches on two hosts, which are libvirtds in namespaces on this one. The URI of one
leads by ssh if this machine has a server for it, that of the other by a Unix socket."""

import importlib.util
import os
import shutil

import pytest

import libvirt_host
from lab import status
from lab.base import paths
from lab.fabric import cluster, measure, spread, subnet, topology, up
from lab.fabric.wanted import Wanted
from lab.guests import kvm
from lab.hosts import place

TREE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
HERE, THERE, A, B = "10.213.1.1", "10.213.1.2", "10.213.2.1", "10.213.2.2"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin") is not None
NETWORK = """set -e
ip link add pib-t0 type veth peer name pib-t1 netns {0}
ip link add pib-t2 netns {0} type veth peer name pib-t2 netns {1}
ip addr add {2}/24 dev pib-t0
ip link set pib-t0 up
nsenter -t {0} -n sh -ec 'ip addr add {3}/24 dev pib-t1; ip link set pib-t1 up
                          ip addr add {4}/24 dev pib-t2; ip link set pib-t2 up'
nsenter -t {1} -n sh -ec 'ip addr add {5}/24 dev pib-t2; ip link set pib-t2 up'
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("libvirtd") or not importlib.util.find_spec("libvirt"),
    reason="wants root, and the packages libvirt-daemon-system, libvirt-clients and python3-libvirt")


@pytest.fixture(name="two", scope="module")
def _two(tmp_path_factory):
    """Two hosts, joined by a cable, and a cable from here to the first."""
    base, _ = up.prepare()
    made = []
    try:
        for name, ssh in (("a", SSHD), ("b", False)):
            made.append(libvirt_host.LibvirtHost(tmp_path_factory.mktemp(name), ssh))
        a, b = (host.daemon.pid for host in made)
        libvirt_host.wait_until(lambda: all(os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
                                            for pid in (a, b)), "namespaces")
        libvirt_host.run("sh", "-c", NETWORK.format(a, b, HERE, THERE, A, B))
        for host in made:
            host.start()
        with pytest.MonkeyPatch.context() as patch:     # libvirt takes KVM that is there but does not work
            patch.setenv(kvm.VARIABLE, kvm.accelerator(base))
            yield made
    finally:
        for host in made:
            host.end()


@pytest.fixture(name="lab", scope="module", params=[None, TREE], ids=["a switch on each", "a topology"])
def _lab(two, request):
    texts = [f"{two[0].uri(THERE)}#{A}", two[1].uri("")]
    running = cluster.Cluster(paths.RUN / "hosts")
    try:
        up.boot(running, Wanted(2, fabric_file=request.param, hosts=place.hosts(texts)))
        yield running
    finally:
        running.down()


@pytest.mark.skipif(not SSHD, reason="wants sshd of the package openssh-server")
def test_one_host_is_reached_by_ssh(two):
    assert two[0].uri(THERE).startswith("qemu+ssh://root@")


def test_each_host_runs_its_guest_and_a_switch(lab, two):
    called = spread.names(lab)
    assert [host.virsh("list", "--name") for host in two] == [[called.domain("vm0")], [called.domain("vm1")]]
    for number, host in enumerate(two):
        assert host.processes().count("pib-switch") == 1
        assert lab.node(f"vm{number}").run(["hostname"]).stdout.decode().strip() == f"vm{number}"


def test_the_switches_are_joined_by_tls(lab, two):
    """The first switch listens only on a tls: address; the second one connects to it."""
    options = [host.inside("cat", spread.names(lab).switch_files / "options") for host in two]
    assert f"--listen tls:{A}:{place.PORT}" in options[0] and f"--connect tls:{A}:{place.PORT}" in options[1], options
    assert not any("tcp:" in words for words in options)
    said = two[0].inside("ss", "-tnH", "state", "established", f"( sport = :{place.PORT} )")
    assert B in said, said


def test_the_guests_are_one_subnet(lab):
    ports = subnet.ports(lab)
    assert [port.state for port in ports] == ["ACTIVE"] * 2 and len({port.sm_lid for port in ports}) == 1
    found = topology.net(lab.node("vm1").run(["ibnetdiscover"]).stdout.decode())
    wanted = topology.load(TREE) if lab.record.topology else None
    assert found.wiring() == wanted.wiring() if wanted else len(found.switches()) == 2
    assert measure.measure(lab.node("vm0"), lab.node("vm1")).bandwidth_mib_s > 0


def test_status_shows_hosts_ports_and_switches(lab, capsys):
    assert status.status(lab) == 0
    said = capsys.readouterr().out
    assert all(f"host{number}: {uri}\n  vm{number}\n" in said for number, uri in enumerate(lab.record.hosts)), said
    assert said.count("ACTIVE") == 2 and said.count("\nSwitch ") == (6 if lab.record.topology else 2), said


def test_a_guest_starts_anew_on_its_host(lab, two):
    lab.node("vm1").run(["touch", "/written"])
    up.reboot(lab, "vm1")
    assert lab.node("vm1").run(["test", "-e", "/written"]).returncode == 1
    assert two[1].virsh("list", "--name") == [spread.names(lab).domain("vm1")]


def test_down_leaves_nothing_on_the_hosts(lab, two):
    called = spread.names(lab)
    lab.down()
    for host in two:
        assert host.virsh("list", "--all", "--name") == [] and host.virsh("pool-list", "--all", "--name") == []
        libvirt_host.wait_until(lambda host=host: "pib-switch" not in host.processes(), "the switch's end")
        assert called.lab not in host.inside("ls", called.switch_files.parent, called.guest_files.parent)
