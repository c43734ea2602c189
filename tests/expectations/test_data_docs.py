"""Data Docs look right without a network, show what was found, and load nothing that is not beside them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from expectations.gx.data_docs import write_index
from expectations.gx.data_docs_offline import FILES, DataDocsError, offline
from expectations.gx.suite import judge
from expectations.invariants import ALL
from expectations.results import InvariantResult
from expectations.verdict import Verdict
from tests.browser import Browser, browser, local, needs_chromium, page

EVIL = "</td></script><img src=x onerror=\"document.title='ran'\"><b>bold</b> $evil"
SAMPLE = [{"key": '{"id": "P-1"}', "price": "34.5"}, {"key": EVIL, "other": "2"}]
PASSED = InvariantResult(ALL[0], 10, 0, [], "SELECT 1 AS fine", 0.1)
VIOLATED = InvariantResult(ALL[1], 10, 3, SAMPLE, f"SELECT *\nFROM t -- {EVIL}", 0.1)
LOST = InvariantResult(ALL[2], None, None, [], "SELECT 1", 0.1, f"Gone: {EVIL} version 3\nlong trace")
SENTENCES = {result.invariant.sentence for result in (PASSED, VIOLATED, LOST)}


@dataclass
class Site:
    """Two assets, judged in five epochs together, and the pages of it."""

    folder: Path
    last: Verdict

    @property
    def index(self) -> Path:
        return self.folder / "docs/index.html"

    @property
    def validation(self) -> Path:
        assert self.last.page is not None
        return self.last.page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("gx")
    for epoch in (1, 2):
        judge([PASSED], "shop.payments", f"epoch-{epoch:06}", folder)
    for epoch in (1, 2, 3):
        last = judge([PASSED, VIOLATED, LOST], "shop.orders", f"epoch-{epoch:06}", folder)[1]
    write_index(folder)
    return Site(folder, last)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def test_every_result_has_a_page_and_all_verdicts_of_it_name_it(site: Site) -> None:
    verdicts = judge([PASSED, VIOLATED], "shop.named", "epoch-000001", site.folder)
    assert len({verdict.page for verdict in verdicts}) == 1
    found = verdicts[0].page
    assert found is not None and found.is_file()
    assert found.relative_to(site.folder / "docs").parts[:3] == ("validations", "shop-named", "epoch-000001")


def test_pages_name_nothing_on_the_web(site: Site) -> None:
    pages = list((site.folder / "docs").rglob("*.html"))
    assert len(pages) >= 8
    for path in pages:
        assert not re.search(r"(src|href)=.?https?://|dataContextId|newsletter|integrity=", path.read_text()), path


@needs_chromium
@pytest.mark.parametrize("kind", ["index", "validation", "suite"])
def test_a_page_from_disk_is_whole(site: Site, chromium: Browser, kind: str) -> None:
    suite = site.folder / "docs/expectations/shop-orders.html"
    path = {"index": site.index, "validation": site.validation, "suite": suite}[kind]
    asked, said = chromium.open(page(path))
    assert local(asked), asked
    assert len([one for one in asked if "/static/vendor/" in one]) >= 10
    assert said == []
    # Bootstrap's own, where a bare page has 8px of margin and a serif font.
    assert chromium.style("body", "margin-top") == "0px"
    assert "sans-serif" in chromium.style("body", "font-family")
    assert chromium.style(".alert-secondary", "border-top-style") == "solid"
    assert chromium.run("return document.querySelector('.navbar-brand img').naturalWidth") > 0
    assert chromium.run("return document.documentElement.scrollWidth <= innerWidth")


@needs_chromium
def test_the_browser_sees_what_is_asked_for(tmp_path: Path, chromium: Browser) -> None:
    bare = tmp_path / "bare.html"
    bare.write_text('<body><script src="https://cdn.example/a.js"></script><script>missing()</script></body>')
    asked, said = chromium.open(page(bare))
    assert not local(asked) and len(said) == 2


@needs_chromium
def test_the_page_shows_sentence_rows_query_and_reason(site: Site, chromium: Browser) -> None:
    chromium.open(page(site.validation))
    text = chromium.text()
    assert all(sentence in text for sentence in SENTENCES)
    assert all(result.invariant.source in text for result in (PASSED, VIOLATED, LOST))
    assert '{"id": "P-1"}' in text and "34.5" in text and "3 of 10" in text
    assert "shop.orders" in text and "None" not in text
    assert "Could not be evaluated: Gone:" in text.replace("\n", " ")
    assert VIOLATED.sql not in text and "long trace" not in text
    chromium.run("document.querySelectorAll('td a[data-toggle=collapse]').forEach(link => link.click())")
    chromium.driver.execute_async_script("setTimeout(arguments[0], 600)")
    assert VIOLATED.sql in chromium.text() and "long trace" in chromium.text()
    # Font Awesome's own font draws the marks.
    assert chromium.style("td i.fa-times", "font-family") == '"Font Awesome 6 Free"'
    assert chromium.run("return document.fonts.check('900 16px \"Font Awesome 6 Free\"')")
    assert chromium.run("return document.querySelectorAll('td i.fa-check-circle').length") == 1


@needs_chromium
def test_what_data_says_is_text_and_nothing_else(site: Site, chromium: Browser) -> None:
    _, said = chromium.open(page(site.validation))
    assert said == [] and chromium.driver.title != "ran"
    assert EVIL in chromium.text()
    assert chromium.run("return document.querySelectorAll('td b, td img, td script').length") == 0


@needs_chromium
def test_the_index_lists_the_runs_and_leads_to_them(site: Site, chromium: Browser) -> None:
    write_index(site.folder)
    chromium.open(page(site.index))
    table = ".ge-index-page-validation-results-table"
    rows = chromium.run(f"return [...document.querySelectorAll('{table} tbody tr')].map(row => row.innerText)")
    listed = sorted((re.findall(r"epoch-\d+", row)[0], row.split()[-1]) for row in rows if "shop-named" not in row)
    assert listed == [
        ("epoch-000001", "shop-orders"),
        ("epoch-000001", "shop-payments"),
        ("epoch-000002", "shop-orders"),
        ("epoch-000002", "shop-payments"),
        ("epoch-000003", "shop-orders"),
    ]
    links = chromium.run("return [...document.querySelectorAll('tr[data-href]')].map(r => r.dataset.href)")
    assert len(links) >= 5 and all((site.index.parent / link).is_file() for link in links)


@needs_chromium
def test_dark_mode_is_dark_and_keeps_the_logo(site: Site, chromium: Browser) -> None:
    chromium.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    try:
        asked, said = chromium.open(page(site.validation))
        red, green, blue = map(int, re.findall(r"\d+", chromium.style("body", "background-color"))[:3])
        assert max(red, green, blue) < 64
        assert chromium.style(".navbar-brand img", "visibility") == "visible"
        assert local(asked) and said == []
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_pages_are_pruned_with_their_results(tmp_path: Path) -> None:
    for epoch in (1, 2, 3, 3):
        judge([PASSED], "shop.pruned", f"epoch-{epoch:06}", tmp_path, keep=3)
    write_index(tmp_path)

    def kept(below: str, ends: str) -> list[str]:
        return sorted(path.parts[-3] for path in (tmp_path / below / "shop-pruned").rglob(f"*.{ends}"))

    # One epoch was judged twice, which counts twice.
    assert kept("docs/validations", "html") == ["epoch-000002", "epoch-000003", "epoch-000003"]
    assert kept("gx/uncommitted/validations", "json") == kept("docs/validations", "html")
    assert "epoch-000001" not in (tmp_path / "docs/index.html").read_text()


def test_a_page_that_cannot_be_written_loses_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("expectations.gx.suite.write_page", full)
    (verdict,) = judge([VIOLATED], "shop.full", "epoch-000001", tmp_path)
    assert verdict.state == "violated" and verdict.page is None
    assert "shop.full: no page in Data Docs" in caplog.text and "No space left" in caplog.text


def test_templates_that_name_what_is_not_here_are_refused() -> None:
    with pytest.raises(DataDocsError, match=r"new\.j2 loads https://cdn\.example/new\.min\.js"):
        offline('<script src="https://cdn.example/new.min.js"></script>', "new.j2")
    with pytest.raises(DataDocsError, match=r"new\.j2 names https://cdn\.example/x\.png"):
        offline('<img src="https://cdn.example/x.png">', "new.j2")


def test_vendored_files_are_as_they_came_and_have_their_licences() -> None:
    vendor = FILES / "vendor"
    lines = (line.split() for line in (vendor / "SHA256SUMS").read_text().splitlines())
    sums = {name: digest for digest, name in lines}
    there = {str(path.relative_to(vendor)) for path in vendor.rglob("*") if path.is_file()} - {"SHA256SUMS"}
    assert set(sums) == there
    assert {name for name in there if hashlib.sha256((vendor / name).read_bytes()).hexdigest() != sums[name]} == set()
    readme = (FILES / "README.md").read_text()
    packages = sorted(path.name for path in vendor.iterdir() if path.is_dir())
    for package in packages:
        (licence,) = [path.name for path in (vendor / package).iterdir() if path.name.startswith("LICENSE")]
        assert f"vendor/{package}/{licence}" in readme
        name, _, version = package.rpartition("-")
        assert re.search(rf"{name} \| {re.escape(version)} \|", readme)
    named = {name for name in there if not name.split("/")[-1].startswith("LICENSE")}
    assert {name for name in named if f"`{name.split('/', 1)[1]}`" not in readme} == set()


@pytest.mark.prove
def test_judging_and_building_ask_no_network(tmp_path: Path) -> None:
    """In a process of its own, in which every attempt to reach another machine is on record and fails."""
    done = subprocess.run(
        [sys.executable, "-c", _HOOKED, str(tmp_path)],
        cwd=FILES.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "asked: []"


def test_the_hook_sees_what_asks() -> None:
    program = _HOOKED.split("from expectations")[0] + "\nsocket.create_connection(('192.0.2.1', 80))"
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
from expectations.gx.data_docs import write_index
from expectations.invariants import ALL
from expectations.results import InvariantResult
from expectations.gx.suite import judge

folder = Path(sys.argv[1])
passed = InvariantResult(ALL[0], 10, 0, [], "SELECT 1", 0.1)
results = [passed, InvariantResult(ALL[1], 9, 2, [{"a": "1"}], "SELECT 2", 0.1)]
assert judge(results, "shop.quiet", "epoch-000001", folder)[0].page.is_file()
assert write_index(folder).is_file()
print("asked:", asked)
"""
