# SPDX-License-Identifier: GPL-2.0-or-later
"""Moments of the past on the page: the map, the panes, and a server that does not answer."""

from conftest import Tab, open_guest

HOME, ESCAPE = "\ue011", "\ue00c"


def test_the_cursor_takes_the_map_back(tab, tree):
    tab.wait("pib.store.events.length > 0")
    tab.click("#mark")
    tree.fabric.link({"switch": "leaf2", "port": 5, "state": "down"})
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.js("document.getElementById('cursor').focus()")
    tab.keys(HOME)
    tab.wait_text("#summary", "24 of 24 links Active")
    assert tab.js("document.getElementById('stage').classList.contains('past')")
    assert tab.js("document.getElementById('live').getAttribute('aria-pressed')") == "false"
    tab.screenshot("test_the_past")
    tab.click("#live")
    tab.wait_text("#summary", "23 of 24 links Active")
    tab.click("#compare")
    tab.heading("compared")
    tab.wait_text("#pane", "Links whose state differs: 1")
    assert "Down, cable pulled" in tab.text("#pane")


def test_a_pane_in_the_past_shows_the_time_of_its_state(tab, tree):
    """Objects are read now, but the forwarding tables and states of links are those of the cursor's moment."""
    tab.readings(2)
    lid, table = tree.fabric.lids["node16"], tree.fabric.tables["leaf1"]
    old = table[lid]
    new = next(port for port in (5, 6) if port != old)
    hops = "document.querySelector('ol.hops')?.innerText"
    open_guest(tab)
    tab.click("#pane button.go", "0x41")
    tab.wait(f"{hops}?.includes('leaf1[{old}]')")
    assert not tab.js("document.getElementById('read')")
    table[lid] = new
    tree.fabric.reroutes["leaf1"] += 1
    tab.wait(f"{hops}?.includes('leaf1[{new}]')")
    tab.js("document.getElementById('cursor').focus()")
    tab.keys(HOME)
    tab.wait_text("#read", "From the cursor's moment")
    tab.wait_text("#read", ": the routes through the fabric.")
    tab.wait(f"{hops}?.includes('leaf1[{old}]')")
    assert tab.js("document.querySelector('#pane [data-key=chart]').disabled")
    tab.screenshot("test_a_qp_in_the_past")
    tab.click("#pane ol.hops button.go", tab.js("document.querySelectorAll('ol.hops button')[1].innerText"))
    tab.wait_text("#read", "the link's state, and the routes through it")
    for name, text in (("vm0", "the states of its links"), ("leaf1", "the states and loads of links, and the LFT")):
        tab.click(tab.node(name))
        tab.wait_text("#read", text)
    row = ("[...document.querySelectorAll('#pane [data-key=lft] tr')]"
           f".find((one) => one.innerText.startsWith('{lid}\t'))")
    tab.wait(f"{row}?.innerText.trim().endsWith('{old}')")
    tab.click("#live")
    tab.wait("!document.getElementById('read')")
    tab.wait(f"{row}?.innerText.trim().endsWith('{new}')")


def test_the_past_has_nodes_and_links_that_are_gone(tab, tree):
    tab.readings(2)
    tab.click("#mark")
    gone = tab.node("node5")
    tree.fabric.unplug("node5")
    tab.wait("document.querySelectorAll('.node').length === 21")
    assert not tab.js("document.querySelector(arguments[0])", gone)
    tab.click("#compare")
    tab.wait_text("#pane", "leaf2[1] – node5[1]\tActive\tnot there")
    tab.js("document.getElementById('cursor').focus()")
    tab.keys(HOME)
    tab.wait("document.querySelectorAll('.node').length === 22")
    tab.wait_text("#summary", "24 of 24 links Active")
    tab.screenshot("test_a_host_of_the_past")
    tab.click(gone)
    tab.heading("Phantom host node5")
    tab.wait_text("#pane", "It is not in the fabric any more")
    tab.click("#pane table button.go", "leaf2[1] – node5[1]")
    tab.heading("Link leaf2[1] – node5[1]")
    assert "Pull the cable" not in tab.text("#pane")
    tab.click("#live")
    tab.wait("document.querySelectorAll('.node').length === 21")
    tab.heading("Not there")
    tab.keys(ESCAPE)
    tab.heading("Overview")


def test_a_moment_for_which_the_server_does_not_answer_is_not_shown(driver, tree):
    """A mark of the time line, an event in the pane and the cursor choose a moment. The browser itself logs failed
    requests, which are not a failure of this test."""
    tab = Tab(driver, tree.server.url)
    tab.wait("document.querySelectorAll('#marks .k-qp').length === 1")
    tab.complaints()
    tree.server.stop()
    tab.wait_text("#trouble", "The server does not answer")
    for aim in (lambda: tab.click("#marks .k-qp"), lambda: tab.click("#pane button.go", "vm0 QP 0x41: RETRY_EXC_ERR"),
                lambda: (tab.js("document.getElementById('cursor').focus()"), tab.keys(HOME))):
        tab.js("pib.store.setTrouble('')")
        aim()
        tab.wait_text("#trouble", "The server does not answer")
        tab.wait("pib.store.moment === null")
        assert tab.js("document.getElementById('live').getAttribute('aria-pressed')") == "true"
    assert [text for text in tab.complaints() if "net::ERR_" not in text] == []
    driver.get("about:blank")
