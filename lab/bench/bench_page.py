# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures how many frames a second the page of ./pib web draws, in headless Chromium without a GPU."""

import contextlib
import importlib
import pathlib
from collections.abc import Iterator
from typing import Any

from lab.base import ui, waiting

WAIT_S = 120
SECONDS = 10.0
CHROMIUM, DRIVER = pathlib.Path("/usr/bin/chromium"), pathlib.Path("/usr/bin/chromedriver")
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1440,900", "--disable-dev-shm-usage",
             "--force-color-profile=srgb", "--no-first-run", "--disable-background-networking")
OPENED = "pib.store.nodes.size > 0 && document.querySelectorAll('.node').length === pib.store.nodes.size"
MOVING = "pib.stage.painter.moving"
# Counts the pictures that the page draws for some seconds; the result is their number per second.
COUNT = """
const [milliseconds, tell] = arguments, painter = pib.stage.painter, draw = painter.draw;
let drawn = 0;
painter.draw = (time) => { drawn += 1; draw.call(painter, time); };
const begin = performance.now();
setTimeout(() => {
  painter.draw = draw;
  tell(drawn * 1000 / (performance.now() - begin));
}, milliseconds);
"""


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Chromium, controlled by Selenium. It keeps the messages of the page's console."""
    try:
        webdriver = importlib.import_module("selenium.webdriver")
        service = importlib.import_module("selenium.webdriver.chrome.service")
    except ImportError:
        webdriver = None
    if not webdriver or not CHROMIUM.exists() or not DRIVER.exists():
        raise ui.LabError("frames of the page: install chromium, chromium-driver and python3-selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(service=service.Service(str(DRIVER)), options=options)
    try:
        started.set_script_timeout(WAIT_S)
        started.set_page_load_timeout(WAIT_S)
        yield started
    finally:
        started.quit()


def frames(url: str, seconds: float = SECONDS) -> float:
    """Pictures a second that the page draws while all nodes are shown and the loads of links move."""
    with browser() as driver:
        def holds(expression: str) -> bool:
            return driver.execute_script(f"return Boolean(globalThis.pib && {expression});")
        driver.get(url)
        waiting.poll("the page", lambda: holds("pib.store.nodes.size > 0"), WAIT_S)
        driver.execute_script("document.getElementById('unfold').click()")
        waiting.poll("all nodes on the map", lambda: holds(OPENED), WAIT_S)
        waiting.poll("loads of links", lambda: holds(MOVING), WAIT_S)
        return float(driver.execute_async_script(COUNT, seconds * 1000))
