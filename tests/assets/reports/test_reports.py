"""Reports are served to this machine's browsers, read only, at the address that checks link to."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.defs.metadata import page_metadata, report_url
from rivermeet.expectations.gx.data_docs import write_page
from rivermeet.infra.settings import PROJECT, Settings
from tests.browser import browser, local, needs_chromium
from tests.expectations.nodes import orders
from tests.expectations.test_data_docs import VIOLATED, suite


@dataclass
class Server:
    """A server of reports in a process of its own."""

    process: subprocess.Popen[bytes]
    settings: Settings

    def ask(self, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, str]:
        """Status and text, or where it leads; the path goes out as it stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.settings.reports_port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", f"{host}:{self.settings.reports_port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.getheader("location") or answer.read().decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = replace(Settings.from_env({}), home=tmp_path_factory.mktemp("home"), reports_port=port)
    settings.reports.mkdir()
    program = [sys.executable, "-m", "rivermeet.assets.reports.server", str(settings.reports), str(port)]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, cwd=PROJECT)
    try:
        deadline = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        yield Server(process, settings)
    finally:
        process.kill()
        process.wait()


def test_files_are_served_and_nothing_else(server: Server) -> None:
    reports = server.settings.reports
    (reports / "page one.html").write_text("here")
    (reports.parent / "secret.txt").write_text("not for the web")
    (reports / "link.txt").symlink_to(reports.parent / "secret.txt")
    assert server.ask("/page%20one.html") == (200, "here")
    for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/link.txt", "/missing.html"):
        assert server.ask(path)[0] == 404, path
    (reports / "folder").mkdir()
    assert server.ask("/folder/")[0] == 404
    assert {server.ask("/page%20one.html", method)[0] for method in ("POST", "PUT", "DELETE")} == {405}
    assert (reports / "page one.html").read_text() == "here"


def test_a_borrowed_name_gets_nothing(server: Server) -> None:
    (server.settings.reports / "mine.html").write_text("mine")
    assert server.ask("/mine.html", host="localhost") == (200, "mine")
    assert server.ask("/mine.html", host="elsewhere.example")[0] == 400


def test_it_listens_on_loopback_only(server: Server) -> None:
    listening = [c for c in psutil.Process(server.process.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert {c.laddr.ip for c in listening} == {"127.0.0.1"}


def test_the_bare_address_shows_the_report_or_else_the_docs(server: Server) -> None:
    docs = server.settings.reports / "gx/docs"
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "index.html").write_text("docs")
    assert server.ask("/") == (307, "gx/docs/index.html")
    (server.settings.reports / "quality.html").write_text("report")
    try:
        assert server.ask("/") == (307, "quality.html")
    finally:
        (server.settings.reports / "quality.html").unlink()


@needs_chromium
def test_a_check_links_to_its_page(server: Server) -> None:
    folder = server.settings.reports / "gx"
    page = write_page(folder, "run-1", [suite(orders, 7, [VIOLATED])])
    metadata = page_metadata(server.settings, "run-1", orders, 7)
    assert metadata["data_docs"].value == f"{report_url(server.settings, page)}#shop.orders.7"
    assert metadata["data_docs_path"].value == str(page)
    with browser() as chromium:
        for address in (report_url(server.settings, folder / "docs/index.html"), str(metadata["data_docs"].value)):
            asked, said = chromium.open(address)
            assert said == [] and local(asked) and "shop.orders" in chromium.text()
        assert "P-1" in chromium.text() and VIOLATED.invariant.sentence in chromium.text()


def test_it_ends_with_the_process_that_started_it(server: Server) -> None:
    """As the last of this file: the server is gone after it."""
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_traceback(number: signal.Signals, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [sys.executable, "-m", "rivermeet.assets.reports.server", str(tmp_path), str(port)]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.1)
    process.send_signal(number)
    assert process.communicate(timeout=30)[1] == b""


def test_a_taken_port_of_the_reports_is_named_with_its_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setenv("RIVERMEET_REPORTS_PORT", str(port))
        page = free.getsockname()[1]
        free.close()
        result = CliRunner().invoke(main, ["ui", "--port", str(page)])
        both = CliRunner().invoke(main, ["ui", "--port", str(port)])
    otherwise = "choose another for the reports with RIVERMEET_REPORTS_PORT"
    assert result.output == f"Error: port {port} is taken; stop what uses it, or {otherwise}\n"
    assert both.exit_code == 1 and f"port {port} is taken" in both.output
    assert list(tmp_path.iterdir()) == []
