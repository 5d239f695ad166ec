# SPDX-License-Identifier: GPL-2.0-or-later
"""Four guests in a two-level fat tree of six switches and sixteen hosts: output of the tools,
opensm's routing engines, and traffic while cables are pulled."""
import itertools
import re
import time

import pytest

import diags
import managers
from lab.base import paths
from lab.fabric import source, subnet, subnet_progress, topology
from lab.web import answers, watch
from labs import booted
from rdma import DEVICE, PATIENCE_S, lid, pair, sh, wait_active, wait_until
from traffic import goes_on, received, transfer

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
GUESTS = 4


@pytest.fixture(scope="module")
def tree():
    with booted("test-topology", GUESTS, fabric_file=FILE) as running:
        yield running


@pytest.fixture(scope="module")
def guests(tree):
    return [tree.node(name) for name in tree.nodes()]


@pytest.fixture(scope="module")
def wanted():
    return topology.load(FILE)


@pytest.fixture(scope="module")
def lids(guests, wanted):
    return diags.lids(guests[0], wanted)


# ---- what the tools say

def test_ibnetdiscover_equals_the_file(guests, wanted):
    for guest in (guests[0], guests[-1]):
        assert topology.net(sh(guest, "ibnetdiscover")).wiring() == wanted.wiring()


def test_iblinkinfo_shows_every_link(guests, wanted):
    text = sh(guests[0], "iblinkinfo -l")
    assert len(re.findall(r"Active/\s+LinkUp", text)) == 2 * len(wanted.wiring()), text


def test_the_switch_knows_that_every_node_has_a_lid_and_every_port_is_active(tree, wanted):
    def done():
        return subnet_progress.look([tree.switch().control]).done == 1
    wait_until(done, "the end of opensm's first sweep")
    assert subnet_progress.look([tree.switch().control]).nodes == len(wanted.nodes) - GUESTS


def test_ibqueryerrors_finds_what_was_set_and_nothing_else(tree, guests):
    none = r"## Summary: 22 nodes checked, 0 bad nodes found"
    with diags.quiet(guests):
        diags.clear_errors(guests[0])             # the start of each driver has taken its link down once
        text = sh(guests[0], "ibqueryerrors")
        assert re.search(none, text), text
        assert tree.switch().ctl("run", "PerformanceSet", "spine1[2]", "SymbolErrors=7") == ""
        text = sh(guests[0], "ibqueryerrors", check=False)[1]
        assert re.search(r"port 2: \[SymbolErrorCounter == 7 ", text), text
        diags.clear_errors(guests[0])
        assert re.search(none, sh(guests[0], "ibqueryerrors"))


def test_ibtracert_between_all_hosts(guests, lids, wanted):
    """The path goes up at most to a spine, and down again."""
    hosts = [lids[node.name] for node in wanted.hosts()]
    ways = "".join(f"{a} {b}\n" for a, b in itertools.permutations(hosts, 2))
    done = guests[0].run(["while read -r a b; do echo way $a $b; ibtracert $a $b || echo FAILED; done"],
                         stdin=ways.encode(), timeout_s=PATIENCE_S * 2)
    text = done.stdout.decode()
    ways = text.split("way ")[1:]
    assert len(ways) == len(hosts) * (len(hosts) - 1)
    for way in ways:
        assert "FAILED" not in way and "To ca" in way, way
        assert way.count("[") // 2 in (2, 4), way


def test_each_forwarding_table_has_the_lid_of_every_node(guests, lids, wanted):
    for node in wanted.switches():
        text = sh(guests[0], f"ibroute {lids[node.name]}")
        for name, number in lids.items():
            assert f"{number:#06x}" in text, f"{name} is not in the LFT of {node.name}\n{text}"
    dump = sh(guests[0], "dump_lfts.sh 2>/dev/null || ibroute -a >/dev/null; dump_fts")
    assert dump.count("Unicast lids") == len(wanted.switches()), dump[:2000]


@pytest.mark.parametrize("record", diags.RECORDS)
def test_saquery(guests, record):
    """With opensm's default SM_Key, without which the SA refuses partition tables."""
    sh(guests[1], f"saquery --smkey 1 {record}")


def test_saquery_of_paths(guests, lids):
    text = sh(guests[1], f"saquery -p --src-to-dst {lid(guests[1])}:{lid(guests[3])}")
    assert f"dlid....................{lid(guests[3])}" in text.replace("0x", ""), text


@pytest.mark.parametrize("attribute", diags.ATTRIBUTES)
def test_smpquery_of_every_node(guests, lids, wanted, attribute):
    diags.smpquery(guests[0], lids, wanted.nodes.values(), attribute)


def test_smpquery_of_an_attribute_of_a_vendor_is_refused(guests, lids):
    assert sh(guests[0], f"smpquery mlnxextportinfo {lids['leaf1']} 1", check=False)[0] != 0


@pytest.mark.parametrize("option", diags.PERFQUERY)
def test_perfquery_of_every_kind_of_node(guests, lids, option):
    for name in ("spine2", "leaf1", "node6"):
        diags.perfquery(guests[0], option, lids[name])


def test_perfquery_resets(guests, lids, wanted):
    """Clears the counters of a leaf's port to a guest."""
    host = next(node for node in wanted.hosts() if lids[node.name] == lid(guests[3]))
    leaf, port = host.peers[1]

    def sent():
        text = sh(guests[0], f"perfquery -x {lids[leaf]} {port}")
        return int(re.search(r"PortXmitPkts:\.+(\d+)", text)[1])

    line = f"ib_write_bw -d {DEVICE} -F -s 65536 -n 200 -u 18"      # 16 packets in each message
    pair(guests[3], guests[0], line, f"{line} {guests[3].name}")
    assert sent() >= 3200
    sh(guests[0], f"perfquery -x -R {lids[leaf]} {port}")
    assert sent() < 3200


def data_by_level(guest, lid, option):
    text = sh(guest, f"perfquery {option} {lid} 1")
    return [int(value) for value in re.findall(r"DataSL\d+:\.*(\d+)", text)]


def test_perfquery_counts_data_by_service_level(guests, lids):
    """A message on SL 3 is counted for its level at both ends, and nowhere else."""
    sender, receiver = guests[0], guests[1]
    port = lid(sender)
    before = data_by_level(sender, port, "-X")
    assert len(before) == 16
    pair(receiver, sender, f"ib_write_bw -d {DEVICE} -F -S 3 -s 65536 -n 100 -u 18",
         f"ib_write_bw -d {DEVICE} -F -S 3 -s 65536 -n 100 -u 18 {receiver.name}")
    sent = [now - then for now, then in zip(data_by_level(sender, port, "-X"), before)]
    assert sent[3] >= 100 * 65536 // 4
    assert all(words < 65536 for level, words in enumerate(sent) if level != 3), sent
    sh(sender, f"perfquery -X -R {port} 1 8")
    assert data_by_level(sender, port, "-X")[3] == 0
    assert data_by_level(sender, port, "-X")[0] > 0


def test_ibping_and_ibsysstat(guests):
    diags.ibping(guests[0], guests[3], 100)
    diags.ibsysstat(guests[0], guests[3])


def test_ibportstate(guests, lids):
    """Changes the port of leaf1 that leads to spine1."""
    diags.change_port(guests[0], f"{lids['leaf1']} 5")


# ---- traffic


def test_traffic_between_all_guests(guests):
    for one, other in itertools.combinations(guests, 2):
        assert diags.bandwidth(one, other) > 0


def test_traffic_goes_on_while_cables_between_switches_are_pulled(tree, guests):
    """leaf1 always keeps one of its two uplinks; retries save the packets in flight."""
    control, receiver = tree.switch(), guests[3]
    with transfer(receiver, guests[0], "-u 19") as program:
        for port in ("leaf1[5]", "leaf1[6]"):
            assert control.ctl("run", "Unlink", port) == ""
            goes_on(program, lambda: received(receiver))
            assert control.ctl("run", "ReLink", port) == ""
            wait_until(lambda port=port: "Active" in _state(control, port), f"{port} to be Active again")
            goes_on(program, lambda: received(receiver))


def _state(control, port):
    switch, number = re.fullmatch(r"(\w+)\[(\d+)\]", port).groups()
    lines = control.ctl("--switch", switch, "status").splitlines()
    return next((line for line in lines if line.split()[:1] == [number]), "")


# ---- routing engines

@pytest.fixture
def no_manager(guests):
    """opensm's log is complete only when opensm has ended: the tests run it for one sweep each."""
    managers.stop(guests[0])
    yield
    subnet.start_manager(guests[0])
    wait_until(lambda: "SMINFO_MASTER" in sh(guests[1], "sminfo", check=False)[1], "a master SM")


@pytest.mark.parametrize("engine", ["ftree", "dfsssp", *(pytest.param(engine, marks=pytest.mark.nightly) for engine in (
    "minhop", "updn", "dnup", "lash", "nue"))])
def test_routing_engine(guests, no_manager, engine):
    log = managers.once(guests[0], f"-R {engine}")
    assert f"{engine} tables configured" in log, log[-3000:]
    wait_active(*guests)
    for other in guests[1:]:
        assert diags.bandwidth(guests[0], other, 1) > 0


@pytest.mark.nightly
def test_engine_against_engine_on_the_page(tree, guests, no_manager):
    """minhop and ftree, as a user compares them on the page of `./pib web`."""
    watcher = watch.Watcher(source.Lab(tree.directory))
    page, moments = answers.Answers(watcher), {}

    def seen(engine):
        watcher.read_guests()
        watcher.read_fabric()
        return watcher.routing.engine(time.time()) == engine
    try:
        for engine in ("minhop", "ftree"):
            sh(guests[0], f"opensm -o -R {engine} -f {managers.LAB_LOG}")
            wait_until(lambda engine=engine: seen(engine), f"the routes of {engine}")
            watcher.read_fabric()
            moments[engine] = time.time()
        found = page.rerouted({"begin": str(moments["minhop"]), "end": str(moments["ftree"])})
        assert found["switches"], "the engines route alike"
        for when, engine in (("before", "minhop"), ("after", "ftree")):
            assert (found[when]["engine"], found[when]["loops"]) == (engine, 0)
            shown = page.balance({"at": str(moments[engine])})
            assert shown["engine"] == engine
            assert sum(found[when]["counts"]) == sum(
                count for link, _, count in shown["links"]
                if watcher.fabric.nodes[watcher.fabric.links[link].b].kind == "switch")
        now, then = page.balance({}), page.balance({"at": str(moments["ftree"])})
        assert sorted(now["links"]) == sorted(then["links"])
    finally:
        watcher.stop()


def test_opensm_log_has_no_error(guests):
    diags.no_errors(guests[0])
