# SPDX-License-Identifier: GPL-2.0-or-later
"""The subnet manager's routing on the page: routes of a link, their balance, credit loops, and two engines compared."""

import time

from conftest import Tab

from lab.web import routes

HOME, ESCAPE = "\ue011", "\ue00c"


def test_a_link_shows_the_routes_through_it(tab):
    tab.click_link("leaf1[5]")
    tab.heading("Link leaf1[5]")
    tab.click("#pane button", "Routes through this link")
    tab.wait_text("#pane", "pairs from leaf1 to spine1")
    assert tab.js("[...document.querySelectorAll('#pane h3')].some((one) => one.innerText.startsWith('Routes'))")


def test_the_balance_of_routes_is_a_histogram_and_marks_the_map(tab):
    tab.click("#balance")
    tab.heading("Routing balance")
    tab.wait("document.querySelectorAll('svg.histogram rect').length > 0")
    assert "Credit loops: 0" in tab.text("#pane")
    assert tab.js("pib.stage.painter.marked.size") == 8
    tab.screenshot("test_the_balance")
    tab.keys(ESCAPE)
    tab.heading("Overview")
    assert tab.js("pib.stage.painter.marked.size") == 0


def test_the_balance_of_a_large_fabric_says_which_routes_it_counts(tab, monkeypatch):
    monkeypatch.setattr(routes, "MOST_ROUTES", 4 * 5)       # from each of four leaves to five LIDs
    tab.click("#balance")
    tab.wait_text("#pane .note", "Only the routes to 5 of 16 LIDs, chosen at random")
    tab.keys(ESCAPE)
    tab.click_link("leaf1[5]")
    tab.click("#pane button", "Routes through this link")
    tab.wait_text("#pane", "LIDs, chosen at random")


def test_credit_loops_of_a_ring_are_marked(driver, shown):
    tab = Tab(driver, shown("ring-8").server.url)
    tab.click("#balance")
    tab.wait_text("#pane", "Credit loops: 2")
    assert tab.js("pib.stage.painter.loops.size") == 8
    rows = tab.js("[...document.querySelectorAll('#pane ol.hops')].map((one) => one.innerText.split('\\n'))")
    assert [len(circle) for circle in rows] == [8, 8]
    for circle in rows:
        ends = [row.split(" → ") for row in circle]
        for one, other in zip(ends, [*ends[1:], ends[0]]):
            assert one[1].split("[")[0] == other[0].split("[")[0]
    tab.screenshot("test_credit_loops")
    assert tab.complaints() == []
    driver.get("about:blank")


def test_changed_routes_are_in_the_time_line_and_compared(tab, tree):
    tab.wait("pib.store.events.length > 0")
    for _ in range(2):                  # a whole reading of the fabric, with its forwarding tables
        now = tab.js("pib.store.now")
        tab.wait(f"pib.store.now > {now}")
    tab.click("#mark")
    moved = tree.fabric.reroute("leaf1")
    text = f"the subnet manager has changed the routes of leaf1 to {moved} LIDs"
    tab.wait(f"pib.store.events.some((event) => event.text === '{text}' && event.at <= pib.store.now)")
    tab.click("#compare")
    tab.heading("compared")
    tab.wait_text("#pane", "Switches with other forwarding tables: 1")
    assert "most routes through one" in tab.text("#pane") and "leaf1[5] → spine" in tab.text("#pane")
    tab.screenshot("test_compared_routes")


def test_two_routing_engines_are_compared(tab, tree):
    """The names of the routing engines are those of opensm's log."""
    log = tree.watcher.routing
    log.note_engine(0.0, "minhop")
    tab.readings(2)
    tab.click("#mark")
    tree.fabric.reroute("leaf1")
    log.note_engine(time.time(), "ftree")
    tab.wait("pib.store.events.some(({text, at}) => text.includes('has changed the routes of leaf1') "
             "&& at <= pib.store.now)")
    tab.click("#compare")
    tab.wait_text("#pane", "Outlined: minhop, ")
    assert "; filled: ftree, " in tab.text("#pane")
    assert tab.js("document.querySelectorAll('svg.histogram rect.first').length") > 1
    assert tab.js("document.querySelectorAll('svg.histogram rect:not(.first)').length") > 1
    tab.screenshot("test_two_engines")
    tab.click("#balance")
    tab.heading("Routing balance, ftree")
    most = "Math.max(...[...document.querySelectorAll('#pane td.number')].map((one) => Number(one.innerText)))"
    now = tab.js(most)
    tab.js("document.getElementById('cursor').focus()")
    tab.keys(HOME)                              # the balance, and the map, of the engine before
    tab.heading("Routing balance, minhop")
    assert tab.js(most) < now
    assert tab.js("pib.stage.painter.marked.size") == 8
