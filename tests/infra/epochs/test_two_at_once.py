"""Two runs of one pipeline at once: one makes the epoch, the other waits and finds nothing new. Never both.

Two command lines, a command line and Dagster, two homes with an engine each over the same tables, and a run after one
that was killed. Each purchase names a product that a finished run has read, so that it gives one row, whichever run
reads it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from rivermeet.infra import crash
from rivermeet.infra.delta.io import notes
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.settings import PROJECT, Settings
from tests.infra.epochs.killed import deliver
from tests.reliability import survived

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

BIN = Path(sys.executable).parent
NODES = ("purchases", "products", "priced_purchases")
SELECT = [word for node in NODES for word in ("--select", node)]
AT = "2024-05-01T06:00:00Z"
EPOCH = re.compile(r"^ +(\w+) +epoch (\d+):", re.MULTILINE)


@dataclass
class Shop:
    """Tables and files that one home, or two, work on."""

    settings: Settings
    delivered: int = 0
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def deliver(self) -> None:
        """Three purchases of the product that was new the time before, and another product."""
        n, shop = self.delivered, Path(self.settings.data) / "invoice"
        product = {"product_id": f"p{n}", "name": f"product {n}", "price": 1.5, "withdrawn": False, "at": AT}
        deliver(shop / "products" / f"{n:03}.jsonl", [product])
        bought = [
            {"purchase_id": f"{n}-{i}", "account_id": "a", "product_id": f"p{n - 1}", "quantity": i, "at": AT}
            for i in range(3 if n else 0)
        ]
        deliver(shop / "purchases" / f"{n:03}.jsonl", bought)
        self.delivered += 1

    def start(
        self, *command: str, home: Settings | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """A process with the settings of ``home``."""
        settings = home or self.settings
        process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=os.environ | settings.environ() | {"DAGSTER_HOME": str(settings.dagster_home)} | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def run(self, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """`rivermeet run`."""
        return self.start(str(BIN / "rivermeet"), "run", "invoice", *SELECT, env=env)

    def kill_at(self, point: str, seconds: float = 600) -> None:
        """`rivermeet run`, killed at a point of the join's epoch."""
        killed = self.run({crash.SETTING: f"{point}:priced_purchases"})
        _, err = killed.communicate(timeout=seconds)
        assert killed.returncode == -signal.SIGKILL, err

    def end(self) -> None:
        """Kill the processes that are left."""
        for process in self.processes:
            process.kill()
            process.communicate()

    def rows(self, node: str) -> list[dict[str, Any]]:
        """The changelog, by a reader that is not the writer."""
        changelog = DeltaTable(NodeTables(self.settings.tables, "invoice", node).changelog)
        return changelog.to_pyarrow_table().to_pylist()

    def epochs(self, node: str) -> list[int]:
        """Epochs in the changelog's commits, oldest first."""
        changelog = NodeTables(self.settings.tables, "invoice", node).changelog
        return sorted(note.epoch for _, note in notes(changelog))

    def check(self) -> None:
        """Every purchase is there once, and priced once; epochs and offsets have neither gap nor repeat."""
        bought = Counter(f"{n}-{i}" for n in range(1, self.delivered) for i in range(3))
        expected = {"purchases": bought, "priced_purchases": bought}
        expected["products"] = Counter(f"p{n}" for n in range(self.delivered))
        for node, keys in expected.items():
            rows = self.rows(node)
            assert Counter(next(iter(row["key"].values())) for row in rows) == keys, node
            offsets: dict[int, list[int]] = {}
            for row in rows:
                offsets.setdefault(row["partition"], []).append(row["offset"])
            assert all(sorted(found) == list(range(len(found))) for found in offsets.values()), node
            epochs = self.epochs(node)
            assert epochs == list(range(1, len(epochs) + 1)), node


def ended(process: subprocess.Popen[str], seconds: float = 600) -> str:
    """What a process that ends well has printed."""
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, f"exit {process.returncode}\n{out}\n{err}"
    return out


def made(*outputs: str) -> Counter[tuple[str, int]]:
    """Node and epoch to how many runs say that they made it."""
    return Counter((node, int(epoch)) for out in outputs for node, epoch in EPOCH.findall(out))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home with a small engine of its own: what others run on the shared one does not wait for it."""
    root = tmp_path_factory.mktemp("two")
    env = {"RIVERMEET_HOME": str(root / "home"), "RIVERMEET_ENGINE_MEMORY": "1g"}
    settings = Settings.from_env(env)
    yield settings
    engine.stop(settings)


@pytest.fixture
def shop(home: Settings, tmp_path: Path) -> Iterator[Shop]:
    """An empty data folder and empty tables, and a first product that has been read."""
    # The home's own notes of other tables: it has not seen these before.
    for notes_of_others in ("epochs", "quality"):
        shutil.rmtree(home.home / notes_of_others, ignore_errors=True)
    made_here = Shop(replace(home, tables=str(tmp_path / "tables"), data=str(tmp_path / "data")))
    made_here.deliver()
    ended(made_here.run())
    yield made_here
    made_here.end()


def test_two_command_lines(shop: Shop) -> None:
    for _ in range(3):
        before = {node: shop.epochs(node) for node in NODES}
        shop.deliver()
        outputs = [ended(process) for process in (shop.run(), shop.run())]
        said = made(*outputs)
        assert set(said.values()) == {1}, outputs
        assert set(said) == {(node, epoch) for node in NODES for epoch in shop.epochs(node)[len(before[node]) :]}
        survived("two runs at once, both from the command line", "each epoch made by one of them, both green")
    shop.check()


def test_a_command_line_and_dagster(shop: Shop) -> None:
    keys = ",".join(f"invoice/{node}_changelog" for node in NODES) + ",invoice/products_table"
    for _ in range(2):
        shop.deliver()
        asset = shop.start(
            str(BIN / "dagster"), "asset", "materialize", "-m", "rivermeet.assets.definitions", "--select", keys
        )
        line = shop.run()
        ended(asset)
        assert set(made(ended(line)).values()) <= {1}
        survived("two runs at once, command line and Dagster", "each epoch made by one of them, both green")
    shop.check()


def test_two_homes_with_an_engine_each(shop: Shop, tmp_path: Path) -> None:
    other = replace(shop.settings, home=tmp_path / "other")
    stop = tmp_path / "stop"
    command = (sys.executable, "-m", "tests.infra.epochs.again", str(stop), "invoice", *NODES)
    try:
        both = [shop.start(*command), shop.start(*command, home=other)]
        for _ in range(6):
            time.sleep(5)
            # The product that purchases name must be read before them.
            while len(shop.rows("products")) < shop.delivered:
                early = [ended(process) for process in both if process.poll() is not None]
                assert not early, "a process ended before it was asked to"
                time.sleep(0.5)
            shop.deliver()
        stop.touch()
        outputs = [ended(process) for process in both]
    finally:
        engine.stop(other)
    said = made(*outputs)
    assert set(said.values()) == {1}, said
    shop.check()
    for name, output in zip(("one", "other"), outputs, strict=True):
        survived("two homes, an engine each, the same tables", f"epochs by the {name}, none twice", len(made(output)))


def test_a_run_after_one_that_was_killed(shop: Shop) -> None:
    """What Dagster holds for a run (its place in a pool) is given back, also where no daemon looks after it."""
    for point in ("computed", "committed"):
        shop.deliver()
        shop.kill_at(point)
        ended(shop.run())
        shop.check()
        survived("kill -9 of `rivermeet run`", "the next run finishes its epoch")
