# SPDX-License-Identifier: GPL-2.0-or-later
"""One fabric in two switch processes that are joined over TCP, a guest at each: opensm sees one
subnet, traffic crosses, and the cables between the processes are cut, stalled and mended."""
import signal
import socket
import time

import pytest

import diags
from lab.base import paths
from lab.fabric import topology
from labs import booted
from rdma import sh, wait_active, wait_until
from tcp_proxy import Proxy, free_port
from traffic import goes_on, transfer

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"


@pytest.fixture(scope="module")
def tree():
    with booted("test-split", 2, fabric_file=FILE, switch_processes=2) as running:
        yield running


@pytest.fixture(scope="module")
def guests(tree):
    return [tree.node(name) for name in tree.nodes()]


def test_opensm_sees_one_subnet(tree, guests):
    wanted = topology.load(FILE)
    for guest in guests:
        assert topology.net(sh(guest, "ibnetdiscover")).wiring() == wanted.wiring()
    assert "remote" in tree.switch(0).ctl("nodes") and "remote" in tree.switch(1).ctl("nodes")
    assert diags.bandwidth(*guests, timeout=19) > 0


def have(host):
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
        return True
    except OSError:
        return False


@pytest.fixture(params=["127.0.0.1", pytest.param("::1", marks=pytest.mark.nightly)])
def cable(tree, guests, request):
    """Restarts both processes, with a proxy between them, on IPv4 and on IPv6."""
    host = request.param
    if not have(host):
        pytest.skip(f"this host has no {host}")
    port = free_port()
    proxy = Proxy(host, (host, port))
    parts = tree.state.parts
    address = f"[{host}]" if ":" in host else host
    for number in (0, 1):
        tree.stop_switch(signal.SIGKILL, number)
    tree.start_switch("--only", ",".join(parts[0]), "--listen", f"tcp:{address}:{port}", number=0)
    tree.start_switch("--only", ",".join(parts[1]), "--connect", proxy.address, number=1)
    wait_active(*guests)
    wait_until(lambda: trunks(tree) == {"Active"}, "the cables between the processes")
    yield proxy
    proxy.close()


def trunks(tree):
    """States of the ports whose cables lead to the other process."""
    net, states = topology.load(FILE), set()
    for number, names in enumerate(tree.state.parts):
        for name in names:
            lines = tree.switch(number).ctl("--switch", name, "status").splitlines()
            shown = {line.split()[0]: line for line in lines if line.split()[:1]}
            states |= {next((state for state in ("Active", "Armed", "Initialize", "Down")
                             if state in shown[str(port)]), "?")
                       for port, (peer, _) in net.nodes[name].peers.items()
                       if net.nodes[peer].kind == "Switch" and peer not in names}
    return states


def test_traffic_survives_cut_and_stalled_cables(tree, guests, cable):
    with transfer(*guests, "-u 20") as program:
        goes_on(program, lambda: cable.carried)
        cable.cut()
        wait_until(lambda: trunks(tree) == {"Down"}, "the ports to notice")
        for number in (0, 1):           # neither process waits for the other
            assert tree.switch(number).ctl("nodes")
        cable.mend()
        wait_until(lambda: trunks(tree) == {"Active"}, "the cables to be back")
        goes_on(program, lambda: cable.carried)
        cable.stall()
        time.sleep(2)
        assert tree.switch(0).ctl("nodes") and tree.switch(1).ctl("nodes")
        cable.flow()
        goes_on(program, lambda: cable.carried)
