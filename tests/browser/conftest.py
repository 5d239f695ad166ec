# SPDX-License-Identifier: GPL-2.0-or-later
"""Headless Chromium for the page of ./pib web, and the fabrics that the page shows. Screenshots are in
.lab/screenshots."""

import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.base import paths
from lab.bench import bench_page
from lab.fabric import topology
from lab.web import server, watch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lab"))
import simulated_fabric                                 # pylint: disable=wrong-import-position

EXAMPLES = paths.ROOT / "examples" / "topologies"
SCREENSHOTS = paths.RUN / "screenshots"
PATIENCE_S = 120
READINGS = 3                    # before the page opens: then the parts below a link's curves stay at their places
MOST_TABS = 150                 # limit, above the number of controls on the page
TAB, DOWN = "\ue004", "\ue015"


def wait(ready: Callable[[], Any], what: str) -> Any:
    """Polls until the result is true, and returns it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := ready()):
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)
    return found


class Tab:
    """The page in the browser. Elements are named by CSS selectors, because the page makes some of them anew."""

    def __init__(self, driver, url: str):
        self.driver = driver
        driver.get(url)
        self.wait("pib.store.nodes.size > 0 && Object.keys(pib.stage.items).length >= 0 && pib.store.now > 0")

    def js(self, expression: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return ({expression});", *arguments)

    def wait(self, expression: str) -> Any:
        """Polls until an expression is true, and returns its value."""
        return wait(lambda: self.js(expression), expression)

    def text(self, selector: str) -> str:
        return self.js("document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def wait_text(self, selector: str, text: str) -> None:
        wait(lambda: text in self.text(selector), f"{text!r} in {selector}")

    def box(self, selector: str, text: str = "") -> dict[str, float] | None:
        """The middle of the first visible element with this text, scrolled into view."""
        return self.js("""((selector, text) => {
            const found = [...document.querySelectorAll(selector)].find((one) => one.offsetParent !== null
                && (!text || one.innerText.trim() === text));
            if (!found || found.disabled) return null;
            found.scrollIntoView({block: "nearest"});
            const box = found.getBoundingClientRect();
            return {x: box.x + box.width / 2, y: box.y + box.height / 2};
        })(...arguments)""", selector, text)

    def point(self, x: float, y: float, click: bool = True) -> None:
        """Moves the pointer to a place in the window, and clicks there."""
        from selenium.webdriver import ActionChains     # pylint: disable=import-outside-toplevel
        actions = ActionChains(self.driver, duration=0)
        actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        if click:
            actions.w3c_actions.pointer_action.click()
        actions.perform()

    def click(self, selector: str, text: str = "") -> None:
        place = wait(lambda: self.box(selector, text), f"{selector} {text}")
        self.point(place["x"], place["y"])

    def hold(self, place: dict[str, float] | None) -> None:
        """Presses the pointer, until let_go()."""
        from selenium.webdriver import ActionChains     # pylint: disable=import-outside-toplevel
        assert place
        self.point(place["x"], place["y"], click=False)
        ActionChains(self.driver, duration=0).click_and_hold().perform()

    def let_go(self) -> None:
        from selenium.webdriver import ActionChains     # pylint: disable=import-outside-toplevel
        ActionChains(self.driver, duration=0).release().perform()

    def readings(self, number: int) -> None:
        """Waits for some readings of the fabric."""
        for _ in range(number):
            self.wait(f"pib.store.now > {self.js('pib.store.now')}")

    def node(self, name: str) -> str:
        """The selector of a node's button."""
        guid = self.wait(f"[...pib.store.nodes.values()].find(({{name}}) => name === {name!r})?.id")
        return f'.node[data-id="{guid}"]'

    def link(self, name: str) -> str:
        """The id of a link whose name has this part."""
        return self.wait(f"[...pib.store.links.values()].find("
                         f"(link) => pib.store.linkName(link).includes({name!r}))?.id")

    def click_link(self, name: str) -> None:
        """Clicks on a link's line at a third of its length, where no other line crosses it in small trees."""
        place = self.js("""((id) => {
            const edge = pib.stage.painter.edges.find(({links}) => links.some((link) => link.id === id));
            const {x, y, scale} = pib.stage.view;
            const box = document.getElementById("links").getBoundingClientRect();
            const [one, other] = [edge.points[0], edge.points[edge.points.length - 1]];
            return {x: box.x + x + scale * (one.x + 0.3 * (other.x - one.x)),
                    y: box.y + y + scale * (one.y + 0.3 * (other.y - one.y))};
        })(arguments[0])""", self.link(name))
        self.point(place["x"], place["y"])

    def keys(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains     # pylint: disable=import-outside-toplevel
        ActionChains(self.driver).send_keys(*keys).perform()

    def reach(self, selector: str, text: str = "") -> None:
        """Presses Tab until the focus is at an element with this text."""
        wait(lambda: self.js("document.querySelector(arguments[0]) !== null", selector), selector)
        for _ in range(MOST_TABS):
            if self.js("document.activeElement.matches(arguments[0]) && (!arguments[1] "
                       "|| document.activeElement.innerText.trim() === arguments[1])", selector, text):
                return
            self.keys(TAB)
        raise AssertionError(f"{MOST_TABS} times Tab do not lead to {selector} {text}")

    def heading(self, text: str) -> None:
        self.wait_text("#pane h2", text)

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def complaints(self) -> list[str]:
        """Messages of the console."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def open_guest(tab: Tab) -> None:
    tab.click(tab.node("vm0"))
    tab.heading("Guest vm0")


@pytest.fixture(scope="session", name="driver")
def browser() -> Iterator[Any]:
    with bench_page.browser() as started:
        yield started


class Shown:
    """A simulated fabric that a server shows."""

    def __init__(self, directory: pathlib.Path, name: str):
        net = topology.load(EXAMPLES / f"{name}.topo")
        hosts = [host.name for host in net.hosts()]
        near, far = hosts[0], hosts[-1]
        self.fabric = simulated_fabric.Fabric(net, {near: "vm0", far: "vm1"})
        self.process = simulated_fabric.Process(directory / "control", self.fabric)
        qps = [simulated_fabric.qp(number, self.fabric.lids[far], number + 16) for number in (0x41, 0x42)]
        failure = simulated_fabric.failure(time.time(), self.fabric.lids[far])
        self.source = simulated_fabric.Source(self.process, {
            "vm0": simulated_fabric.guest(net, self.fabric, near, qps, [failure]),
            "vm1": simulated_fabric.guest(net, self.fabric, far, [
                simulated_fabric.qp(0x51, self.fabric.lids[near], 0x41)])})
        self.watcher = watch.Watcher(self.source, 0.2)
        self.server = server.Server(("127.0.0.1", 0), self.watcher)
        self.watcher.start()
        wait(lambda: len(self.watcher.history.frames) > READINGS, "readings for the curves")
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def end(self) -> None:
        self.server.stop()
        self.watcher.stop()
        self.process.end()


@pytest.fixture
def shown(tmp_path) -> Iterator[Callable[[str], Shown]]:
    """Yields a function that shows a fabric of the examples."""
    running: list[Shown] = []

    def show(name: str) -> Shown:
        running.append(Shown(tmp_path, name))
        return running[-1]
    yield show
    for one in running:
        one.end()


@pytest.fixture
def tree(shown) -> Shown:
    return shown("fat-tree-16")


@pytest.fixture
def tab(driver, tree, request) -> Iterator[Tab]:
    """The page with a small tree. A message in the console is a failure."""
    opened = Tab(driver, tree.server.url)
    yield opened
    opened.screenshot(request.node.name)
    complaints = opened.complaints()
    driver.get("about:blank")
    assert complaints == []
