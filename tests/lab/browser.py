"""A headless Chromium, driven by Selenium."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

DEADLINE_S = 30
RULES = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
# Chromium's sandbox does not run as root, and /dev/shm of a container is small.
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", RULES)

SHORT_ARRAYS = """(() => {
    const push = Array.prototype.push;
    Array.prototype.push = function (...more) {
        if (this.length > 50000) throw new Error("an array without end");
        return push.apply(this, more);
    };
})()"""


def why_no_browser() -> str:
    """Return the reason to skip the tests that need a browser, or ""."""
    found = chromium() and shutil.which("chromedriver")
    return "" if found else "no Chromium on this machine"


def chromium() -> str | None:
    """Return the path of Chromium, searched under the names that distributions give it."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """A window of Chromium without a network, in which only files and addresses of this machine can be loaded."""

    def __init__(self, profile: Path) -> None:
        options = Options()
        options.binary_location = chromium() or ""
        for word in (*OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def open(self, page: Path | str, *, width: int = 1000, dark: bool = False, scripts: bool = True) -> None:
        """Open a page in a window of that width."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self._send("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._send("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        self.driver.get(page.as_uri() if isinstance(page, Path) else page)

    def _send(self, command: str, words: dict[str, Any]) -> None:
        self.driver.execute_cdp_cmd(command, words)

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that a CSS selector selects."""
        return self.driver.find_elements("css selector", selector)

    def run(self, script: str) -> Any:
        """Return the value that a script returns."""
        return self.driver.execute_script(script)

    @contextlib.contextmanager
    def short_arrays(self) -> Iterator[None]:
        """In pages that are opened in the block, a loop that appends to an array without end stops with an error."""
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SHORT_ARRAYS})
        try:
            yield
        finally:
            self._send("Page.removeScriptToEvaluateOnNewDocument", added)

    def wait(self, script: str) -> None:
        """Wait until a script returns true."""
        WebDriverWait(self.driver, DEADLINE_S).until(lambda driver: driver.execute_script(f"return {script}"))

    def move_to(self, element: WebElement, share: float) -> None:
        """Move the pointer to a share of the element's width, from its left edge."""
        self.pointer().move_to_element_with_offset(element, self.across(element, share), 0).perform()

    def drag(self, element: WebElement, start: float, end: float) -> None:
        """Drag from one share of the element's width to another."""
        first, last = self.across(element, start), self.across(element, end)
        chain = self.pointer().move_to_element_with_offset(element, first, 0).click_and_hold()
        chain.move_by_offset(last - first, 0).release().perform()

    def pointer(self) -> ActionChains:
        """Actions of the pointer, to be performed."""
        return ActionChains(self.driver, duration=0)

    @staticmethod
    def across(element: WebElement, share: float) -> int:
        """Return the distance from the middle of the element, as WebDriver counts."""
        return round((share - 0.5) * element.size["width"])

    @property
    def problems(self) -> list[str]:
        """Return the console messages of severity warning and above since the last call."""
        return [row["message"] for row in self.driver.get_log("browser") if row["level"] in ("WARNING", "SEVERE")]

    @property
    def overflow(self) -> int:
        """Return how many pixels the page is wider than its window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextlib.contextmanager
def open_browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile, and end it."""
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.driver.quit()
