"""One page from disk in a browser without a network, read as a person would: at a width, light or dark, by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

from tests.browser import browser


class Page:
    """What is shown, what it asked for, and what its console said."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    def open(self, path: Path, width: int = 1600, scheme: Literal["light", "dark"] = "light", anchor: str = "") -> None:
        """Load a file at a width, for a reader who prefers light or dark."""
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        # Another anchor of the same file would not load it again.
        self._driver.get("about:blank")
        for kind in ("browser", "performance"):
            self._driver.get_log(kind)
        self._driver.get(path.as_uri() + anchor)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self._driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Keys on whatever has the focus."""
        ActionChains(self._driver).send_keys(*keys).perform()

    def errors(self) -> list[str]:
        """What the console said since it was asked last."""
        return [line["message"] for line in self._driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since it was asked last."""
        messages = (json.loads(line["message"])["message"] for line in self._driver.get_log("performance"))
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def tables(self, name: str) -> dict[str, list[dict[str, str]]]:
        """The tables of that ``data-table`` by their ``data-node``: rows as text by column."""
        return self.run(
            """return Object.fromEntries([...document.querySelectorAll(`[data-table="${arguments[0]}"]`)].map((t) => {
              const heads = [...t.tHead.rows[0].cells].map((c) => c.textContent.trim());
              const rows = [...t.tBodies[0].rows].map((r) =>
                Object.fromEntries([...r.cells].map((c, i) => [heads[i], c.textContent.trim()])));
              return [t.dataset.node ?? "", rows];
            }))""",
            name,
        )


@contextmanager
def offline_page() -> Iterator[Page]:
    """A page of a browser whose network is switched off."""
    with browser() as one:
        one.driver.execute_cdp_cmd("Network.enable", {})
        off = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        one.driver.execute_cdp_cmd("Network.emulateNetworkConditions", off)
        yield Page(one.driver)
