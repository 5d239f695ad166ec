# SPDX-License-Identifier: GPL-2.0-or-later
"""The words of the page of ./pib web, made by its JavaScript in node."""

import re

import pytest

import page_code
import simulated_fabric
from lab.base import paths
from lab.fabric import topology

FILE = paths.ROOT / "examples" / "topologies" / "fat-tree-16.topo"
HOST = """
    const {Store} = await import("./store.js");
    const {host} = await import("./hca.js");
    const store = new Store();
    store.takeFabric({nodes: [{id: "0x9", name: "vm0", kind: "guest", description: "vm0", lids: [1], port_guids: [],
                               guest: "vm0", slot: 0}], links: [], sm_lid: 0});
    store.choose("node", "0x9");
    const shown = root(host.show(store, {...hca, failures: [], read: 1}, pane));
"""


def simulated_hca() -> dict:
    net = topology.load(FILE)
    fabric = simulated_fabric.Fabric(net, {"node1": "vm0"})
    return simulated_fabric.guest(net, fabric, "node1", [])["hcas"][0]["objects"]


@pytest.fixture(name="hca")
def hca_of_a_guest():
    return simulated_hca()


def test_an_idle_cq_does_not_look_full(tmp_path, hca):
    """The device reads a CQ's consumer counter only when the CQ looks full, so until then the fill level is unknown."""
    hca["cqs"]["entries"] = [
        {"cqn": 2, "depth": 2048, "producer": 1862, "consumer": 0, "armed": "next", "error": False},
        {"cqn": 3, "depth": 16, "producer": 52, "consumer": 36, "armed": "none", "error": True}]
    text, bars = page_code.run(tmp_path, HOST + "return [shown.text, shown.all('i').map(({style}) => style.width)];",
                               hca=hca)
    assert "0x2 | 2,048 | 1,862 | next |" in text and "1862 of 2048" not in text
    assert "0x3 | 16 | 52 | none |  full |" in text and bars == ["100%"]
    assert "The device reads a CQ's consumer counter only when the CQ looks full" in text


LINK = """
    const {Store} = await import("./store.js");
    const {link} = await import("./link.js");
    const store = new Store();
    const node = (id, name) => ({id, name, kind: "switch", description: name, lids: [], port_guids: []});
    const one = {id: "0x1[3]", a: "0x1", a_port: 3, b: "0x2", b_port: 4, state: "Active", cable: true, faults: true};
    store.takeFabric({nodes: [node("0x1", "leaf1"), node("0x2", "spine1")], links: [one], sm_lid: 1});
    store.choose("link", one.id);
    const vls = {by_vl: [], high: [], low: [], high_limit: 0, sl_to_vl: []};
    const side = (faults) => ({counters: {}, vls, faults: {in: {counts: {}}, out: {counts: {}}, ...faults}});
    const curves = Object.fromEntries(["out", "in", "packets_out", "packets_in", "wait_out", "wait_in", "discards",
      "errors"].map((name) => [name, [0, 0]]));
    const shown = (a, b) => root(link.show(store, {link: one, ends: {a: side(a), b: side(b)},
      curves: {at: [1, 2], ...curves}, connections: {count: 0, all: true, entries: []}}, pane));
"""


def test_packets_that_the_fault_stages_drop_are_named_at_the_curves(tmp_path):
    """The curve does not show these packets, because the port does not count them as discards."""
    lossy, clean, wide = page_code.run(tmp_path, LINK + """
        const all = shown({out: {drop: 0.5, counts: {seen: 1700, dropped: 800}}},
                          {in: {drop: 0.1, counts: {seen: 900, dropped: 12, corrupted: 3, delayed: 5}}});
        return [all.text, shown({}, {}).text, all.all("div").filter((one) => one.attributes.class === "scroll wide")
          .map(({text}) => text)];""")
    assert re.search(r"Discards and errors.*\n?.*Faults on purpose: 812 dropped, 3 corrupted since", lossy)
    assert "since they were set" not in clean
    assert len(wide) == 1 and "leaf1[3], out | Loss 0.5 | 800 dropped |" in wide[0]


def test_routes_and_credit_loops_name_ports_and_directions(tmp_path):
    """Parallel cables have rows that differ, and a circle can be followed."""
    text = page_code.run(tmp_path, """
        const {Store} = await import("./store.js");
        const {balance} = await import("./routing.js");
        const store = new Store();
        const node = (id, name) => ({id, name, kind: "switch", description: name, lids: []});
        const link = (id, a_port, b_port) => ({id, a: "1", a_port, b: "2", b_port, state: "Active"});
        store.takeFabric({nodes: [node("1", "core1"), node("2", "pod4")], links: [link("x", 19, 3), link("y", 20, 4)],
                          sm_lid: 1});
        return root(balance.show(store, {engine: "", lids: [2, 2], links: [["x", true, 9], ["y", true, 8]],
          loops: [{circle: [["x", true], ["y", false]], others: [["y", true]]}]}, pane)).text;""")
    assert "core1[19] → pod4[3] | 9 |" in text and "core1[20] → pod4[4] | 8 |" in text
    assert "core1[19] → pod4[3]\npod4[4] → core1[20]\nFurther links and directions in circles with these: 1." in text


def test_a_list_of_events_is_one_stop_of_the_tab_key(tmp_path):
    """Arrow keys go from event to event, and a renewed list keeps the place."""
    first, moved, renewed, end = page_code.run(tmp_path, """
        const {Store} = await import("./store.js");
        const {eventList} = await import("./label.js");
        const store = new Store();
        const events = [1, 2, 3].map((number) => ({number, at: number, text: `event ${number}`}));
        const stops = (list) => list.all("button").filter(({attributes}) => attributes.tabindex === "0")
          .map(({text}) => text);
        const press = (list, key, target) => {
          list.listeners.keydown({key, target, currentTarget: list, preventDefault: () => {}});
          list.listeners.focusin({target: focused, currentTarget: list});
        };
        const list = eventList(store, events, pane);
        const first = stops(list);
        press(list, "ArrowDown", list.all("button")[0]);
        const moved = [stops(list), focused.text];
        const other = eventList(store, [...events, {number: 4, at: 4, text: "event 4"}], pane);
        const renewed = stops(other);
        press(other, "End", other.all("button")[2]);
        return [first, moved, renewed, stops(other)];""")
    assert (first, moved, renewed, end) == (["event 3"], [["event 2"], "event 2"], ["event 2"], ["event 1"])


def test_a_guest_names_rights_and_its_tables_wrap(tmp_path, hca):
    hca["qps"] = {"count": 1, "entries": [simulated_fabric.qp(0x41, 9, 0x51)]}
    hca["mrs"]["entries"] = [{"kind": "region", "key": key, "access": access, "length": 1}
                             for key, access in (("0x1", "0x0"), ("0x2", "0x3"), ("0x3", "0x309"))]
    text, wide = page_code.run(tmp_path, HOST + """
        return [shown.text, shown.all("div").filter((one) => one.attributes.class === "scroll wide")
          .map((one) => one.all("th")[0].text)];""", hca=hca)
    assert "0x1 | 1 | local read (0x0) |" in text and "0x2 | 1 | local write, remote write (0x3) |" in text
    assert "local write, remote atomic, flush global, flush persistent (0x309) |" in text
    assert "0x41 RC | RTS | LID 9 0x51 | 0x100 … 0x10a | 10 | 61 | 5 of 7 |" in text
    assert wide == ["QP | ", "kind | "]


@pytest.mark.parametrize("timeout, text", [(14, "67.1 ms = 4.096 µs × 2^14"), (1, "8.19 µs = 4.096 µs × 2^1"),
                                           (31, "8800 s = 4.096 µs × 2^31"), (0, "none")])
def test_a_qp_has_its_local_ack_timeout_in_seconds(tmp_path, timeout, text):
    one = {**simulated_fabric.qp(0x41, 9, 0x51), "timeout": timeout}
    shown = page_code.run(tmp_path, HOST + """
        const {qp} = await import("./hca.js");
        store.choose("qp", "0x9", {qpn: 65});
        return root(qp.show(store, {qp: one, cqes: [], there: [], back: [], complete: true, peer: null}, pane)).text;
    """, hca=simulated_hca(), one=one)
    assert f"local ACK timeout | {text} |" in shown


def test_a_search_for_the_host_whose_place_a_guest_has_finds_the_guest(tmp_path):
    found = page_code.run(tmp_path, """
        const {Store} = await import("./store.js");
        const {search} = await import("./search.js");
        const store = new Store();
        const node = (id, name, place) => ({id, name, place, kind: place ? "guest" : "phantom", description: name,
                                            lids: [], port_guids: []});
        store.takeFabric({nodes: [node("0x1", "vm1", "node5"), node("0x2", "node50", ""), node("0x3", "vm0", "vm0")],
                          links: [], sm_lid: 0});
        return [search(store, "node5"), search(store, "vm0")].map((list) => list.map(({text, more}) => [text, more]));
    """)
    assert found == [[["vm1", "guest, in the place of node5, LID none, 0x1"], ["node50", "phantom, LID none, 0x2"]],
                     [["vm0", "guest, LID none, 0x3"]]]
