# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of ./pib web in a browser: each test clicks or types, and looks at the page."""

import itertools
import math
import re
import struct
import zlib

import pytest

from conftest import Tab, open_guest, wait
from simulated_fabric import packet

HOME, END, ENTER, ESCAPE, TAB = "\ue011", "\ue010", "\ue007", "\ue00c", "\ue004"
RIGHT, DOWN, UP = "\ue014", "\ue015", "\ue013"


# -- the map ------------------------------------------------------------------------------

def test_the_map_has_all_nodes_and_links(tab, tree):
    assert set(tab.js("[...document.querySelectorAll('.node span')].map((one) => one.innerText)")) == {
        tree.fabric.guests.get(name, name) for name in tree.fabric.net.nodes}
    assert tab.js("pib.stage.painter.edges.flatMap(({links}) => links).length") == 24
    assert "6 switches, 16 hosts, 24 of 24 links Active, SM at LID 7 (vm0)" in tab.text("#summary")
    assert tab.js("document.querySelectorAll('.node.sm').length") == 1


def test_levels_are_above_each_other_and_nothing_overlaps(tab):
    boxes = tab.js("""[...document.querySelectorAll('.node')].map((one) => {
        const {left, right, top, bottom} = one.getBoundingClientRect();
        return {name: one.innerText.split("\\n")[0], left, right, top, bottom};
    })""")
    height = {box["name"][:4]: box["top"] for box in boxes}
    assert height["spin"] < height["leaf"] < height["node"]
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            assert (one["right"] <= other["left"] or other["right"] <= one["left"] or one["bottom"] <= other["top"]
                    or other["bottom"] <= one["top"]), (one, other)


def test_hosts_fold_under_their_switch(tab):
    assert tab.js("document.querySelectorAll('.node').length") == 22
    tab.click('.fold[aria-label="Fold 4 hosts of leaf2"]')
    tab.wait("document.querySelectorAll('.node').length === 18")
    tab.click('.fold[aria-label="Open 4 hosts of leaf2"]')
    tab.wait("document.querySelectorAll('.node').length === 22")


def test_loads_move_on_the_links(tab, tree):
    assert not tab.js("pib.stage.painter.moving")
    tree.fabric.rates["leaf1", 2] = 6e9
    tab.wait("pib.stage.painter.moving")
    tab.wait_text("#pane", "Busiest links")
    tab.wait_text("#pane", "leaf1[2] – node2[1]")
    tab.wait_text("#pane", "VL 2")              # its colour is not the only sign
    picture = "document.getElementById('links').toDataURL()"
    first = tab.js(picture)
    wait(lambda: tab.js(picture) != first, "another picture")


def test_the_busiest_links_of_a_large_tree_move(driver, shown):
    """The loads of the others are in the picture that does not move."""
    large = shown("fat-tree-648")
    tab = Tab(driver, large.server.url)
    tab.click("#unfold")
    tab.wait("document.querySelectorAll('.node').length === 738")
    switches = list(large.fabric.net.switches())
    large.fabric.rates = {(switch.name, port): 1e9 for switch in switches for port in switch.peers}
    busiest = (switches[0].name, min(switches[0].peers))
    large.fabric.rates[busiest] = 9e9
    tab.wait("pib.stage.painter.moved?.length === 200")
    link = tab.link(f"{busiest[0]}[{busiest[1]}]")
    tab.wait(f"pib.stage.painter.moved.some(({{edge}}) => edge.links[0].id === {link!r})")
    assert tab.js("pib.stage.painter.looks.filter(({now}) => now.there + now.back > 0).length") > 1000
    picture = "document.getElementById('links').toDataURL()"
    first = tab.js(picture)
    wait(lambda: tab.js(picture) != first, "another picture")
    tab.screenshot("test_a_large_tree_with_loads")
    assert tab.complaints() == []
    driver.get("about:blank")


def test_a_large_tree_is_folded_and_opens(driver, shown):
    large = shown("fat-tree-648")
    tab = Tab(driver, large.server.url)
    tab.wait_text("#summary", "90 switches, 648 hosts")
    assert tab.js("document.querySelectorAll('.node.pod').length") == 6
    assert tab.js("document.querySelectorAll('.node').length") == 18 + 6
    tab.click(".node.pod", "pod 2\n12 sw, 108 hosts")
    tab.wait("document.querySelectorAll('.node').length === 18 + 5 + 12")
    tab.screenshot("test_a_large_tree_folded")
    tab.click("#unfold")
    tab.wait("document.querySelectorAll('.node').length === 738")
    tab.screenshot("test_a_large_tree_open")
    tab.click("#unfold")
    tab.wait("document.querySelectorAll('.node').length === 18 + 6")
    tab.click("#query")
    tab.keys("node333", ENTER)
    tab.heading("Phantom host node333")
    tab.wait("document.activeElement.innerText === 'node333'")
    tab.screenshot("test_a_large_tree_found")
    assert tab.complaints() == []
    driver.get("about:blank")


@pytest.mark.parametrize("name", ["ring-8", "torus-4x4", "dragonfly-72", "single-16", "hypercube-4",
                                  "torus-4x4x4"])
def test_other_topologies_have_a_place_for_each_node(driver, shown, name):
    fabric = shown(name)
    tab = Tab(driver, fabric.server.url)
    tab.click("#unfold")
    tab.wait(f"document.querySelectorAll('.node').length === {len(fabric.fabric.net.nodes)}")
    places = tab.js("[...pib.stage.items.values()].map(({x, y}) => `${Math.round(x)} ${Math.round(y)}`)")
    assert len(set(places)) == len(places) and not any("NaN" in place for place in places)
    assert tab.js("""(() => {
        const items = [...pib.stage.items.values()];
        return items.filter((one, number) => items.slice(number + 1).some((other) =>
            Math.abs(one.x - other.x) < (one.width + other.width) / 2
            && Math.abs(one.y - other.y) < (one.height + other.height) / 2)).map(({name}) => name);
    })()""") == []
    tab.screenshot(f"test_other_topologies_{name}")
    assert tab.complaints() == []
    driver.get("about:blank")


# -- links ----------------------------------------------------------------------------------

def test_a_click_on_a_link_shows_it_and_its_cable_can_be_pulled(tab, tree):
    tab.click_link("leaf1[5]")
    tab.heading("Link leaf1[5] – spine1[1]")
    tab.wait("document.querySelectorAll('#pane svg.curve').length === 4")
    tab.click("#pane button", "Pull the cable")
    tab.wait_text("#pane .state", "Down, cable pulled")
    assert tree.fabric.pulled == {("leaf1", 5)}
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.wait("document.querySelectorAll('#marks .k-down').length === 1")
    tab.screenshot("test_a_pulled_cable")
    tab.click("#pane button", "Put the cable back")
    tab.wait_text("#pane .state", "Active")
    assert not tree.fabric.pulled


def test_faults_are_set_and_cleared(tab, tree):
    tab.click_link("leaf4[6]")
    tab.heading("Link leaf4[6] – spine2[4]")
    for name, value in (("drop", "0.25"), ("delay_us", "80")):
        tab.click(f"form.faults input[name={name}]")
        tab.js("document.activeElement.select()")
        tab.keys(value)
    tab.click("form.faults button", "Set faults")
    tab.wait_text("#pane section", "Loss 0.25, Delay 80")
    assert tree.fabric.faults == {("leaf4", 6, way): {"drop": 0.25, "delay_us": 80} for way in ("in", "out")}
    tab.wait("[...pib.store.links.values()].filter(({faults}) => faults).length === 1")
    tab.click("form.faults button", "Clear faults")
    tab.wait_text("#done", "No fault is injected.")
    assert not tree.fabric.faults


def test_an_answer_that_comes_late_leaves_the_focus_in_the_form(tab):
    tab.click_link("leaf4[6]")
    tab.heading("Link leaf4[6]")
    tab.driver.execute_script("""
        const real = window.fetch;
        const held = new Promise((release) => { window.release = release; });
        [window.asked, window.answered] = [0, 0];
        window.fetch = async (...words) => {
            window.asked += 1;
            await held;
            const answer = await real(...words);
            window.answered += 1;
            return answer;
        };""")
    tab.wait("window.asked > 0")
    tab.click("form.faults input[name=drop]")
    tab.driver.execute_script("window.release()")
    tab.wait("window.answered === window.asked")
    tab.driver.execute_async_script("setTimeout(arguments[0], 300)")
    assert tab.js("document.activeElement.name") == "drop"


def test_a_fault_that_the_switch_refuses_is_reported(tab, tree, monkeypatch):
    answer, refusal = tree.fabric.answer, {"ok": False, "error": "leaf4 takes no faults now"}
    monkeypatch.setattr(tree.fabric, "answer", lambda request: refusal if "set" in request else answer(request))
    tab.click_link("leaf4[6]")
    tab.heading("Link leaf4[6]")
    tab.click("form.faults input[name=drop]")
    tab.keys("0.25")
    tab.click("form.faults button", "Set faults")
    tab.wait_text("#done.error", refusal["error"])
    assert not tree.fabric.faults
    assert len(tab.complaints()) == 1           # the browser's own message about the status


# -- nodes ----------------------------------------------------------------------------------

def test_a_switch_shows_ports_and_tables(tab, tree):
    tab.click(tab.node("leaf3"))
    tab.heading("Switch leaf3")
    tab.wait_text("#pane", f"Unicast forwarding (LFT), {len(tree.fabric.tables['leaf3'])} entries")
    assert "Multicast forwarding (MFT), 1 groups" in tab.text("#pane") and "0xc001" in tab.text("#pane")
    tree.fabric.groups[0xC002] = [2, 5]         # a change in the fabric is shown without a click
    tab.wait_text("#pane", "Multicast forwarding (MFT), 2 groups")
    assert "0xc002\t2, 5" in tab.text("#pane")
    assert tab.text("#pane").count("Active") == 6
    assert tab.text("#pane").count("VL 0 to 7: 256") == tab.text("#pane").count("VL 0 × 4, VL 1 × 2") == 6
    tab.click("#pane table button.go", "5")
    tab.heading("Link leaf3[5]")


def test_a_qp_shows_its_route_through_the_fabric(tab):
    open_guest(tab)
    tab.wait_text("#pane", "Queue pairs, 2")
    text = " ".join(tab.text("#pane").split())
    assert "0x1 256 90 next" in text and text.count("0x100 … 0x10a 10 61 5 of 7") == 2
    tab.click("#pane button.go", "0x41")
    tab.heading("QP 0x41 of vm0")
    tab.wait("pib.store.path.there.size === 4")
    assert tab.js("document.querySelectorAll('ol.hops')[0].children.length") == 4
    names = set(tab.js("[...document.querySelectorAll('.node.onpath span')].map((one) => one.innerText)"))
    assert {"vm0", "leaf1", "leaf4", "vm1"} < names and len(names) <= 6
    tab.screenshot("test_a_qp")
    tab.click("#pane button.go", "QP 0x51")
    tab.heading("QP 0x51 of vm1")


def test_a_qp_shows_the_wqes_and_cqes_of_both_ends(tab):
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.wait_text("#pane", "Work requests of vm0 0x41")
    tab.wait_text("#pane", "Work requests of vm1 0x51")
    text = " ".join(tab.text("#pane").split())
    assert text.count("send 128 10 10") == text.count("receive 64 61 3") == 2
    assert text.count("14 RDMA WRITE 4,096 0x100 to 0x103 yes") == text.count("15 SEND WITH IMM 8 0x104 not yet") == 2
    assert text.count("13 RDMA READ 512 success 2.000 s") == text.count("13 RDMA READ 512 RETRY_EXC_ERR 2.000 s") == 2
    assert text.count("2 2,048 1,024 octets of it are filled 3 2,048 waits 4 breaks a rule") == 2
    assert text.count("59 more receive WQEs wait.") == 2
    tab.js("[...document.querySelectorAll('#pane h3')].find((one) => one.innerText.includes('vm0')).scrollIntoView()")


def test_a_qp_shows_the_wqes_of_its_srq(tab, tree):
    for guest in tree.source.found.values():
        objects = guest["hcas"][0]["objects"]
        for qp in objects["qps"]["entries"]:
            qp |= {"srq": 3, "rq": {"depth": 0, "producer": 0, "consumer": 0, "posted": 0, "wqes": []}}
        objects["srqs"]["entries"].append({"srqn": 3, "queue": {
            "depth": 32, "producer": 9, "consumer": 7, "posted": 1,
            "wqes": [{"counter": 7, "bytes": 512, "sges": 1, "valid": True}]}})
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.wait_text("#pane", "Work requests of vm1 0x51")
    text = " ".join(tab.text("#pane").split())
    assert text.count("SRQ 0x3 32 1 7") == text.count("7 512 waits") == 2


def test_packets_of_a_qp_are_drawn_as_a_sequence(tab, tree):
    near, far = tree.fabric.lids["node1"], tree.fabric.lids["node16"]
    tree.fabric.packets = [
        (100.0, packet(near, far, 0x51, 0, 7)), (100.0001, packet(near, far, 0x51, 2, 8)),
        (100.0002, packet(far, near, 0x41, 17, 7, bytes([0x60, 0, 0, 3]))), (100.0004, packet(near, far, 0x51, 2, 8)),
        (100.0005, packet(far, near, 0x41, 17, 8, bytes([0x0A, 0, 0, 4])))]
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.heading("QP 0x41 of vm0")
    tab.click("#pane button", "Record packets")
    tab.wait("document.querySelectorAll('svg.sequence path').length === 5")
    assert tab.js("document.querySelectorAll('svg.sequence path.refused').length") == 1
    assert "NAK, PSN sequence error  0x7" in tab.js("document.querySelector('svg.sequence').textContent")
    tab.js("document.querySelector('svg.sequence').scrollIntoView()")


def test_packets_go_on_being_recorded(tab, tree):
    """One capture stays open, so that no packet between two questions of the page is missing."""
    near, far = tree.fabric.lids["node1"], tree.fabric.lids["node16"]
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.click("#pane button", "Record packets")
    tab.wait_text("#pane", "no packet yet")
    psn = 0
    for number in (1, 2, 3):
        for _ in range(5):
            tree.fabric.packets.append((100.0 + psn, packet(near, far, 0x51, 4, psn)))
            psn += 1
        tab.wait(f"document.querySelectorAll('svg.sequence path').length === {5 * number}")
    assert "15 packets since" in tab.text("#pane")
    tree.fabric.packets += [(200.0, packet(near, far, 0x51, 4, psn)) for psn in range(1000)]
    tab.wait_text("#pane", "1,015 packets since")
    assert "the last 40 are drawn" in tab.text("#pane")
    assert sum(asked["command"] == "capture" for asked in tree.fabric.requests) == 1


def test_missing_packets_have_a_row(tab):
    drawn = tab.driver.execute_async_script("""
        const [done] = arguments;
        import("./sequence.js").then(({chart, joined}) => {
            const answer = (numbers, next, missed) => ({began: 5, next, missed, lost: 3, lids: [1], messages: numbers.map(
                (number) => ({number, at: number, slid: 1, name: "RC SEND_ONLY", answer: "", qpn: 1, psn: number}))});
            const whole = joined(answer([0, 1], 2, 0), answer([9, 10], 11, 7));
            done([chart(["a", "b"], whole).textContent, joined(whole, {...answer([0], 1, 0), began: 6}).missed]);
        });""")
    assert "7 packets are not shown" in drawn[0] and "7 came too fast for this page" in drawn[0]
    assert "the switch lost 3 more" in drawn[0] and "11 packets since" in drawn[0] and drawn[1] == 0


def test_a_capture_that_the_switch_refuses_leaves_the_pane(tab, tree):
    tree.fabric.most_captures = 0
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.click("#pane button", "Record packets")
    tab.wait_text("#pane .error", "No packets are recorded now: ")
    assert "4 captures run" in tab.text("#pane .error")
    assert "Route to the peer" in tab.text("#pane") and "QP 0x41 of vm0" in tab.text("#pane h2")
    tree.fabric.most_captures = 4
    tab.wait_text("#pane", "no packet yet")
    assert tab.text("#pane .error") == ""


def test_a_pulled_cable_names_the_connections_that_it_cuts(tab, tree):
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.heading("QP 0x41 of vm0")
    hop = tab.wait("[...pib.store.path.there.keys()][1]")
    switch, port = tab.js("(({a, a_port}) => [pib.store.nodes.get(a).name, a_port])(pib.store.links.get(arguments[0]))",
                          hop)
    tab.keys(ESCAPE)
    tab.click_link(f"{switch}[{port}]")
    tab.wait_text("#pane", "0x42\tvm0\tvm1")
    assert "Connections over this link: " in tab.text("#pane")
    tab.click("#pane button", "Pull the cable")
    tab.wait_text("#pane .state", "Down, cable pulled")
    tab.keys(ESCAPE)
    tab.wait_text("#pane", "vm0 QP 0x41 is cut off from vm1")
    tab.screenshot("test_a_cut_connection")
    cut = tab.js("[...document.querySelectorAll('#pane button.go')].find(({innerText}) => "
                 "innerText.startsWith('vm0 QP 0x41 is cut off')).innerText")
    assert f"{switch}[{port}]" in cut
    tab.click("#pane button.go", cut)
    tab.heading("QP 0x41 of vm0")
    tab.wait_text("#pane", "The route ends at")


def test_events_of_a_qp_are_shown_after_its_end(tab, tree):
    objects = tree.source.found["vm0"]["hcas"][0]["objects"]
    objects["qps"]["entries"] = [qp for qp in objects["qps"]["entries"] if qp["qpn"] != 0x41]
    tab.click("#pane button.go", "vm0 QP 0x41: RETRY_EXC_ERR")
    tab.heading("QP 0x41 of vm0")
    tab.wait_text("#pane", "vm0 has no QP with this number any more")
    assert "vm0 QP 0x41: RETRY_EXC_ERR" in tab.text("#pane ol.events")
    tab.click("#pane button", "Why did this happen?")
    tab.heading("What went wrong with vm0:0x41")


def test_a_failed_request_is_in_the_time_line_and_leads_to_its_qp(tab):
    tab.click("#pane button.go", "vm0 QP 0x41: RETRY_EXC_ERR")
    tab.heading("QP 0x41 of vm0")
    assert tab.js("pib.store.moment !== null")


def test_lines_of_why_link_to_explanations(tab):
    tab.click("#why")
    tab.wait_text("#pane", "vm0 QP 0x41: RETRY_EXC")
    assert "docs/" not in tab.text("#pane ol.events")
    tab.click("#pane button.explain")
    tab.heading("IBV_WC_RETRY_EXC_ERR")
    tab.wait_text("#pane", "Causes: no answer after retry_cnt retries.")
    tab.screenshot("test_an_explanation")
    tab.click("#pane button", "Back")
    tab.heading("What went wrong")


def test_a_guest_shows_its_memory_regions_and_counters(tab):
    open_guest(tab)
    tab.wait_text("#pane", "Memory regions and windows, 1")
    text = " ".join(tab.text("#pane").split())
    assert "access region 0x1234 65,536 local write, remote write, remote read (0x7) Last failures" in text
    assert re.search(r"Counters counter value \w+ [\d,]+", text), text


def test_failures_of_a_guest_link_to_explanations(tab):
    open_guest(tab)
    tab.click("#pane button.explain", "IBV_WC_RETRY_EXC_ERR")
    tab.heading("IBV_WC_RETRY_EXC_ERR")
    tab.click("#pane button", "Back")
    tab.heading("Guest vm0")


# -- time -----------------------------------------------------------------------------------

def test_why_reports_that_a_cable_was_pulled(tab, tree):
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.click("#why")
    tab.heading("What went wrong")
    tab.wait_text("#pane", "the cable was pulled")


def test_a_fabric_that_has_ended_is_reported(tab, tree):
    tree.process.end()
    tree.process.hang_up()
    tree.process.path.unlink()
    tab.wait("!document.getElementById('trouble').hidden")
    assert "switch" in tab.text("#trouble")


# -- search and keyboard --------------------------------------------------------------------

@pytest.mark.parametrize("text, found", [("spine2", "Switch spine2"), ("LID 4", "Switch leaf4"),
                                         ("0x0650494201000020", "Phantom host node3"), ("vm1", "Guest vm1"),
                                         ("leaf3[5]", "Link leaf3[5]"), ("vm1:0x51", "QP 0x51 of vm1"),
                                         ("0x42", "QP 0x42 of vm0"), ("qp 81", "QP 0x51 of vm1"),
                                         ("node16", "Guest vm1")])
def test_search_finds_names_guids_lids_and_qps(tab, text, found):
    tab.keys("/")
    tab.keys(text)
    tab.wait("document.querySelectorAll('#results [role=option]').length > 0")
    tab.keys(ENTER)
    tab.heading(found)


def test_a_search_without_a_result_says_so(tab):
    tab.keys("/")
    tab.keys("nothing at all")
    tab.wait_text("#results", "No node has this name")
    tab.keys(ESCAPE)
    tab.wait("document.getElementById('results').hidden")


def test_the_map_is_used_by_keyboard(tab):
    tab.js(f"document.querySelector('{tab.node('spine1')}').focus()")
    name = "document.activeElement.innerText.split('\\n')[0]"
    tab.keys(RIGHT)
    assert tab.js(name) == "spine2"
    tab.keys(DOWN)
    leaf = tab.js(name)
    assert leaf.startswith("leaf")
    tab.keys("o")
    tab.wait("document.querySelectorAll('.node').length === 18")
    tab.keys(ENTER)
    tab.heading(f"Switch {leaf}")
    tab.keys(ESCAPE)
    tab.heading("Overview")
    assert tab.js("document.querySelectorAll('.node[tabindex=\"0\"]').length") == 1


def found(tab, text: str, heading: str) -> None:
    tab.keys("/")
    tab.keys(text)
    tab.wait("document.querySelectorAll('#results [role=option]').length > 0")
    tab.keys(ENTER)
    tab.heading(heading)


def test_a_link_is_used_by_keyboard(tab, tree):
    found(tab, "leaf4[6]", "Link leaf4[6]")
    tab.reach("#pane button", "Pull the cable")
    tab.keys(ENTER)
    tab.wait_text("#pane .state", "Down, cable pulled")
    assert tab.js("document.activeElement.innerText") == "Put the cable back"
    tab.keys(ENTER)
    tab.wait_text("#pane .state", "Active")
    assert not tree.fabric.pulled and tab.js("document.activeElement.innerText") == "Pull the cable"
    tab.reach("form.faults input[name=drop]")
    tab.js("document.activeElement.select()")
    tab.keys("0.5", ENTER)
    tab.wait_text("#done", "The faults are set")
    assert tree.fabric.faults["leaf4", 6, "in"] == {"drop": 0.5}
    tab.reach("form.faults button", "Clear faults")
    tab.keys(ENTER)
    tab.wait_text("#done", "No fault is injected")
    tab.reach("#pane button", "Routes through this link")
    tab.keys(ENTER)
    tab.wait_text("#pane", "by the forwarding tables")
    assert tab.js("document.getElementById('pane').contains(document.activeElement)")
    tab.reach("#pane button.go", "spine2")
    tab.keys(ENTER)
    tab.heading("Switch spine2")


def test_a_qp_is_used_by_keyboard(tab):
    found(tab, "vm0", "Guest vm0")
    tab.reach("#pane button.go", "0x41")
    tab.keys(ENTER)
    tab.heading("QP 0x41 of vm0")
    tab.reach("#pane button", "Record packets")
    tab.keys(ENTER)
    tab.wait("document.activeElement.innerText === 'Record packets' && "
             "document.activeElement.getAttribute('aria-pressed') === 'true'")
    tab.keys(ENTER)
    tab.reach("#pane button", "Why did this happen?")
    tab.keys(ENTER)
    tab.heading("What went wrong with vm0:0x41")
    tab.reach("#pane button", "The whole fabric")
    tab.keys(ENTER)
    tab.heading("What went wrong")


def test_the_time_line_is_used_by_keyboard(tab, tree):
    tab.reach("#mark")
    tab.keys(ENTER)
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.reach("#compare")
    tab.keys(ENTER)
    tab.heading("compared")
    tab.wait_text("#pane", "Links whose state differs: 1")
    tab.reach("#cursor")
    tab.keys(HOME)
    tab.wait_text("#summary", "24 of 24 links Active")
    tab.reach("#live")
    tab.keys(ENTER)
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.keys(ESCAPE)
    event = "leaf2[5] – spine1[2]: the cable was pulled"
    tab.wait_text("#pane", event)
    tab.reach("#pane ol.events button")
    wait(lambda: tab.js("document.activeElement.innerText") == event or tab.keys(DOWN), event)
    tab.keys(ENTER)
    tab.heading("Link leaf2[5]")


def test_every_control_has_a_name_and_a_place_in_the_tab_order(tab):
    """Tab passes through the head, the map (once), the pane and the time line."""
    tab.js("document.body.focus()")
    seen = []
    for _ in range(60):
        tab.keys(TAB)
        seen.append(tab.js("document.activeElement.id || document.activeElement.className.split(' ')[0]"))
    for name in ("query", "unfold", "balance", "fit", "node", "live", "cursor"):
        assert name in seen
    assert seen.index("query") < seen.index("node") < seen.index("live") < seen.index("cursor")
    nameless = tab.js("""[...document.querySelectorAll('button, input, select')].filter((one) => !one.innerText.trim()
        && !one.getAttribute('aria-label') && !one.closest('label')).map((one) => one.outerHTML)""")
    assert nameless == []


def test_states_differ_without_colours(tab):
    """Each line of the legend has a dash, a shape or a width of its own."""
    tab.click("#legend summary")
    tab.wait("document.getElementById('legend').open")
    looks = tab.js("""[...document.querySelectorAll('#legend svg:has(line)')].map((one) => {
        const line = one.querySelector('line');
        return `${line.getAttribute('stroke-dasharray')} ${line.getAttribute('stroke-width')} `
            + `${one.querySelector('path')?.getAttribute('d')}`;
    })""")
    assert len(looks) == 8 and len(set(looks)) == 8


def test_the_legend_draws_states_as_the_map_does(tab):
    legend = tab.js("Object.fromEntries([...document.querySelectorAll('#legend [data-state]')].map((one) => "
                    "[one.dataset.state, one.getAttribute('stroke-dasharray') ?? '']))")
    patterns = tab.driver.execute_async_script(
        "import('./paint.js').then(({PATTERNS}) => arguments[arguments.length - 1](PATTERNS))")
    assert legend == {state: " ".join(map(str, lengths)) for state, lengths in patterns.items()}
    assert patterns["Armed"] != patterns["Initialize"]


def test_no_two_vls_look_alike(tab):
    looks = tab.driver.execute_async_script("""
        import('./format.js').then(({vlColour, vlDashes}) => arguments[arguments.length - 1](
            [...Array(16).keys()].map((vl) => `${vlColour(vl)} ${vlDashes(vl)}`)));""")
    assert len(set(looks)) == 16


def colours(picture: bytes) -> list[bytes]:
    """The rows of a PNG as Chromium writes it: 8 bits, RGB or RGBA."""
    chunks, at = {}, 8
    while at < len(picture):
        length, kind = struct.unpack_from(">I4s", picture, at)
        chunks[kind] = chunks.get(kind, b"") + picture[at + 8:at + 8 + length]
        at += length + 12
    width, height, _depth, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    step = {2: 3, 6: 4}[colour]
    data, rows = zlib.decompress(chunks[b"IDAT"]), [bytes(width * step)]
    for number in range(height):
        begin = number * (width * step + 1)
        row, above = bytearray(data[begin + 1:begin + 1 + width * step]), rows[-1]
        for place, octet in enumerate(row):
            left, corner = (row[place - step], above[place - step]) if place >= step else (0, 0)
            up = above[place]
            paeth = min((left, up, corner), key=lambda one, sum_=left + up - corner: abs(sum_ - one))
            row[place] = (octet + (0, left, up, (left + up) // 2, paeth)[data[begin]]) & 0xff
        rows.append(bytes(row))
    return [bytes(octet for place, octet in enumerate(row) if place % step < 3) for row in rows[1:]]


@pytest.mark.parametrize("kind", ["protanopia", "deuteranopia", "tritanopia"])
def test_vls_have_colours_that_differ_for_the_colour_blind(tab, tree, kind):
    tree.fabric.rates.update({("leaf1", 2): 6e9, ("leaf1", 4): 6e9, ("leaf1", 6): 6e9})
    tab.click("#legend summary")
    tab.wait("pib.stage.painter.moving")
    tab.driver.execute_cdp_cmd("Emulation.setEmulatedVisionDeficiency", {"type": kind})
    try:
        tab.screenshot(f"test_seen_with_{kind}")
        legend = tab.driver.find_element("css selector", "#legend svg:has(rect)")
        row = colours(legend.screenshot_as_png)[6]
        vls = [row[3 * x:3 * x + 3] for x in range(2, 48, 6)]
        assert all(math.dist(one, other) > 40 for one, other in itertools.combinations(vls, 2)), vls
    finally:
        tab.driver.execute_cdp_cmd("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
