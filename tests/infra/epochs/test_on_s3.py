"""Tables on S3: the rows of a run on a local disk, and a run that one machine began goes on on another one.

A machine is a home: the other one has nothing of the first but what lies in the bucket.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import obstore
import pytest
from deltalake import DeltaTable
from obstore.store import from_url

from rivermeet.infra.delta.io import is_protected, last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.settings import Settings
from tests.faulty_s3 import faults
from tests.infra.epochs.test_two_at_once import BIN, NODES, Shop, ended, made
from tests.object_store import SECRET
from tests.reliability import survived

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass
class Machines:
    """Two homes over the same tables and files, with an engine each."""

    shops: tuple[Shop, Shop]

    def deliver(self) -> None:
        for shop in self.shops:
            shop.deliver()
            for name in ("epochs", "quality", "locks", "dagster", "reports", "landing"):
                # The machine of the next run has never seen these tables.
                shutil.rmtree(shop.settings.home / name, ignore_errors=True)


@pytest.fixture
def machines(s3: str, tmp_path: Path) -> Iterator[Machines]:
    shops = [
        Shop(
            Settings.from_env(
                {
                    "RIVERMEET_HOME": str(tmp_path / name),
                    "RIVERMEET_TABLES": s3,
                    "RIVERMEET_DATA": str(tmp_path / "data"),
                    "RIVERMEET_ENGINE_MEMORY": "1g",
                    "RIVERMEET_LEASE_SECONDS": "3",
                }
            )
        )
        for name in ("one", "other")
    ]
    made = Machines((shops[0], shops[1]))
    yield made
    for shop in shops:
        shop.end()
        engine.stop(shop.settings)


@pytest.mark.prove
def test_rows_are_those_of_a_local_run(machines: Machines, tmp_path: Path) -> None:
    one, other = machines.shops
    machines.deliver()
    ended(one.run())
    machines.deliver()
    engine.stop(one.settings)
    # The second epoch on a machine that knows of the first from the bucket alone.
    ended(other.run())
    other.check()
    engine.stop(other.settings)
    local = Shop(replace(one.settings, home=tmp_path / "local", tables=str(tmp_path / "tables")), other.delivered)
    try:
        for n in range(local.delivered):
            hidden = [file for file in (tmp_path / "data").rglob("*.jsonl") if int(file.stem) > n]
            for file in hidden:
                file.rename(file.with_name(f".{file.name}"))
            ended(local.run())
            for file in hidden:
                file.with_name(f".{file.name}").rename(file)
    finally:
        engine.stop(local.settings)
    for node in NODES:
        for table in ("changelog", "table"):
            there, here = (getattr(NodeTables(shop.settings.tables, "invoice", node), table) for shop in (other, local))
            if open_table(here) is not None:
                assert rows(there) == rows(here), (node, table)
    assert len(rows(f"{other.settings.tables}/_quality")) == len(rows(str(local.settings.home / "quality")))
    nowhere_a_secret(other, one.settings.home, other.settings.home)


def rows(path: str) -> list[str]:
    """All rows as text, in order."""
    return sorted(map(repr, DeltaTable(path).to_pyarrow_table().to_pylist()))


def nowhere_a_secret(shop: Shop, *homes: Path) -> None:
    """What gives access is neither in the bucket, nor in what a home keeps and prints."""
    store = from_url(shop.settings.tables)
    for found in obstore.list(store).collect():
        assert SECRET.encode() not in bytes(obstore.get(store, found["path"]).bytes()), found["path"]
    for home in homes:
        for file in home.rglob("*"):
            if file.is_file() and file.suffix != ".jar":
                assert SECRET.encode() not in file.read_bytes(), file


@pytest.mark.prove
def test_killed_on_one_machine_a_run_goes_on_on_the_other(machines: Machines) -> None:
    one, other = machines.shops
    machines.deliver()
    ended(one.run())
    for point in ("planned", "computed", "sides-written", "committed"):
        machines.deliver()
        one.kill_at(point)
        ended(other.run())
        other.check()
        survived(
            f"tables on S3, kill -9 on one machine, {point}", "another one with an empty home ends in the same rows"
        )


@pytest.mark.prove
def test_killed_over_a_store_that_fails_at_random(unreliable: str, machines: Machines) -> None:
    """Refused, unanswered and late requests under whole runs, of the run's process and of its engine."""
    one, other = machines.shops
    machines.deliver()
    ended(one.run())
    points = ("planned", "computed", "sides-written", "committed")
    for point in points:
        machines.deliver()
        one.kill_at(point)
        ended(other.run())
        other.check()
    counts = faults(unreliable)
    assert min(counts[kind] for kind in ("refused", "unanswered", "late")) > 100, counts
    assert counts["copied"] == 0, "nothing needs a rename"
    survived(
        "tables on S3, requests that fail at random and kill -9 on one machine",
        "another one with an empty home ends in the same rows",
        len(points),
    )


@pytest.mark.prove
def test_two_machines_at_once(machines: Machines) -> None:
    """Each epoch is made by one of them, and the other one waits for its lease."""
    one, other = machines.shops
    machines.deliver()
    ended(one.run())
    for _ in range(2):
        machines.deliver()
        said = made(*[ended(process) for process in (one.run(), other.run())])
        assert set(said.values()) == {1}, said
        assert {node for node, _ in said} == set(NODES)
        survived("two runs at once on two machines, tables on S3", "each epoch made by one of them, both green")
    other.check()


MAINTAIN = """
from rivermeet.assets.defs.maintenance import maintain_pipeline
from rivermeet.assets.project import Project
from rivermeet.infra.delta.table_care import Retention

project = Project.find()
for done in maintain_pipeline(project, project.pipeline("invoice"), Retention(versions=1, small_files=0)):
    print(done.table, *done.did, sep=": ")
"""


@pytest.mark.prove
def test_sources_on_s3_maintenance_and_rebuild(s3: str, tmp_path: Path) -> None:
    """Files are read from the bucket; after maintenance and a rebuild the next epoch goes on."""
    settings = Settings.from_env(
        {
            "RIVERMEET_HOME": str(tmp_path / "home"),
            "RIVERMEET_TABLES": s3,
            "RIVERMEET_DATA": f"{s3}-in",
            "RIVERMEET_ENGINE_MEMORY": "1g",
        }
    )
    local = Shop(replace(settings, data=str(tmp_path / "data")))
    shop = Shop(settings)

    def epoch() -> None:
        local.deliver()
        store = from_url(settings.data)
        there = {found["path"] for found in obstore.list(store).collect()}
        for file in (tmp_path / "data").rglob("*.jsonl"):
            if (name := str(file.relative_to(tmp_path / "data"))) not in there:
                obstore.put(store, name, file.read_bytes())
        ended(shop.run())
        shop.delivered = local.delivered
        shop.check()

    try:
        epoch()
        epoch()
        said = ended(shop.start(sys.executable, "-c", MAINTAIN))
        for table in ("priced_purchases/changelog", "epoch log", "quality"):
            assert f"{table}: optimized" in said, said
        epoch()
        changelog = NodeTables(s3, "invoice", "priced_purchases").changelog
        before = last_note(changelog)
        ended(shop.start(str(BIN / "rivermeet"), "rebuild", "invoice", "--select", "priced_purchases"))
        after = last_note(changelog)
        assert before is not None and after is not None
        # All purchases and products have one time: computed at once, the purchases come first, and find nothing.
        assert (after[1].incarnation, after[1].epoch) == (before[1].incarnation + 1, before[1].epoch + 1)
        assert is_protected(changelog)
    finally:
        engine.stop(settings)
