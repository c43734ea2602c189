"""Headless Chromium without a network: what a page looks like, and what it asks for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium and chromedriver here: apt-get install chromium chromium-driver"
)


@dataclass
class Browser:
    """A browser, and what it has asked for and complained about since it was last asked."""

    driver: webdriver.Chrome

    def open(self, address: str) -> tuple[list[str], list[str]]:
        """Open a page; the addresses that it asked for, and the messages of its console."""
        self.driver.get(address)
        # Parsing may end before what stands last in the page has asked for something.
        self.driver.execute_async_script("const done = arguments[0]; document.fonts.ready.then(() => done())")
        asked: list[str] = []
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return asked, [f"{line['level']} {line['message']}" for line in self.driver.get_log("browser")]

    def style(self, selector: str, name: str) -> str:
        """Computed style of the first element that the selector finds."""
        script = "return getComputedStyle(document.querySelector(arguments[0])).getPropertyValue(arguments[1])"
        return self.driver.execute_script(script, selector, name)

    def text(self) -> str:
        """All that a reader sees."""
        return self.driver.execute_script("return document.body.innerText")

    def run(self, script: str, *arguments: Any) -> Any:
        """Answer of a script in the page."""
        return self.driver.execute_script(script, *arguments)


@contextmanager
def browser(width: int = 1280, height: int = 1000) -> Iterator[Browser]:
    """A browser whose every request to another machine fails and is recorded."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    resolver = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        f"--window-size={width},{height}",
        resolver,
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def local(addresses: list[str]) -> bool:
    """Whether all of them are on this machine: files, data, or our own loopback."""
    return all(a.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", "about:")) for a in addresses)


def page(path: Path) -> str:
    """Address of a file."""
    return path.resolve().as_uri()
