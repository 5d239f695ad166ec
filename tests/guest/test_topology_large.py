# SPDX-License-Identifier: GPL-2.0-or-later
"""Two guests among the 648 hosts of a fat tree of 90 switches: output of the tools."""
import re

import pytest

import diags
from lab.base import paths
from lab.fabric import topology
from labs import booted
from rdma import PATIENCE_S, lid, sh

pytestmark = pytest.mark.nightly

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-648.topo"


@pytest.fixture(scope="module")
def large():
    with booted("test-topology", 2, fabric_file=FILE) as running:
        yield running


@pytest.fixture(scope="module")
def manager(large):
    return large.node("vm0")


@pytest.fixture(scope="module")
def guest(large):
    return large.node("vm1")


@pytest.fixture(scope="module")
def wanted():
    return topology.load(FILE)


@pytest.fixture(scope="module")
def lids(guest, wanted):
    return diags.lids(guest, wanted)


@pytest.fixture(scope="module")
def some(wanted):
    """Two switches, of either level, and two hosts: a guest and a phantom."""
    switches = list(wanted.switches())
    hosts = list(wanted.hosts())
    return [switches[0], switches[-1], hosts[1], hosts[-1]]


def test_ibnetdiscover_equals_the_file(guest, wanted):
    assert topology.net(sh(guest, "ibnetdiscover")).wiring() == wanted.wiring()


def test_iblinkinfo_shows_every_link(guest, wanted):
    links = sh(guest, "iblinkinfo -l")
    assert len(re.findall(r"Active/\s+LinkUp", links)) == 2 * len(wanted.wiring())


def test_ibqueryerrors_finds_none(manager, guest):
    with diags.quiet((manager, guest)):
        diags.clear_errors(guest)           # the start of each driver has taken its link down once
        assert "0 bad nodes found" in sh(guest, "ibqueryerrors")


def test_ibtracert(manager, guest, lids):
    """Traces both directions between the guests, and from one guest to every host."""
    for one, other in ((manager, guest), (guest, manager)):
        assert "To ca" in sh(one, f"ibtracert {lid(one)} {lid(other)}")
    hosts = "".join(f"{number}\n" for number in lids.values())
    done = guest.run([f"while read -r to; do echo way $to; ibtracert {lid(guest)} $to || echo FAILED; done"],
                     stdin=hosts.encode(), timeout_s=PATIENCE_S * 2)
    ways = done.stdout.decode().split("way ")[1:]
    assert len(ways) == len(lids)
    assert not [way for way in ways if "FAILED" in way or "\nTo " not in way]


def test_each_forwarding_table_has_the_lid_of_every_node(guest, lids, wanted, some):
    for node in some[:2]:
        table = sh(guest, f"ibroute {lids[node.name]}")
        missing = [name for name, number in lids.items() if f"{number:#06x}" not in table]
        assert not missing, f"not in the LFT of {node.name}: {missing}"
    dump = sh(guest, "dump_lfts.sh 2>/dev/null || ibroute -a >/dev/null; dump_fts", timeout=PATIENCE_S * 2)
    assert dump.count("Unicast lids") == len(list(wanted.switches()))


@pytest.mark.parametrize("record", diags.RECORDS)
def test_saquery(manager, guest, record):
    """Queries one path only: all paths would be 420,000 records."""
    only = f"--src-to-dst {lid(guest)}:{lid(manager)}" if record == "PathRecord" else ""
    sh(guest, f"saquery --timeout 100000 --smkey 1 {record} {only}")


@pytest.mark.parametrize("attribute", diags.ATTRIBUTES)
def test_smpquery(guest, lids, some, attribute):
    diags.smpquery(guest, lids, some, attribute)


@pytest.mark.parametrize("option", diags.PERFQUERY)
def test_perfquery(guest, lids, some, option):
    for node in some:
        diags.perfquery(guest, option, lids[node.name])


def test_ibping_and_ibsysstat(manager, guest):
    diags.ibping(guest, manager, 100)
    diags.ibsysstat(guest, manager)


def test_ibportstate(guest, lids, wanted):
    """Changes a leaf's port to a spine."""
    leaf = next(node for node in wanted.switches())
    diags.change_port(guest, f"{lids[leaf.name]} 36")


def test_traffic(manager, guest):
    assert diags.bandwidth(manager, guest) > 0


def test_opensm_log_has_no_error(manager):
    diags.no_errors(manager)
