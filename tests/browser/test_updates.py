# SPDX-License-Identifier: GPL-2.0-or-later
"""The page changes with the fabric while a user works with it: clicks reach their targets, and focus and typed text
stay."""

import threading
import time

import simulated_fabric
from conftest import Tab, wait
from lab.web import publish

ENTER = "\ue007"
FAILED = "vm0 QP 0x41: RETRY_EXC_ERR"


def hold(tab, selector: str, text: str = "") -> None:
    tab.hold(wait(lambda: tab.box(selector, text), f"{selector} {text}"))


def test_a_long_click_in_the_overview_hits_its_element(tab, tree):
    hold(tab, "#pane button.go", FAILED)
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.readings(2)
    assert "leaf2[5]" not in tab.text("#pane ol.events")         # else the event would have moved away
    tab.let_go()
    tab.heading("QP 0x41 of vm0")


def test_changes_that_a_press_postpones_are_shown_after_it(tab, tree):
    hold(tab, "#pane h2")
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.let_go()
    tab.wait_text("#pane ol.events", "leaf2[5]")


def test_a_long_click_on_a_links_button_hits_the_button(tab, tree):
    tab.click_link("leaf1[5]")
    tab.heading("Link leaf1[5]")
    hold(tab, "#pane button", "Pull the cable")
    tab.wait("pib.pane.press.waiting !== null")          # an answer has come
    tab.let_go()
    tab.wait_text("#pane .state", "Down, cable pulled")


def test_a_long_click_on_a_mark_of_the_time_line_hits_the_mark(tab):
    tab.wait("document.querySelectorAll('#marks .k-qp').length === 1")
    place = tab.js("""(({x, y, width, height}) => ({x: x + width / 2, y: y + height / 2}))(
        document.querySelector('#marks .k-qp').getBoundingClientRect())""")
    tab.hold(place)
    tab.readings(2)
    tab.let_go()
    tab.wait("pib.store.moment !== null")


def test_a_long_click_on_the_map_hits_its_node_while_the_fabric_grows(tab, tree):
    hold(tab, '.fold[aria-label="Fold 4 hosts of leaf2"]')
    tab.js("pib.store.tell('fabric')")
    tab.let_go()
    tab.wait("document.querySelectorAll('.node').length === 18")


def test_elements_stay_while_their_content_changes(tab, tree):
    tab.click_link("leaf1[5]")
    tab.heading("Link leaf1[5]")
    tab.js("document.querySelectorAll('#pane svg, #pane button, #pane input, #pane select, #pane tr')"
           ".forEach((one) => { one.seen = true; })")
    tree.fabric.rates["leaf1", 5] = 6e9
    tab.wait("document.querySelector('#pane svg.curve').textContent.includes('GiB/s')")
    assert tab.js("[...document.querySelectorAll('#pane svg, #pane button, #pane input, #pane select')]"
                  ".filter(({seen}) => !seen).map(({outerHTML}) => outerHTML)") == []


def test_a_host_that_becomes_a_guest_is_one_on_the_map(tab, tree):
    """The switch knows a host at once, the lab knows its objects up to two seconds later."""
    guest = tree.source.found.pop("vm1")
    button = tab.node("vm1")
    look = f"document.querySelector({button!r})"
    tab.wait(f"{look}.className.includes('host')")
    tree.source.found["vm1"] = guest
    tab.wait("[...pib.store.nodes.values()].some(({guest}) => guest === 'vm1')")
    tab.readings(1)
    assert tab.js(f"[{look}.className, {look}.title]")[0].split()[1] == "guest"


def test_a_typed_fault_and_the_focus_stay_while_the_link_changes(tab, tree):
    tab.click_link("leaf4[6]")
    tab.heading("Link leaf4[6]")
    tab.click("form.faults input[name=drop]")
    tab.js("document.activeElement.select()")
    tab.keys("0.25")
    tree.fabric.link({"switch": "leaf4", "port": 6, "state": "down"})
    tab.wait_text("#pane .state", "Down, cable pulled")
    assert tab.js("[document.activeElement.name, document.activeElement.value]") == ["drop", "0.25"]
    tab.click("form.faults button", "Set faults")
    tab.wait_text("#pane section", "Loss 0.25")
    tab.click_link("leaf1[5]")                  # the form of another link begins anew
    tab.heading("Link leaf1[5]")
    assert tab.js("document.querySelector('form.faults input[name=drop]').value") == "0"


def test_rows_that_change_their_order_keep_the_focus(tab, tree):
    tree.fabric.rates.update({("leaf1", 1): 2e9, ("leaf2", 1): 1e9})
    first = "document.querySelector('#pane [data-key^=\"table link,there\"] tbody button').innerText"
    tab.wait_text("#pane", "Busiest links")
    tab.wait(f"{first}.startsWith('leaf1[1]')")
    tab.js("document.querySelectorAll('#pane [data-key^=\"table link,there\"] tbody button')[1].focus()")
    tree.fabric.rates["leaf2", 1] = 9e9
    tab.wait(f"{first}.startsWith('leaf2[1]')")
    assert tab.js("document.activeElement.innerText.startsWith('leaf2[1]')")


def test_a_pointer_that_is_released_elsewhere_postpones_no_change(tab, tree):
    hold(tab, "#pane h2")
    tab.js("document.getElementById('pane')"
           ".dispatchEvent(new PointerEvent('pointermove', {buttons: 0, bubbles: true}))")
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.wait_text("#pane ol.events", "leaf2[5]")
    tab.let_go()


def test_a_link_disappears_while_its_pane_waits_for_an_answer(tab, tree, monkeypatch):
    """An exception would be a message of the console, which fails the test."""
    tab.keys("/")
    tab.keys("node5[1]", ENTER)
    tab.heading("Link leaf2[1]")
    real, begun, go_on = tree.fabric.fault, threading.Event(), threading.Event()

    def late(request):
        begun.set()
        go_on.wait()
        return real(request)
    monkeypatch.setattr(tree.fabric, "fault", late)
    wait(begun.is_set, "a request of the pane")
    tree.fabric.unplug("node5")
    tab.wait("document.querySelectorAll('.node').length === 21")
    go_on.set()
    tab.heading("Not there")


def test_a_page_for_which_there_is_no_room_says_so_and_comes_back(driver, tree, monkeypatch):
    """The browser does not reopen a refused stream by itself. It logs the refusal, which is not a failure of this
    test."""
    tab = Tab(driver, tree.server.url)
    with monkeypatch.context() as patch:
        patch.setattr(publish, "MOST_STREAMS", 0)
        for stream in list(tree.watcher.hub._streams):      # pylint: disable=protected-access
            stream.open = False
        tab.wait_text("#trouble", "The server has no room for another page: close one.")
    tab.wait("document.getElementById('trouble').hidden")
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.wait_text("#summary", "23 of 24 links Active")
    assert [text for text in tab.complaints() if "503" not in text] == []
    driver.get("about:blank")


def test_times_of_other_days_have_their_date(tab, tree):
    """A page may be open for days."""
    before = time.time() - 2 * 86400
    tree.source.found["vm0"]["hcas"][0]["journal"].append(
        {**simulated_fabric.failure(before, tree.fabric.lids["node16"]), "qpn": 0x42})
    tab.wait_text("#pane ol.events", "vm0 QP 0x42: RETRY_EXC_ERR")
    assert time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(before)) in tab.text("#pane ol.events")
    assert time.strftime("%Y-%m-%d") not in tab.text("#pane ol.events")
