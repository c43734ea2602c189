"""Doors and secrets: who listens listens to this machine only, and no credential stands where others read."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import psutil
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rivermeet.assets.cli.main import main as cli
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.files import EngineFiles
from rivermeet.infra.printable import redact
from rivermeet.infra.settings import PROJECT, Settings, SettingsError
from rivermeet.infra.sources.files.discovery import discover
from rivermeet.pipelines import Files
from tests.infra.delta.odd_names import NAME, NUMBER, OWNER, PRICE, TOWN, Shop
from tests.reliability import survived

SECRET = "s3cr3t"
LOOPBACK = {"127.0.0.1", "::1"}
UI = "from rivermeet.assets.cli.main import main; main()"


@pytest.fixture
def warm(settings: Settings, spark: SparkSession) -> list[psutil.Process]:
    """The engine's processes, with a Python worker among them."""
    if settings.engine != "auto":
        pytest.skip("may be skipped: only the warm engine is a process of its own")
    assert spark.range(1).mapInArrow(lambda batches: batches, "id BIGINT").count() == 1
    state = engine.status(settings).state
    assert state is not None
    found = state.processes()
    return [*found, *(child for process in found for child in process.children(recursive=True))]


def listening(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    """Addresses and ports on which these processes take connections."""
    found: set[tuple[str, int]] = set()
    for process in processes:
        try:
            connections = process.net_connections("inet")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        found |= {
            (c.laddr.ip.removeprefix("::ffff:"), c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN
        }
    return found


def test_the_engine_and_its_workers_listen_to_this_machine_only(
    warm: list[psutil.Process], settings: Settings, spark: SparkSession
) -> None:
    state = engine.status(settings).state
    assert state is not None
    ports = listening(warm)
    assert {ip for ip, _ in ports} <= LOOPBACK
    # Spark Connect, the driver and its blocks; Spark's own page is none of them.
    assert state.port in {port for _, port in ports} and len(ports) >= 3
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_the_token_is_for_its_user_only(warm: list[psutil.Process], settings: Settings, spark: SparkSession) -> None:
    files = EngineFiles(settings.engine_home)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(files.token_file.stat().st_mode) == 0o600
    shown = ""
    for process in [*warm, psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            shown += " ".join(process.cmdline())
    shown += str(spark.sql("SET -v").collect()) + repr(settings)
    # Text with a variable in it is text: the engine's environment holds the token.
    shown += spark.sql("SELECT '${env:SPARK_CONNECT_AUTHENTICATE_TOKEN}' AS name").collect()[0].name
    assert files.token() not in shown


def texts(folder: Path, but: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder as its bytes, and what a Parquet file packs as JSON too."""
    for path in folder.rglob("*"):
        if path.is_file() and path != but:
            try:
                yield path, path.read_bytes()
                if path.suffix == ".parquet":
                    yield path, str(pq.read_table(path).to_pylist()).encode()
            except FileNotFoundError:
                continue  # The engine works on.


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_no_run_writes_the_token_anywhere(
    warm: list[psutil.Process], settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    shop = Shop.below(tmp_path, settings)
    shop.deliver("orders", "1", (NUMBER, OWNER, PRICE, "at"), ("o1", "ann", 1, 10))
    shop.deliver("owners", "1", (NAME, TOWN, "at"), ("ann", "Leith", 5))
    assert shop.run(), shop.said
    files = EngineFiles(settings.engine_home)
    written = [*texts(tmp_path, files.token_file), *texts(settings.engine_home, files.token_file)]
    kinds = {path.relative_to(tmp_path).parts[0] for path, _ in written if path.is_relative_to(tmp_path)}
    assert kinds >= {"dagster", "quality", "reports"} and files.log in {path for path, _ in written}
    assert any("_epochs" in path.parts for path, _ in written)
    found = [path for path, text in written if files.token().encode() in text]
    assert found == []
    assert files.token() not in "".join(shop.said)
    survived("a search for the engine's token in all that a run wrote", "files that hold it", len(found))


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_the_page_is_for_this_machine_only(settings: Settings, tmp_path: Path) -> None:
    with socket.socket() as probe, socket.socket() as other:
        for one in (probe, other):
            one.bind(("127.0.0.1", 0))
        port, reports = probe.getsockname()[1], other.getsockname()[1]
    own = replace(settings, home=tmp_path, tables=str(tmp_path / "tables"), data=str(tmp_path / "data"))
    own = replace(own, reports_port=reports)
    with (tmp_path / "page.log").open("wb") as log:
        page = subprocess.Popen(
            [sys.executable, "-c", UI, "ui", "--port", str(port)],
            cwd=PROJECT,
            env=os.environ | own.environ(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    children: list[psutil.Process] = []
    try:
        server = psutil.Process(page.pid)
        deadline = time.monotonic() + 300
        while port not in {found for _, found in listening(server.children(recursive=True))}:
            assert page.poll() is None and time.monotonic() < deadline, (tmp_path / "page.log").read_text()[-2000:]
            time.sleep(0.5)
        with urlopen(f"http://127.0.0.1:{port}/server_info", timeout=60) as answer:
            assert answer.status == 200
        own.reports.joinpath("quality.html").write_text("of today")
        with urlopen(f"http://127.0.0.1:{reports}/", timeout=60) as answer:
            assert answer.read() == b"of today"
        ports = listening([server, *server.children(recursive=True)])
        assert {ip for ip, _ in ports} <= LOOPBACK
        # As a service manager ends it, and all that it started with it.
        children = server.children(recursive=True)
        assert [child for child in children if "rivermeet.assets.reports.server" in child.cmdline()]
        assert len(children) > 3
        page.send_signal(signal.SIGTERM)
        page.wait(10)
        assert psutil.wait_procs(children, timeout=0.5)[1] == []
    finally:
        # What ends by itself meanwhile is all that is wanted.
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(page.pid).children(recursive=True) or children
        page.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            page.wait(60)
        for process in [*psutil.wait_procs(children, timeout=10)[1], page]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("s3a://key:s3cr3t@lake/river", "s3a://***@lake/river"),
        ("s3a://key:s3/cr+3t@lake/river", "s3a://***@lake/river"),
        ("https://s3cr3t@host/x", "https://***@host/x"),
        (
            "sc://host:15002/;user_id=ann;token=s3cr3t;use_ssl=true",
            "sc://host:15002/;user_id=ann;token=***;use_ssl=true",
        ),
        ("jdbc:postgresql://ann:s3cr3t@db:5432/shop", "jdbc:postgresql://***@db:5432/shop"),
        ("jdbc:mysql://db/shop?user=ann&Password=s3cr3t", "jdbc:mysql://db/shop?user=ann&Password=***"),
        ("abfss://c@a.dfs.core.windows.net/x?sv=1&sig=s3cr3t", "abfss://c@a.dfs.core.windows.net/x?sv=1&sig=***"),
        ("FROM delta.`s3a://k:s3cr3t@lake/a` a", "FROM delta.`s3a://***@lake/a` a"),
    ],
)
def test_a_credential_is_blotted_out(given: str, shown: str) -> None:
    assert redact(given) == shown


@pytest.mark.parametrize(
    "location",
    [
        "s3a://lake/river@home",
        "hdfs://nn:8020/a:b@c",
        "abfss://c@a.dfs.core.windows.net/x",
        "gs://b/keys=1/x?a=1",
        "/ann:x@y",
    ],
)
def test_what_is_no_credential_stays(location: str) -> None:
    assert redact(location) == location
    assert Settings.from_env({"RIVERMEET_DATA": location}).data == location


@pytest.mark.parametrize("variable", ["RIVERMEET_TABLES", "RIVERMEET_DATA"])
@pytest.mark.parametrize("location", ["s3a://key:s3cr3t@lake/x", "abfss://c@a.net/x?sig=s3cr3t"])
def test_a_location_with_a_credential_is_refused_without_showing_it(variable: str, location: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{variable}=.*\*\*\*.* holds a credential") as refused:
        Settings.from_env({variable: location})
    done = CliRunner().invoke(cli, ["status"], env={variable: location})
    assert done.exit_code == 1 and "***" in done.output
    assert SECRET not in str(refused.value) + done.output


def test_a_file_pattern_with_a_credential_is_refused_without_showing_it() -> None:
    files = Files("s3a://key:s3cr3t@lake/in/*.csv", "csv", {"id": "INT"})
    with pytest.raises(ValueError, match=r"s3a://\*\*\*@lake/in/\*\.csv' holds a credential") as refused:
        discover(files, "/nowhere", lambda: pytest.fail("no engine is asked"))
    assert SECRET not in str(refused.value)


def test_the_token_of_another_engine_is_not_shown() -> None:
    settings = Settings.from_env({"RIVERMEET_ENGINE": f"sc://host:15002/;token={SECRET}"})
    assert settings.engine.endswith(SECRET) and SECRET not in repr(settings)
    with pytest.raises(SettingsError, match="is not an engine") as refused:
        Settings.from_env({"RIVERMEET_ENGINE": f"ftp://host/;token={SECRET}"})
    assert SECRET not in str(refused.value)
