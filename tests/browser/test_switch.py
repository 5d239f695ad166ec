# SPDX-License-Identifier: GPL-2.0-or-later
"""The page in front of a pib-switch that runs, with a fat tree. Two HCAs at one leaf send WRITEs, and subnet management
packets pass each link once a second."""

import threading

import pytest

from conftest import DOWN, EXAMPLES, Tab
from lab.bench import bench_load
from lab.fabric import source, topology
from lab.web import server, watch

OCTETS, WRITES_PER_SECOND = 512, 100


@pytest.fixture(name="running")
def running_switch(tmp_path):
    """The server of the page."""
    text = (EXAMPLES / "fat-tree-16.topo").read_text()
    for node, name in bench_load.HOSTS.items():
        text = text.replace(f'"{node}"', f'"{name}"')
    file, routes = tmp_path / "tree.topo", tmp_path / "routes"
    file.write_text(text)
    found = bench_load.routes_to_links(topology.load(file), "vm1")
    routes.write_text("".join(f"{' '.join(map(str, route))}\n" for route in found))
    with bench_load.Load(tmp_path / "switch", OCTETS, WRITES_PER_SECOND, file) as load:
        load.begin(routes=routes)
        load.sample()
        watcher = watch.Watcher(source.Processes(load.switch.control), 0.2)
        web = server.Server(("127.0.0.1", 0), watcher)
        watcher.start()
        threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        yield web
        web.stop()
        watcher.stop()


def counter(name: str) -> str:
    """An expression for the sum of a counter of both ends, as the pane shows it."""
    return (f"[...document.querySelectorAll('#pane tr')].filter(({{cells}}) => cells[0].innerText === '{name}')"
            ".reduce((sum, {cells}) => sum + Number(cells[1].innerText.replaceAll(',', '')), 0)")


def test_corruption_and_retraining_move_the_counters_of_a_link(driver, running):
    tab = Tab(driver, running.url)
    tab.wait_text("#summary", "6 switches, 16 hosts, 6 of 24 links Active")
    tab.wait_text("#pane", "Busiest links")
    tab.click_link("leaf1[5]")
    tab.heading("leaf1[5]")
    packets = tab.wait(counter("PortXmitPkts"))
    tab.wait(f"{counter('PortXmitPkts')} > {packets}")
    assert tab.js(counter("PortRcvErrors")) == tab.js(counter("LinkDowned")) == 0
    tab.click("form.faults input[name=corrupt]")
    tab.js("document.activeElement.select()")
    tab.keys("0.5")
    tab.js("document.querySelector('form.faults select[name=vl15]').focus()")
    tab.keys(DOWN)
    tab.click("form.faults button", "Set faults")
    tab.wait_text("#pane section", "Corruption 0.5, management packets too")
    errors = tab.wait(counter("PortRcvErrors"))
    tab.wait(f"{counter('PortRcvErrors')} > {errors}")
    tab.wait_text("#pane section", " corrupted")
    tab.screenshot("test_a_running_switch")
    tab.click("form.faults button", "Clear faults")
    tab.wait_text("#done", "No fault is injected.")
    tab.click("#pane button", "Retrain")
    tab.wait_text("#done", "The link retrains.")
    tab.wait(f"{counter('LinkDowned')} > 0")
    tab.wait_text("#pane .state", "Initialize")         # no subnet manager sweeps the fabric again
    tab.wait_text("#summary", "5 of 24 links Active")
    tab.wait("pib.store.events.some(({text}) => text.includes('leaf1[5]') && text.includes('retrained on request'))")
    assert tab.complaints() == []
    driver.get("about:blank")
