# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of ./pib web: loads, curves and comparisons, and the nodes and links of the past."""

import copy
import tracemalloc

import pytest

import simulated_fabric
from lab.web import history as history_module, model, routing, traffic
from lab.web.history import History
from lab.web.past import FabricLog, with_states
from test_web_model import GIB, by_name, link_between, reading, simulated


@pytest.fixture(name="tree")
def small_tree() -> simulated_fabric.Fabric:
    return simulated("fat-tree-16", {"node1": "vm0", "node16": "vm1"})


# -- history ----------------------------------------------------------------------------

def three_moments(tree) -> tuple[model.Fabric, model.Link, History]:
    """At 100 s all is idle; until 102 s 2 GiB flow up from leaf1; at 104 s the cable is pulled."""
    history = History()
    port = ("leaf1", 5)
    made = model.fabric_of(reading(tree))
    link = link_between(made, "leaf1", tree.net.nodes["leaf1"].peers[5][0])
    for at in (100.0, 102.0, 104.0):
        if at == 102.0:
            tree.rates = {port: float(GIB)}
            tree.advance(2)
            tree.rates = {}
        if at == 104.0:
            tree.pulled = {port}
            tree.counters[port]["PortXmitDiscards"] += 7
        now = reading(tree)
        made = model.fabric_of(now)
        history.add(at, made, now.traffic)
    return made, link, history


def test_loads_have_directions_and_vls(tree):
    _, link, history = three_moments(tree)
    out = 0 if link.a == simulated_fabric.guid(tree.net.nodes["leaf1"]) else 1
    load = history.loads(102.5)[link.id]
    assert load[out] == GIB and load[1 - out] == 0 and load[3 + out] == {2: 1.0} and load[4 - out] == {}
    assert list(history.loads(102.5)) == [link.id]
    assert history.loads(101.0) == {} and history.loads() == {}


def test_a_moment_has_the_states_of_its_time(tree):
    _, link, history = three_moments(tree)
    assert [history.moment(at)["links"][link.id]["state"] for at in (50.0, 103.9, 104.0, 900.0)] == [
        "Active", "Active", "Down", "Down"]
    assert history.moment(104.0)["links"][link.id]["cable"] is False


def test_curves_are_rates_between_readings(tree):
    _, link, history = three_moments(tree)
    curves = history.curves(link.id)
    assert curves["at"] == [102.0, 104.0]
    assert sorted((curves["out"][0], curves["in"][0])) == [0, GIB]
    assert curves["discards"] == [0, 3.5]


def test_rates_do_not_follow_steps_of_the_host_s_clock(tree):
    """The clock is set forward by an hour, then back."""
    history, port = History(), ("leaf1", 5)
    for clock, at in enumerate((100.0, 101.0, 3702.0, 103.0)):
        now = reading(tree)
        history.shift(min(0.0, at - 1 - history.span()[1]) if clock else 0.0)
        history.add(at, model.fabric_of(now), now.traffic, float(clock))
        tree.rates = {port: float(GIB)}
        tree.advance(1)
        tree.rates = {}
    link = link_between(model.fabric_of(now), "leaf1", tree.net.nodes["leaf1"].peers[5][0]).id
    curves = history.curves(link)
    assert sorted([sum(curves["out"]), sum(curves["in"])]) == [0, 3 * GIB] and curves["at"] == sorted(curves["at"])
    assert max(history.loads()[link][:2]) == GIB


def test_two_moments_are_compared_in_any_order(tree):
    _, link, history = three_moments(tree)
    found = history.compare(104.0, 102.0)
    assert list(found["links"]) == [link.id] and (found["begin"], found["end"]) == (102.0, 104.0)
    assert found["links"][link.id]["states"] == ["Active", "Down, cable pulled"]
    assert found["links"][link.id]["grown"]["discards"] == 7
    assert history.compare(102.0, 102.5)["links"] == {}


def test_a_vl_that_has_sent_nothing_has_no_share(tree):
    """VL 0 has sent nothing since the last reading, and the counters of VL 1 were reset."""
    made, link, history = three_moments(tree)
    port = next(end for end in (("leaf1", 5), tree.net.nodes["leaf1"].peers[5])
                if simulated_fabric.guid(tree.net.nodes[end[0]]) == link.a)
    for at, by_vl in ((105.0, {"PortXmitDataVL0": 100, "PortXmitDataVL1": 50}), (106.0, {"PortXmitDataVL0": 100})):
        tree.counters[port].clear()
        tree.counters[port].update({"PortXmitData": int(at), **by_vl})
        history.add(at, made, reading(tree).traffic)
    assert history.loads()[link.id][3] == {}


def test_a_reset_counter_counts_from_zero(tree):
    _, link, history = three_moments(tree)
    tree.counters.clear()
    tree.counters["leaf1", 5].update({"PortXmitData": 25, "PortRcvData": 25})
    now = reading(tree)
    history.add(105.0, model.fabric_of(now), now.traffic)
    assert 100.0 in history.loads()[link.id][:2]


def test_a_reset_of_one_ends_discards_adds_none_of_the_other_end(tree):
    made, link, history = three_moments(tree)
    ends = [("leaf1", 5), tree.net.nodes["leaf1"].peers[5]]
    for at, counted in ((105.0, (1000, 5)), (106.0, (1000, 0)), (107.0, (1002, 0))):
        for end, discards in zip(ends, counted):
            tree.counters[end]["PortXmitDiscards"] = discards
        history.add(at, made, reading(tree).traffic)
    assert history.curves(link.id)["discards"][-2:] == [0, 2]
    assert history.compare(105.0, 107.0)["links"][link.id]["grown"]["discards"] == 2


def test_a_long_history_keeps_its_begin_and_fewer_old_moments(tree):
    now, history = reading(tree), History()
    made = model.fabric_of(now)
    history.add(0.0, made, now.traffic)
    history.most_values = 20 * history.frames[0].size
    for at in range(1, 200):
        history.add(float(at), made, now.traffic)
    times = [frame.at for frame in history.frames]
    steps = [other - one for one, other in zip(times, times[1:])]
    assert history.span() == (0.0, 199.0) and 10 < len(times) <= 20
    assert steps[-1] == 1 and steps[0] > 10


def test_the_memory_of_a_history_is_that_of_its_values_also_under_load(tree):
    now, history = reading(tree), History(most_values=100_000)
    made = model.fabric_of(now)
    tracemalloc.start()
    try:
        for at in range(300):
            rows = {guid: {port: [*row[:traffic.VLS], 0, 1000 + at, 1000 + at, 15, 2000 + at, 2000 + at]
                           for port, row in ports.items()} for guid, ports in now.traffic.items()}
            history.add(float(at), made, rows)
        assert tracemalloc.get_traced_memory()[0] < 1.25 * 8 * history.most_values
    finally:
        tracemalloc.stop()


def test_many_small_frames_and_tables_stay_within_their_memory():
    """A page of a small fabric that is open for days has many of them."""
    now = reading(simulated("single-16"))
    made = model.fabric_of(now)
    made.links = dict(list(made.links.items())[:1])
    kept, tables = History(most_values=100_000), routing.RoutingLog(most_octets=400_000)
    tracemalloc.start()
    try:
        for at in range(5000):
            kept.add(float(at), made, now.traffic)
        of_history = tracemalloc.get_traced_memory()[0]
        for at in range(5000):
            tables.note("0x1", {1: at % 8, 2: 3}, float(at))
        of_tables = tracemalloc.get_traced_memory()[0] - of_history
    finally:
        tracemalloc.stop()
    assert len(kept.frames) > 500 and of_history < 1.25 * 8 * kept.most_values
    assert tables.forgotten > 1000 and of_tables < 1.25 * tables.most_octets


def test_a_curve_of_a_long_history_has_a_bounded_number_of_points(tree, monkeypatch):
    monkeypatch.setattr(history_module, "MOST_POINTS", 10)
    now, history = reading(tree), History()
    made = model.fabric_of(now)
    for at in range(95):
        history.add(float(at), made, now.traffic)
    times = history.curves(next(iter(made.links)))["at"]
    assert times[-1] == 94.0 and 8 <= len(times) <= 10


def test_the_history_is_bounded_and_spans_the_absence_of_a_link(tree):
    history = History(most_values=3000)
    now = reading(tree)
    made = model.fabric_of(now)
    for at in range(1000):
        history.add(float(at), made, now.traffic)
    assert sum(frame.size for frame in history.frames) <= 3000
    assert history.span()[1] == 999.0
    fewer = copy.deepcopy(made)
    gone = fewer.links.pop(next(iter(fewer.links)))
    history.add(1000.0, fewer, now.traffic)
    history.add(1001.0, made, now.traffic)
    assert gone.id not in history.moment(1000.5)["links"]
    assert history.compare(1000.0, 1001.0)["links"][gone.id]["states"] == ["not there", "Active"]
    assert len(history.curves(gone.id)["at"]) == len(history.frames) - 3


# -- nodes and links of the past ----------------------------------------------------------

def test_the_fabric_of_a_moment_has_its_nodes_and_lids(tree):
    log, first = FabricLog(), model.fabric_of(reading(tree))
    log.note(100.0, first)
    tree.lids["spine1"] = 99
    second = model.fabric_of(reading(tree))
    log.note(110.0, second)
    tree.unplug("node5")
    third = model.fabric_of(reading(tree))
    log.note(120.0, third)
    assert [log.at(at) for at in (50.0, 109.9, 110.0, 119.0, 120.0, 900.0)] == [
        first, first, second, second, third, third]
    assert [log.since(at) for at in (50.0, 115.0, 120.0)] == [100.0, 110.0, 0.0]


def test_new_states_and_names_do_not_make_another_fabric(tree):
    """The first reading may come before the guests are known."""
    log = FabricLog()
    log.note(100.0, model.fabric_of(reading(tree)))
    tree.guests["node2"] = "vm2"
    tree.pulled = {("leaf1", 5)}
    log.note(110.0, model.fabric_of(reading(tree)))
    assert log.since(50.0) == 0.0 and "vm2" in by_name(log.at(50.0))


def test_the_oldest_fabrics_are_forgotten_first(tree):
    log = FabricLog(most_octets=5000)
    for number in range(60):
        tree.lids["spine1"] = 100 + number
        log.note(float(number), model.fabric_of(reading(tree)))
    assert by_name(log.at(59.0))["spine1"].lids == [159]
    oldest, = by_name(log.at(0.0))["spine1"].lids
    assert 100 < oldest < 159


def test_the_fabric_of_a_moment_has_its_states(tree):
    made, link, history = three_moments(tree)
    past = [with_states(made, history.moment(at)["links"]).links[link.id] for at in (102.0, 104.0)]
    assert [(one.state, one.cable) for one in past] == [("Active", True), ("Down", False)]
