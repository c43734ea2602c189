"""A run's page of Data Docs: it shows what was found, as text and nothing else, and asks nobody for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rivermeet.expectations.gx.data_docs import PageWriter, Suite, page_of, write_page
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import InvariantResult, history
from rivermeet.infra.settings import PROJECT
from rivermeet.pipelines import Node, limits
from tests.browser import Browser, browser, local, needs_chromium, page
from tests.expectations.nodes import orders, people

EVIL = "</td></script><img src=x onerror=\"document.title='ran'\"><b>bold</b> $evil"
SAMPLE = [{"key": '{"id": "P-1"}', "price": "34.5"}, {"key": EVIL, "other": "2"}]
FIRST, SECOND, THIRD, FOURTH = invariants_of(orders)[:4]
PASSED = InvariantResult(FIRST, 10, 0, [], "SELECT 1 AS fine", 0.1)
VIOLATED = InvariantResult(SECOND, 12_345, 3, SAMPLE, f"SELECT *\nFROM t -- {EVIL}", 0.1)
LOST = InvariantResult(THIRD, None, None, [], "SELECT 1", 0.1, f"Gone: {EVIL} version 3\nlong trace")
UNKNOWN = InvariantResult(FOURTH, None, 0, [], "SELECT 1", 0.1)
RESULTS = (PASSED, VIOLATED, LOST, UNKNOWN)


def suite(node: Node, epoch: int, results: Sequence[InvariantResult], at: int = 0) -> Suite:
    rows = history(node, epoch, "r", results)
    return Suite.of(node, epoch, [row | {"judged_at": 1_795_000_000_000 + at} for row in rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gx")
    write_page(made, "run-1", [suite(orders, 6, [PASSED])])
    write_page(made, "run-2", [suite(people, 7, [PASSED]), suite(orders, 7, RESULTS, 60_000)])
    return made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def open_run(chromium: Browser, folder: Path, run: str = "run-2", at: str = "") -> tuple[list[str], list[str]]:
    return chromium.open(page(page_of(folder, run)) + at)


def test_the_index_has_a_line_for_each_run_newest_first(folder: Path) -> None:
    index = (folder / "docs/index.html").read_text()
    assert re.findall(r'href="(runs/[^"]*)">([^<]*)<', index) == [
        ("runs/run-2.html", "2026-11-18 11:07 UTC: 2 of 5 do not hold, in shop.orders"),
        ("runs/run-1.html", "2026-11-18 11:06 UTC: all 1 hold"),
    ]


def test_pages_name_nothing_on_the_web(folder: Path) -> None:
    pages = list((folder / "docs").rglob("*.html"))
    assert len(pages) == 3
    for path in pages:
        assert not re.search(r"(src|href)=.?(https?:)?//|dataContextId|integrity=|<script", _without(path)), path


def _without(path: Path) -> str:
    """A page without what data says, which is text."""
    return path.read_text().replace("&lt;", "")


@needs_chromium
def test_the_page_is_whole_without_a_network(folder: Path, chromium: Browser) -> None:
    asked, said = open_run(chromium, folder)
    assert (local(asked), said) == (True, [])
    assert "sans-serif" in chromium.style("body", "font-family")
    assert chromium.run("return document.documentElement.scrollWidth <= innerWidth")
    assert chromium.run("return getComputedStyle(document.querySelector('td i.violated'), '::before').content") == '"✕"'


@needs_chromium
def test_what_is_wrong_stands_open_and_first(folder: Path, chromium: Browser) -> None:
    open_run(chromium, folder)
    shown = chromium.run("return [...document.querySelectorAll('details.suite')].map((d) => [d.innerText, d.open])")
    assert [(text.split("\n")[0], is_open) for text, is_open in shown] == [
        ("shop.orders, epoch 7 2 of 4 do not hold", True),
        ("shop.people, epoch 7 all 1 hold", False),
    ]


@needs_chromium
def test_the_address_of_a_node_that_holds_opens_it(folder: Path, chromium: Browser) -> None:
    chromium.open("about:blank")
    open_run(chromium, folder, at="#shop.people.7")
    assert chromium.run("return document.getElementById('shop.people.7').closest('details').open")


@needs_chromium
def test_the_page_shows_sentence_rows_query_and_reason(folder: Path, chromium: Browser) -> None:
    open_run(chromium, folder)
    found = chromium.run(
        """return [...document.querySelector('.suite').querySelectorAll('.source')].map((source) =>
          [source.previousElementSibling.textContent, source.textContent, source.closest('tr').cells[2].innerText,
           source.closest('tr').querySelector('td i').className])"""
    )
    assert sorted(found) == sorted(
        [result.invariant.sentence, result.invariant.source, observed, state]
        for result, observed, state in (
            (PASSED, "0 of 10", "passed"),
            (VIOLATED, "3 of 12,345", "violated"),
            (LOST, "--", "not-evaluated"),
            (UNKNOWN, "0", "passed"),
        )
    )
    text = chromium.text()
    assert '{"id": "P-1"}' in text and "34.5" in text and "None" not in text
    assert "Could not be evaluated: Gone:" in text
    assert VIOLATED.sql not in text and "long trace" not in text
    chromium.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert VIOLATED.sql in chromium.text() and "long trace" in chromium.text()


@needs_chromium
def test_what_data_says_is_text_and_nothing_else(folder: Path, chromium: Browser) -> None:
    _, said = open_run(chromium, folder)
    assert said == [] and chromium.driver.title != "ran"
    assert EVIL in chromium.text()
    assert chromium.run("return document.querySelectorAll('td td b, td img, td script').length") == 0


@needs_chromium
def test_dark_mode_is_dark(folder: Path, chromium: Browser) -> None:
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        open_run(chromium, folder)
        assert max(map(int, re.findall(r"\d+", chromium.style("body", "background-color"))[:3])) < 64
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_it_says_why_spark_judged(tmp_path: Path) -> None:
    by_spark = replace(PASSED, judged_by="spark", because="RIVERMEET_JUDGE=spark")
    page = write_page(tmp_path, "run", [suite(orders, 1, [by_spark])])
    assert f"{FIRST.source} (judged by Spark: RIVERMEET_JUDGE=spark)" in page.read_text()


def test_another_process_writes_the_same_page(tmp_path: Path) -> None:
    pages = PageWriter()
    given = "run", [suite(orders, 7, RESULTS)]
    here = write_page(tmp_path / "here", *given).read_text()
    pages.start()
    pages.start()
    assert pages.write(tmp_path / "there", *given).read_text() == here
    assert pages.write(tmp_path / "again", *given).read_text() == here, "a process writes once; this one can, too"
    pages.close()


def test_another_process_that_cannot_write_says_why(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("a file")
    pages = PageWriter()
    pages.start()
    with pytest.raises(RuntimeError, match=r"no page in .*run\.html: [\s\S]*NotADirectoryError"):
        pages.write(tmp_path, "run", [suite(orders, 7, [PASSED])])


def test_another_process_ends_with_the_one_that_asks_nothing(tmp_path: Path) -> None:
    pages = PageWriter()
    pages.start()
    process = pages._process
    assert process is not None
    assert os.getpgid(process.pid) == process.pid, "Ctrl-C would end it before the page of what was interrupted"
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0


def test_old_pages_are_pruned(tmp_path: Path) -> None:
    runs = page_of(tmp_path, "").parent
    runs.mkdir(parents=True)
    for number in range(limits.DATA_DOCS_RUNS):
        old = page_of(tmp_path, f"old-{number:03}")
        old.write_text(f"<title>2020 {number:03}</title>")
        os.utime(old, (number, number))
    write_page(tmp_path, "new", [suite(orders, 1, [PASSED])])
    assert not page_of(tmp_path, "old-000").exists() and page_of(tmp_path, "old-001").exists()
    assert len(re.findall(r"<li>", (tmp_path / "docs/index.html").read_text())) == limits.DATA_DOCS_RUNS


def test_a_rule_that_is_declared_no_more_is_shown_by_its_name(tmp_path: Path) -> None:
    one = suite(orders, 1, [PASSED])
    rows = [dict(row) | {"invariant": "of_before"} for row in one.rows]
    assert "of_before" in write_page(tmp_path, "run", [Suite.of(orders, 1, rows)]).read_text()


def test_what_is_there_twice_is_no_pass(tmp_path: Path) -> None:
    row = suite(orders, 1, [PASSED]).rows[0]
    text = write_page(tmp_path, "run", [Suite.of(orders, 1, [row, row])]).read_text()
    assert "2 of 2 do not hold, in shop.orders" in text and "2 rows of results, not one" in text


@pytest.mark.prove
def test_judging_and_building_ask_no_network(tmp_path: Path) -> None:
    """In a process of its own, in which every attempt to reach another machine is on record and fails."""
    done = subprocess.run(
        [sys.executable, "-c", _HOOKED, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "asked: []"


def test_the_hook_sees_what_asks() -> None:
    program = _HOOKED.split("from pathlib")[0] + "\nsocket.create_connection(('192.0.2.1', 80))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "asked for the network: socket.getaddrinfo" in done.stderr


_HOOKED = """
import socket, sys
asked = []

def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        asked.append((event, str(arguments)))
        raise OSError(f"asked for the network: {event} {arguments}")

sys.addaudithook(hook)

from pathlib import Path
from rivermeet.expectations.gx.data_docs import write_page
from tests.expectations.test_data_docs import RESULTS, orders, suite

assert write_page(Path(sys.argv[1]), "run", [suite(orders, 1, RESULTS)]).is_file()
print("asked:", asked)
"""
