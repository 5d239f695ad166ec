# SPDX-License-Identifier: GPL-2.0-or-later
"""The data of ./pib web: nodes, folds, time line and routes."""

import collections
import copy

import pytest

import simulated_fabric
from lab.base import paths
from lab.fabric import topology
from lab.fabric.wiring import HcaPort
from lab.web import connections, model, routes as routes_module, routing, traffic
from lab.web.routes import Routes, strongly_connected
from lab.web.timeline import Timeline

EXAMPLES = paths.ROOT / "examples" / "topologies"
GIB = 1 << 30


def reading(fabric: simulated_fabric.Fabric) -> model.Reading:
    """A reading as readings.Readings makes it from a process's answers."""
    switches, rows, changes = {}, {}, {}
    for switch in fabric.net.switches():
        guid, answer = simulated_fabric.guid(switch), fabric.traffic({"switch": switch.name})
        switches[guid] = {**fabric.status({"switch": switch.name}), "name": switch.name, "process": 0}
        rows[guid] = {row[traffic.PORT]: row for row in answer["rows"]}
        changes[guid] = answer["changes"]
    phantoms = {node["guid"] for node in fabric.nodes({})["nodes"] if node["type"] == "phantom"}
    guests = {fabric.net.nodes[node].port_guid(1): HcaPort(guest, 0, 1, 0, fabric.lids[node], 0)
              for node, guest in fabric.guests.items()}
    return model.Reading(switches, rows, changes, phantoms, guests)


def simulated(name: str, guests: dict[str, str] | None = None) -> simulated_fabric.Fabric:
    return simulated_fabric.Fabric(topology.load(EXAMPLES / f"{name}.topo"), guests)


@pytest.fixture(name="tree")
def small_tree() -> simulated_fabric.Fabric:
    return simulated("fat-tree-16", {"node1": "vm0", "node16": "vm1"})


def by_name(fabric: model.Fabric) -> dict[str, model.Node]:
    return {node.name: node for node in fabric.nodes.values()}


def link_between(fabric: model.Fabric, one: str, other: str) -> model.Link:
    found, = [link for link in fabric.links.values()
              if {fabric.nodes[link.a].name, fabric.nodes[link.b].name} == {one, other}]
    return found


# -- nodes, links, folds -------------------------------------------------------------

def test_nodes_and_links_are_those_of_the_topology(tree):
    made = model.fabric_of(reading(tree))
    assert {int(guid, 16) for guid in made.nodes} == {node.guid for node in tree.net.nodes.values()}
    assert {frozenset(((int(link.a, 16), link.a_port), (int(link.b, 16), link.b_port)))
            for link in made.links.values()} == tree.net.wiring()
    assert {link.rate for link in made.links.values()} == {"4X EDR"}
    assert {link.capacity for link in made.links.values()} == {12.5e9}


def test_nodes_have_kinds_and_lids_and_one_is_the_subnet_manager(tree):
    nodes = by_name(model.fabric_of(reading(tree)))
    assert (nodes["vm0"].kind, nodes["vm0"].guest, nodes["node2"].kind, nodes["leaf1"].kind) == (
        "guest", "vm0", "phantom", "switch")
    assert nodes["vm0"].lids == [tree.lids["node1"]] and nodes["spine2"].lids == [tree.lids["spine2"]]
    assert [name for name, node in nodes.items() if node.sm] == ["vm0"]


def test_a_cable_pulled_at_either_end_takes_its_link_down(tree):
    for end in (("leaf1", 5), tree.net.nodes["leaf1"].peers[5]):
        tree.pulled = {end}
        link = link_between(model.fabric_of(reading(tree)), "leaf1", tree.net.nodes["leaf1"].peers[5][0])
        assert not link.cable and link.state == "Down"


def test_hosts_fold_under_their_leaf_and_levels_grow_upwards(tree):
    made = model.fabric_of(reading(tree))
    nodes = by_name(made)
    assert {node.level for name, node in nodes.items() if name.startswith("leaf")} == {1}
    assert {node.level for name, node in nodes.items() if name.startswith("spine")} == {2}
    assert nodes["vm0"].leaf == nodes["leaf1"].id and nodes["vm1"].leaf == nodes["leaf4"].id
    assert {node.pod for node in nodes.values()} == {""}


def test_a_large_tree_falls_into_its_pods():
    nodes = by_name(model.fabric_of(reading(simulated("fat-tree-648"))))
    assert {node.pod for name, node in nodes.items() if name.startswith("core")} == {""}
    for number in range(1, 7):
        members = {name for name, node in nodes.items() if node.pod == f"pod {number}"}
        assert len(members) == 12 + 108
        assert {name for name in members if name.startswith("pod")} == {
            name for name in nodes if name.startswith(f"pod{number}-")}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.topo")))
def test_every_host_of_every_example_has_a_leaf_to_fold_under(name):
    made = model.fabric_of(reading(simulated(name)))
    for node in made.nodes.values():
        assert (node.level == 0) == (node.kind != "switch")
        assert node.kind == "switch" or made.nodes[node.leaf].kind == "switch"


def test_names_sort_by_their_numbers():
    assert sorted(["leaf10", "leaf2", "a"], key=model.natural) == ["a", "leaf2", "leaf10"]
    assert sorted(["leaf2²", "²", "leaf2"], key=model.natural) == ["leaf2", "leaf2²", "²"]


# -- time line ----------------------------------------------------------------------------

def test_entries_of_a_switch_s_journal_are_read_once(tree):
    made = model.fabric_of(reading(tree))
    leaf, line = by_name(made)["leaf1"], Timeline()
    tree.link({"switch": "leaf1", "port": 1, "state": "down"})
    for _ in range(3):
        line.read_switch(made, leaf, tree.journal({"switch": "leaf1"}), 1000.0)
    assert [(event.kind, event.text) for event in line.events] == [
        ("fault", "leaf1[1] – vm0[1]: the cable was pulled"), ("down", "leaf1[1] – vm0[1]: went down")]
    tree.fault({"switch": "leaf1", "port": 1, "set": {"drop": 0.1}})
    line.read_switch(made, leaf, tree.journal({"switch": "leaf1"}), 1000.0)
    assert line.events[-1].text == "leaf1[1] – vm0[1], at leaf1[1]: faults are injected: drop 0.1"
    assert line.as_json(2) == [line.as_json()[2]]


def test_a_journal_that_lost_entries_or_began_anew_is_read(tree):
    made = model.fabric_of(reading(tree))
    leaf, line = by_name(made)["leaf1"], Timeline()
    entry = {"age_ns": 0, "port": 1, "change": "up", "times": 1, "detail": ""}
    for answer, total in (({"lost": 0, "entries": [entry] * 2}, 2), ({"lost": 5, "entries": [entry] * 2}, 4),
                          ({"lost": 5, "entries": [entry] * 3}, 5), ({"lost": 0, "entries": [entry]}, 6)):
        line.read_switch(made, leaf, answer, 1000.0)
        assert line.last() == total


def test_many_ports_that_come_up_are_one_event(tree):
    """Otherwise the thousands of ports of a starting large fabric would displace all other events."""
    made = model.fabric_of(reading(tree))
    leaf, line = by_name(made)["leaf1"], Timeline()
    def entry(change: str, port: int) -> dict:
        return {"age_ns": 0, "port": port, "change": change, "times": 1, "detail": ""}
    entries = [*(entry("up", port) for port in range(1, 7)), entry("down", 3), entry("up", 3)]
    line.read_switch(made, leaf, {"lost": 0, "entries": entries}, 1000.0)
    assert [(event.kind, event.text) for event in line.events] == [
        ("up", "6 ports of leaf1 went up"), ("down", "leaf1[3] – node3[1]: went down"),
        ("up", "leaf1[3] – node3[1]: went up")]


def test_a_change_that_both_ends_of_a_link_report_is_one_event(tree):
    made, line = model.fabric_of(reading(tree)), Timeline()
    ends = by_name(made)["leaf1"], by_name(made)["spine1"]
    port = link_between(made, "leaf1", "spine1")
    numbers = {port.a: port.a_port, port.b: port.b_port}
    for change, age_ns in (("down", 10 ** 9), ("up", 0)):
        for node, number in ((node, numbers[node.id]) for node in ends):
            line.read_switch(made, node, {"lost": line.last(), "entries": [
                {"age_ns": age_ns, "port": number, "change": change, "times": 1, "detail": ""}]}, 1000.0)
    name = made.link_name(port)
    assert [event.text for event in line.events] == [f"{name}: went down", f"{name}: went up"]


def test_many_equal_changes_between_two_readings_are_one_event(tree):
    before, after, line = model.fabric_of(reading(tree)), model.fabric_of(reading(tree)), Timeline()
    for link in before.links.values():
        link.state = "Armed"
    line.differences(before, after, 5.0)
    assert [event.text for event in line.events] == ["24 links are Active"]
    line.differences(model.Fabric(), after, 6.0)
    line.differences(after, model.Fabric(), 7.0)
    assert [event.text for event in line.events if event.kind == "node"] == [
        "22 nodes have appeared", "22 nodes are gone"]


def test_failures_of_hcas_are_events():
    line = Timeline()
    journal = [{"kind": "completion", "at": 7.0, "qpn": 0x41, "queue": "send", "status": "IBV_WC_RETRY_EXC_ERR"},
               {"kind": "event", "at": 8.0, "event": "IBV_EVENT_QP_FATAL", "number": 0x42, "port": 1},
               {"kind": "event", "at": 9.0, "event": "IBV_EVENT_PORT_ERR", "number": 1, "port": 1}]
    refusals = [{"at": 10.0 + number, "rule": "6.5.3", "text": f"refused {number}"} for number in range(2)]
    hca = {"lost": 0, "journal": journal, "refusals": refusals, "objects": {"refusals": {"count": 2}}}
    line.read_hca("vm0", 0, hca)
    line.read_hca("vm0", 0, hca)
    assert [(event.at, event.text, event.about) for event in line.events] == [
        (7.0, "vm0 QP 0x41: RETRY_EXC_ERR", "vm0:0x41"), (8.0, "vm0 QP 0x42: IBV_EVENT_QP_FATAL", "vm0:0x42"),
        (9.0, "vm0: IBV_EVENT_PORT_ERR, number 1, port 1", "vm0"), (10.0, "vm0: refused 0", "vm0"),
        (11.0, "vm0: refused 1", "vm0")]
    hca["objects"]["refusals"]["count"] = 66
    hca["refusals"] = [{"at": 20.0 + number, "rule": "6.5.3", "text": f"refused {number + 2}"} for number in range(64)]
    line.read_hca("vm0", 0, hca)
    assert [event.text for event in line.events][5:] == [f"vm0: refused {number + 2}" for number in range(64)]


def test_differences_of_two_readings_are_events(tree):
    before = model.fabric_of(reading(tree))
    after, line = copy.deepcopy(before), Timeline()
    line.differences(before, after, 5.0)
    assert not line.events
    nodes = by_name(after)
    nodes["node2"].lids, after.sm_lid, nodes["vm0"].sm, nodes["vm1"].sm = [99], nodes["vm1"].lids[0], False, True
    link_between(after, "leaf1", "vm0").state = "Armed"
    line.differences(before, after, 5.0)
    assert [event.text for event in line.events] == [
        f"the subnet manager is at LID {after.sm_lid}, vm1", "node2 has LID 99", "leaf1[1] – vm0[1] is Armed"]
    gone = copy.deepcopy(after)
    del gone.nodes[nodes["node2"].id]
    line.differences(after, gone, 6.0)
    line.differences(gone, after, 7.0)
    assert [event.text for event in line.events][-2:] == ["node2 is gone", "node2 has appeared"]


# -- routes ----------------------------------------------------------------------------------

def routes_of(tree: simulated_fabric.Fabric) -> tuple[model.Fabric, Routes]:
    made = model.fabric_of(reading(tree))
    return made, Routes(made, {simulated_fabric.guid(tree.net.nodes[name]): table
                               for name, table in tree.tables.items()})


def test_the_route_of_a_connection_follows_the_tables(tree):
    made, routes = routes_of(tree)
    nodes = by_name(made)
    way = routes.way(nodes["vm0"].id, 1, tree.lids["node16"])
    names = [nodes["vm0"].id]
    for link, out in way.hops:
        begin, end = (made.links[link].a, made.links[link].b)[::1 if out else -1]
        assert names[-1] == begin
        names.append(end)
    assert way.complete and len(way.hops) == 4
    assert [made.nodes[guid].name[:4] for guid in names] == ["vm0", "leaf", "spin", "leaf", "vm1"]


def test_the_route_between_two_ports_of_a_host_leaves_the_host():
    pair = simulated("redundant-pair")
    made, routes = routes_of(pair)
    host = next(node for node in made.nodes.values() if node.kind != "switch")
    near, far = sorted((link for link in made.links.values() if link.b == host.id), key=lambda link: link.b_port)
    for link in (near, far):
        link.lids = []
    far.lids = [77]
    for switch in pair.net.switches():
        mine = {port for port, (peer, number) in switch.peers.items()
                if (simulated_fabric.guid(pair.net.nodes[peer]), number) == (host.id, far.b_port)}
        if mine:
            routes.tables[simulated_fabric.guid(switch)][77] = mine.pop()
        else:
            routes.tables[simulated_fabric.guid(switch)][77] = next(
                port for port, (peer, _) in switch.peers.items() if pair.net.nodes[peer].kind == "Switch")
    way = routes.way(host.id, near.b_port, 77)
    assert way.complete and way.hops[0] == (near.id, False) and way.hops[-1] == (far.id, True)
    assert routes.way(host.id, far.b_port, 77).hops == []


def guests_of(tree, qps: int, state: str = "RTS") -> dict:
    made = [{**simulated_fabric.qp(number, tree.lids["node16"], number), "state": state} for number in range(qps)]
    return {"vm0": simulated_fabric.guest(tree.net, tree, "node1", made), "vm1": None}


def test_connections_are_cut_once_and_forgotten_when_they_fail(tree):
    made, routes = routes_of(tree)
    last = routes.way(by_name(made)["vm0"].id, 1, tree.lids["node16"]).hops[-1][0]
    cuts, guests = connections.Cuts(), guests_of(tree, 2)
    other = link_between(made, "leaf2", "node5").id
    assert cuts.note([(other, 9.0)], routes, guests) == [] and not cuts
    told = cuts.note([(last, 10.5), (last, 10.0)], routes, guests)
    name = made.link_name(made.links[last])
    assert [(one.at, one.text) for one in told] == [
        (10.0, f"vm0 QP {number:#x} is cut off from vm1: its packets passed {name}") for number in (0, 1)]
    assert cuts.note([(last, 11.0)], routes, guests) == []
    made.links[last].state = "Down"
    assert cuts.mended(Routes(made, routes.tables), guests, 12.0) == [] and cuts
    made.links[last].state = "Active"
    told = cuts.mended(Routes(made, routes.tables), guests_of(tree, 1), 12.5)
    assert [one.text.partition(", over")[0] for one in told] == ["vm0 QP 0x0 has a route to vm1 again, after 2.5 s"]
    assert not cuts                         # the other QP has gone
    cuts.note([(last, 13.0)], routes, guests)
    assert cuts.mended(routes, guests_of(tree, 2, "ERR"), 14.0) == [] and not cuts


def test_many_cut_connections_are_a_bounded_number_of_events(tree):
    made, routes = routes_of(tree)
    first = routes.way(by_name(made)["vm0"].id, 1, tree.lids["node16"]).hops[0][0]
    told = connections.Cuts().note([(first, 10.0)], routes, guests_of(tree, connections.MOST_TOLD + 3))
    assert len(told) == connections.MOST_TOLD + 1
    assert (told[-1].text, told[-1].connection) == ("3 more connections are cut", None)
    line = Timeline()
    line.connections("cut", told)
    assert line.as_json()[-1]["text"] == "3 more connections are cut" and line.as_json()[1]["qpn"] == 1


def test_a_route_ends_where_the_tables_end_or_a_link_is_down(tree):
    made, routes = routes_of(tree)
    nodes = by_name(made)
    link, = [link for link, _ in routes.way(nodes["vm0"].id, 1, tree.lids["node16"]).hops[1:2]]
    made.links[link].state = "Down"
    way = routes.way(nodes["vm0"].id, 1, tree.lids["node16"])
    assert not way.complete and made.nodes[way.end].name == "leaf1"
    assert not routes.way(nodes["vm0"].id, 1, 999).complete
    assert routes.way(nodes["vm0"].id, 1, tree.lids["node1"]).hops == []


def test_tables_that_lead_in_a_circle_end(tree):
    made, routes = routes_of(tree)
    nodes = by_name(made)
    dlid = tree.lids["node16"]
    up = routes.tables[nodes["leaf1"].id][dlid]
    spine, back = tree.net.nodes["leaf1"].peers[up]
    routes.tables[nodes[spine].id][dlid] = back
    way = routes.way(nodes["vm0"].id, 1, dlid)
    assert not way.complete and len(way.hops) == 3


def test_the_balance_counts_all_pairs(tree):
    made, routes = routes_of(tree)
    balance = routes.balance()
    for node in made.nodes.values():
        if node.kind != "switch":
            link = next(link for link in made.links.values() if node.id in (link.a, link.b))
            assert balance[link.id, False] == 15 and balance[link.id, True] == 15
    upward = sum(count for (link, out), count in balance.items()
                 if made.nodes[made.links[link].b].kind == "switch" and made.nodes[made.links[link].a].level == (
                     1 if out else 2))
    assert upward == 4 * 4 * 12         # each host of four leaves to the 12 hosts of other leaves


def test_pairs_through_a_link_are_counted_and_listed(tree):
    made, routes = routes_of(tree)
    link = link_between(made, "leaf1", "vm0")
    found = routes.through(link)
    assert (found["out"], found["in"]) == (15, 15)
    assert {pair["to"] for pair in found["pairs"] if not pair["out"]} == {
        name for name, node in by_name(made).items() if node.kind != "switch"} - {"vm0"}
    for link in made.links.values():
        found = routes.through(link)
        assert (found["out"], found["in"]) == (routes.balance()[link.id, True], routes.balance()[link.id, False])


@pytest.mark.parametrize("most, out, back", [(400, 15, 15), (10, 5, 5), (24, 12, 12)])
def test_pairs_of_both_directions_are_listed(tree, monkeypatch, most, out, back):
    monkeypatch.setattr(routes_module, "MOST_PAIRS", most)
    made, routes = routes_of(tree)
    found = routes.through(link_between(made, "leaf1", "vm0"))
    assert (found["out"], found["in"]) == (15, 15)
    assert collections.Counter(pair["out"] for pair in found["pairs"]) == {True: out, False: back}


def test_a_direction_without_pairs_leaves_room_for_the_other(tree, monkeypatch):
    monkeypatch.setattr(routes_module, "MOST_PAIRS", 10)
    made, routes = routes_of(tree)
    for table in routes.tables.values():
        table.pop(tree.lids["node1"])               # no route leads to vm0
    found = routes.through(link_between(made, "leaf1", "vm0"))
    assert (found["out"], found["in"], len(found["pairs"])) == (0, 15, 10)


def test_a_ring_has_credit_loops_and_a_tree_has_none(tree):
    assert routes_of(tree)[1].credit_loops() == []
    made, routes = routes_of(simulated("ring-8"))
    loops = routes.credit_loops()
    assert loops and all(len(loop) == 8 for loop in loops)
    assert all(made.nodes[made.links[link].b].kind == "switch" for loop in loops for link, _ in loop)


def test_a_credit_loop_is_listed_in_the_order_of_its_links(monkeypatch):
    made, routes = routes_of(simulated("ring-8"))
    assert len(routes.circles()) == 2
    for loop in routes.circles():
        assert len(loop["circle"]) == 8 and loop["others"] == []
        ends = [(made.links[link].a, made.links[link].b) if out else (made.links[link].b, made.links[link].a)
                for link, out in loop["circle"]]
        assert all(one[1] == other[0] for one, other in zip(ends, [*ends[1:], ends[0]]))
    a, b, c, d = (("a", True), ("b", True), ("c", True), ("d", True))
    monkeypatch.setitem(vars(routes), "_survey", ({}, {a: {b, c}, b: {c}, c: {d}, d: {a}}))
    assert routes.circles() == [{"circle": [a, c, d], "others": [b]}]


def test_strongly_connected_parts_are_found():
    a, b, c, d = (("a", True), ("b", True), ("c", True), ("d", True))
    parts = strongly_connected({a: {b}, b: {c}, c: {a, d}})
    assert sorted(map(sorted, parts)) == [[a, b, c], [d]]


# -- routing over time --------------------------------------------------------------------

def noted(log: routing.RoutingLog, tree: simulated_fabric.Fabric, at: float) -> dict[str, int]:
    """LIDs that were moved, by name of the switch."""
    found = {switch.name: log.note(simulated_fabric.guid(switch), dict(tree.tables[switch.name]), at)
             for switch in tree.net.switches()}
    return {name: moved for name, moved in found.items() if moved}


def test_changed_forwarding_tables_are_kept_with_their_times(tree):
    log = routing.RoutingLog()
    first = copy.deepcopy(tree.tables)
    assert noted(log, tree, 100.0) == {} and noted(log, tree, 101.0) == {}
    moved = tree.reroute("leaf1")
    assert moved > 0 and noted(log, tree, 102.0) == {"leaf1": moved} and noted(log, tree, 103.0) == {}
    leaf = simulated_fabric.guid(tree.net.nodes["leaf1"])
    for at, table in ((50.0, first), (101.9, first), (102.0, tree.tables), (900.0, tree.tables)):
        assert routing.unpacked(log.at(at)[leaf]) == table["leaf1"]


def test_the_oldest_tables_are_forgotten_first(tree):
    most = 200
    log, leaf = routing.RoutingLog(most_octets=most), simulated_fabric.guid(tree.net.nodes["leaf1"])
    sizes = [routing.Change(0.0, routing.packed(table)).size for table in tree.tables.values()]
    assert sum(sizes) > most > max(sizes)           # the current tables do not count
    noted(log, tree, 100.0)
    first = log.at(0.0)[leaf]
    tree.reroute("leaf1")
    noted(log, tree, 102.0)
    assert log.forgotten == 0.0 and log.at(101.0)[leaf] == first != log.at(102.0)[leaf]
    log.most_octets = 1
    tree.reroute("leaf2")
    noted(log, tree, 104.0)
    assert log.forgotten == 104.0
    for switch in tree.net.switches():
        assert routing.unpacked(log.at(0.0)[simulated_fabric.guid(switch)]) == tree.tables[switch.name]


def test_the_routing_of_two_moments_is_compared(tree):
    made, log = model.fabric_of(reading(tree)), routing.RoutingLog()
    noted(log, tree, 100.0)
    same = routing.compare((made, log.at(100.0)), (made, log.at(100.0)))
    assert same == {"switches": {}, "differing": 0, "links": []}
    moved = {simulated_fabric.guid(tree.net.nodes["leaf1"]): tree.reroute("leaf1")}
    noted(log, tree, 102.0)
    found = routing.compare((made, log.at(100.0)), (made, log.at(102.0)))
    assert found["switches"] == moved
    assert found["before"]["most"] < found["after"]["most"] and found["after"]["least"] < found["before"]["least"]
    assert sum(after - before for _, _, before, after in found["links"]) == 0
    assert found["differing"] == len(found["links"]) and found["before"]["lids"] == (16, 16)
    names = {made.link_name(made.links[link]) for link, *_ in found["links"]}
    assert names and all("spine" in name for name in names)


def test_changed_routes_are_one_event(tree):
    made, line = model.fabric_of(reading(tree)), Timeline()
    one, other = (simulated_fabric.guid(tree.net.nodes[name]) for name in ("leaf1", "leaf2"))
    line.rerouted(made, {}, 1.0)
    line.rerouted(made, {one: 12}, 2.0)
    line.rerouted(made, {one: 12, other: 3}, 3.0)
    assert [(event.kind, event.text) for event in line.events] == [
        ("sm", "the subnet manager has changed the routes of leaf1 to 12 LIDs"),
        ("sm", "the subnet manager has changed the routes of 2 switches, to 15 LIDs in all")]


def test_each_moment_has_its_routing_engine():
    log = routing.RoutingLog()
    assert log.engine(5.0) == ""
    for at, name in ((10.0, "minhop"), (12.0, "minhop"), (20.0, "ftree")):
        log.note_engine(at, name)
    assert [log.engine(at) for at in (9.0, 10.0, 19.9, 20.0)] == ["", "minhop", "minhop", "ftree"]
