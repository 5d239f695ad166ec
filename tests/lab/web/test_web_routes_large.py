# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of routes that merge on the way to a LID, and the work for answers about a fat tree of 11,664 hosts, with
36-port switches on three levels."""

import collections
import time
from collections.abc import Iterator

import pytest

from lab.web import model, routes, routing
from test_web_model import by_name, link_between, routes_of, simulated

PODS, HALF = 36, 18             # a pod has HALF leaves and HALF middles; a leaf has HALF hosts
HOSTS = PODS * HALF * HALF
LONG, MOST_S = 20_000, 5       # links of a forwarding loop, and the limit of the time to find it
MOST_LOOKED = 2                 # mean number of lookups for a route: routes to a LID merge


def _link(a: str, a_port: int, b: str, lids: list[int] | None = None) -> model.Link:
    return model.Link(f"{a}[{a_port}]", a, a_port, b, 0, "Active", "LinkUp", "4X EDR", 1e10, 4096, 8, True, False,
                      False, lids or [])


def _places() -> Iterator[tuple[int, int]]:
    for pod in range(PODS):
        for number in range(HALF):
            yield pod, number


class Table:
    """The forwarding table of a switch that routes by the LID's remainders. kind: leaf, middle or core."""
    looked = 0                  # lookups in all tables

    def __init__(self, kind: str, pod: int = 0, number: int = 0):
        self.kind, self.pod, self.number = kind, pod, number

    def get(self, lid: int) -> int | None:
        Table.looked += 1
        host = lid - 1
        leaf, pod = host // HALF % HALF, host // HALF // HALF
        if self.kind == "core":
            return pod + 1
        if self.kind == "middle" and pod == self.pod:
            return leaf + 1
        if self.kind == "leaf" and (pod, leaf) == (self.pod, self.number):
            return host % HALF + 1
        return HALF + 1 + (host % HALF if self.kind == "leaf" else host // HALF % HALF)


@pytest.fixture(name="large", scope="module")
def _large() -> routes.Routes:
    fabric = model.Fabric()
    tables: dict[str, Table] = {}

    def switch(kind: str, pod: int, number: int) -> str:
        name = f"{kind}{pod}-{number}"
        fabric.nodes[name], tables[name] = model.Node(name, name, "switch"), Table(kind, pod, number)
        return name

    def join(link: model.Link, b_port: int) -> None:
        link.b_port = b_port
        fabric.links[link.id] = link
    cores = [[switch("core", middle, number) for number in range(HALF)] for middle in range(HALF)]
    middles = {place: switch("middle", *place) for place in _places()}
    for (pod, middle), name in middles.items():
        for number in range(HALF):
            join(_link(name, HALF + 1 + number, cores[middle][number]), pod + 1)
    for pod, leaf in _places():
        name = switch("leaf", pod, leaf)
        for number in range(HALF):
            join(_link(name, HALF + 1 + number, middles[pod, number]), leaf + 1)
            lid = (pod * HALF + leaf) * HALF + number + 1
            fabric.nodes[f"host{lid}"] = model.Node(f"host{lid}", f"host{lid}", "host", lids=[lid])
            join(_link(name, number + 1, f"host{lid}", [lid]), 1)
    return routes.Routes(fabric, tables)


def test_the_balance_follows_some_routes_and_says_how_many(large):
    Table.looked = 0
    balance, (followed, every) = large.balance(), large.counted()
    assert every == HOSTS and followed == routes.MOST_ROUTES // (PODS * HALF)
    assert large.credit_loops() == []
    assert 0 < Table.looked <= MOST_LOOKED * routes.MOST_ROUTES
    own = {link.id for link in large.fabric.links.values() if link.b.startswith("host")}
    assert sum(count for (link, out), count in balance.items() if not out and link in own) == followed * (HOSTS - 1)


def test_the_chosen_lids_use_all_ports_of_a_leaf(large):
    """Each nth LID would use only some of the ports, because routing engines give ports to LIDs in turn."""
    balance = large.balance()
    assert all(balance["leaf0-0[%d]" % (HALF + 1 + number), True] for number in range(HALF))


@pytest.mark.parametrize("link", ["leaf0-0[1]", "leaf0-0[19]", "middle0-0[19]"])
def test_the_routes_through_a_link_lead_to_lids_beyond_it(large, link):
    Table.looked = 0
    found = large.through(large.fabric.links[link])
    assert Table.looked <= MOST_LOOKED * routes.MOST_ROUTES + 2 * HOSTS
    followed, leading = found["lids"]
    assert 0 < followed <= leading < HOSTS and len(found["pairs"]) <= routes.MOST_PAIRS
    assert followed == leading                                  # these LIDs are few enough
    if link == "leaf0-0[1]":                                    # the link of a host
        assert (found["out"], found["in"], leading) == (HOSTS - 1, HOSTS - 1, 1)
    elif link == "leaf0-0[19]":                                 # up: to a LID of each other leaf, from the leaf's hosts
        assert found["out"] == (PODS * HALF - 1) * HALF


def test_two_moments_of_many_links_are_compared_by_the_same_lids(large, monkeypatch):
    monkeypatch.setattr(routes, "MOST_ROUTES", 5_000)
    monkeypatch.setattr(routing, "MOST_LINKS", 10)
    tables = {name: routing.packed({lid: table.get(lid) for lid in range(1, HOSTS + 1)})
              for name, table in large.tables.items() if name.startswith("leaf")}
    turned = {name: bytes([table[0]] + [HALF + 1 + (port - HALF) % HALF if port > HALF else port for port in table[1:]])
              for name, table in tables.items()}
    found = routing.compare((large.fabric, tables), (large.fabric, turned))
    assert found["before"]["lids"] == found["after"]["lids"] == (5_000 // (PODS * HALF), HOSTS)
    assert found["differing"] > len(found["links"]) == 10 and len(found["switches"]) == PODS * HALF
    assert collections.Counter(type(count) for count in found["before"]["counts"]) == {int: found["before"]["links"]}


@pytest.mark.parametrize("name", ["fat-tree-16", "ring-8", "dragonfly-72"])
def test_routes_that_merge_are_counted_as_if_each_was_followed(name, monkeypatch):
    made, met = routes_of(simulated(name))
    nodes, tables = by_name(made), met.tables
    lid = max(lid for node in made.nodes.values() for lid in node.lids if node.kind != "switch")
    one = next(switch for switch in nodes.values() if switch.kind == "switch")
    tables[one.id].pop(lid)                         # a route that ends early
    each = routes.Routes(made, tables)
    monkeypatch.setattr(each, "_tree", lambda _lid: None)
    assert {hop: count for hop, count in met.balance().items() if count} == {
        hop: count for hop, count in each.balance().items() if count}
    assert sorted(map(sorted, met.credit_loops())) == sorted(map(sorted, each.credit_loops()))
    for link in list(made.links.values())[::7]:
        assert {**met.through(link), "pairs": 0} == {**each.through(link), "pairs": 0}


def test_routes_of_tables_that_lead_in_a_circle_are_counted():
    tree = simulated("fat-tree-16")
    made, found = routes_of(tree)
    nodes, dlid = by_name(made), tree.lids["node16"]
    up = found.tables[nodes["leaf1"].id][dlid]
    spine, back = tree.net.nodes["leaf1"].peers[up]
    before = routes.Routes(made, {name: dict(table) for name, table in found.tables.items()}).balance()
    found.tables[nodes[spine].id][dlid] = back
    after, link = found.balance(), link_between(made, "leaf1", spine)
    out = link.a == nodes["leaf1"].id
    assert after[link.id, not out] > before[link.id, not out]
    assert found.through(link)["in" if out else "out"] == after[link.id, not out]


def test_a_long_credit_loop_takes_no_time_of_the_square_of_its_links():
    ring = [(f"link{number:05}", True) for number in range(LONG)]
    found = routes.Routes(model.Fabric(), {})
    vars(found)["_survey"] = {}, {one: {other} for one, other in zip(ring, [*ring[1:], ring[0]])}
    began = time.thread_time()
    assert found.circles() == [{"circle": ring, "others": []}]
    assert time.thread_time() - began < MOST_S
