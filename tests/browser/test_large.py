# SPDX-License-Identifier: GPL-2.0-or-later
"""The page with a fabric of 648 hosts in six pods: folds, search, many events, and large tables."""

import time

import pytest

from conftest import Tab, wait
from lab.bench import bench_page

ENTER, ESCAPE, RIGHT, DOWN = "\ue007", "\ue00c", "\ue014", "\ue015"
FOLDED = 18 + 6                 # nodes on the map: core switches and pods
POD = 12                        # switches
NODES = "document.querySelectorAll('.node').length"
FOCUS = "document.activeElement.innerText.split('\\n')[0]"


@pytest.fixture(name="large")
def _large(shown):
    return shown("fat-tree-648")


@pytest.fixture(name="view")
def _view(driver, large, request):
    opened = Tab(driver, large.server.url)
    opened.wait_text("#summary", "90 switches, 648 hosts")
    yield opened
    opened.screenshot(request.node.name)
    complaints = opened.complaints()
    driver.get("about:blank")
    assert complaints == []


def test_pods_open_and_fold_by_keyboard_and_the_focus_stays_on_the_map(view):
    view.reach(".node")
    view.keys(DOWN)
    assert view.js(FOCUS) == "pod 1"
    view.keys("o")
    view.wait(f"{NODES} === {FOLDED - 1 + POD}")
    assert view.js(FOCUS) == "middle1"
    view.keys(RIGHT, DOWN)
    assert view.js(FOCUS).startswith("leaf")
    view.keys("o")
    view.wait(f"{NODES} === {FOLDED - 1 + POD + 18}")
    view.keys(DOWN, "o")                        # folds the host on which the focus is
    view.wait(f"{NODES} === {FOLDED - 1 + POD}")
    assert view.js(FOCUS).startswith("leaf")
    view.js(f"document.querySelector('{view.node('pod1-middle2')}').focus()")
    view.keys("o")
    view.wait(f"{NODES} === {FOLDED}")
    assert view.js(FOCUS) == "pod 1"


def test_an_opened_pod_is_folded_by_a_click(view):
    view.click(".node.pod", "pod 3\n12 sw, 108 hosts")
    view.wait(f"{NODES} === {FOLDED - 1 + POD}")
    view.click('.fold[aria-label="Fold pod 3"]')
    view.wait(f"{NODES} === {FOLDED}")


def test_the_legend_covers_no_button(view):
    view.click(".node.pod", "pod 1\n12 sw, 108 hosts")
    view.wait(f"{NODES} === {FOLDED - 1 + POD}")
    legend = view.js("document.getElementById('legend').getBoundingClientRect().top")
    assert view.js("Math.max(...[...document.querySelectorAll('.node, .fold')]"
                   ".map((one) => one.getBoundingClientRect().bottom))") <= legend


def test_the_port_guid_of_a_guest_is_found(view, large):
    """`./pib up` prints this GUID."""
    guid = f"0x{large.fabric.net.nodes['node648'].port_guid(1):016x}"
    view.keys("/")
    view.keys(guid)
    view.wait_text("#results", "vm1")
    view.keys(ENTER)
    view.heading("Guest vm1")
    assert f"port GUID {guid}" in view.text("#pane .about")


def test_events_of_all_switches_do_not_displace_those_of_guests(view, large):
    """Thousands of ports have come up with the fabric."""
    for switch in large.fabric.net.switches():
        for port in switch.peers:
            large.fabric.note(switch.name, port, "up")
    view.wait("pib.store.events.filter(({text}) => / ports of .* went up/.test(text)).length === 90")
    assert view.js("pib.store.events.some(({text}) => text === 'vm0 QP 0x41: RETRY_EXC_ERR')")


def test_many_events_share_few_marks(view, large):
    log = large.watcher.timeline
    before = view.js("document.querySelectorAll('#marks .mark').length")
    for number in range(1500):
        log._add(time.time(), "trap", f"link error {number}")           # pylint: disable=protected-access
    large.watcher.hub.send("events", log.as_json())
    view.wait("pib.store.events.length > 1500")
    view.readings(1)
    assert 0 < view.js("document.querySelectorAll('#marks .mark').length") - before < 20
    assert "more before" in view.js("document.querySelector('#marks .k-down title').textContent")


def asked(large) -> int:
    """Requests that only the page of a switch makes, one for each port."""
    return sum(request["command"] == "vls" for request in large.fabric.requests)


def test_the_bench_counts_frames_of_all_nodes(large):
    for switch in large.fabric.net.switches():
        large.fabric.rates.update({(switch.name, port): 1e9 for port in switch.peers})
    assert bench_page.frames(large.server.url, 2.0) > 0


def test_a_large_table_is_made_once(view, large):
    """The page reads the forwarding table of a switch again each second."""
    view.keys("/")
    view.keys("pod2-leaf3", ENTER)
    view.heading("Switch pod2-leaf3")
    rows = "document.querySelectorAll('#pane [data-key=\"lft\"] tbody tr').length"
    entries = len(large.fabric.tables["pod2-leaf3"])
    view.wait(f"{rows} === {entries}")
    view.js("(document.querySelector('#pane [data-key=\"lft\"] tbody tr').seen = true)")
    view.js("(pib.pane.made = 0, pib.pane.part = ((real) => (key, value, build) => real.call(pib.pane, key, value, "
            "() => { pib.pane.made += 1; return build(); }))(pib.pane.part))")
    before = asked(large)
    wait(lambda: asked(large) > before + 2 * 36, "two more answers")
    assert view.js("pib.pane.made") == 0
    lid = max(large.fabric.tables["pod2-leaf3"])
    del large.fabric.tables["pod2-leaf3"][lid]
    view.wait(f"{rows} === {entries - 1}")
    assert view.js("pib.pane.made") == 1 and view.js(
        "document.querySelector('#pane [data-key=\"lft\"] tbody tr').seen")


def test_a_value_that_the_form_refuses_is_reported(view):
    view.keys("/")
    view.keys("core1-1[7]", ENTER)
    view.heading("Link core1-1[7]")
    view.click("form.faults input[name=drop]")
    view.js("document.activeElement.select()")
    view.keys("7", ENTER)
    view.wait_text("#done.error", "Loss, 0 to 1: ")
    view.js("document.activeElement.select()")
    view.keys("0.5", ENTER)
    view.wait_text("#done.note", "The faults are set.")
    view.keys(ESCAPE)
    view.heading("Overview")
