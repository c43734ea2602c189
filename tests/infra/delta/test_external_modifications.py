"""External modifications: found at the next plan, refused in one sentence, healed by the command that it names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rivermeet.infra.delta.io import read
from rivermeet.infra.epochs.external_modifications import ExternalModificationError
from rivermeet.infra.epochs.stages.fold import refold
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.expressions import quote
from tests.infra.epochs.killed import die, joined, world
from tests.infra.epochs.test_kill import deliveries, publish
from tests.reliability import survived
from tests.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Fault = Callable[[World, str], None]


def external_append(target: World, path: str) -> None:
    read(target.spark, path).limit(1).write.format("delta").mode("append").save(path)


def restored(target: World, path: str) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    target.spark.sql(f"RESTORE delta.{quote(path)} TO VERSION AS OF 0").collect()


def lost_file(target: World, path: str) -> None:
    Path(DeltaTable(path).file_uris()[0]).unlink()


def new_column(target: World, path: str) -> None:
    target.spark.sql(f"ALTER TABLE delta.{quote(path)} ADD COLUMNS (theirs STRING)").collect()


def deleted_rows(target: World, path: str) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    target.spark.sql(f"DELETE FROM delta.{quote(path)} WHERE epoch = 1").collect()


def older_copy(target: World, path: str) -> None:
    """The folder as a backup had it, after the first epoch."""
    for log in sorted(Path(path, "_delta_log").glob("*")):
        if log.is_file() and "0" * 20 not in log.name:
            log.unlink()


def removed(target: World, path: str) -> None:
    shutil.rmtree(path)


FAULTS: dict[str, tuple[Fault, str]] = {
    "an append": (external_append, "version 2 is a WRITE that no run of ours made"),
    "RESTORE": (restored, "is a RESTORE that no run of ours made"),
    "a deleted file": (lost_file, "of version 1 is gone"),
    "a changed schema": (new_column, "is a ADD COLUMNS that no run of ours made"),
    "a DELETE": (deleted_rows, "is a DELETE that no run of ours made"),
    "an older copy of a folder": (older_copy, "ends with epoch 1, but epoch 2 was committed"),
    "a removed folder": (removed, "ends with epoch 0, but epoch 2 was committed"),
}


ALWAYS = ("an append", "a deleted file")
"""For `make test`: a commit of others, and a lost file."""


def rows(target: World) -> list[tuple[object, ...]]:
    found = target.rows(joined())
    return sorted((r["partition"], r["offset"], str(r["key"]), str(r["value"]), r["timestamp"]) for r in found)


@dataclass(frozen=True)
class Undisturbed:
    """A world after two epochs, and the rows and table that one without any fault has after three and four."""

    root: Path
    rows: dict[int, list[tuple[object, ...]]]
    table: list[dict[str, object]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Undisturbed:
    node, root = joined(), tmp_path_factory.mktemp("hands")
    target, whole = world(root / "two", settings), world(root / "whole", settings)
    for delivery in deliveries()[:2]:
        publish(target, delivery)
        target.run(node)
    found = {}
    for delivery in deliveries()[:3]:
        publish(whole, delivery)
    for after in (3, 4):
        whole.run(node)
        found[after] = rows(whole)
        if after == 3:
            publish(whole, deliveries()[3])
    return Undisturbed(root / "two", found, whole.rows(node, "table"))


@pytest.mark.parametrize("fault", [f if f in ALWAYS else pytest.param(f, marks=pytest.mark.prove) for f in FAULTS])
def test_a_modified_changelog(tmp_path: Path, settings: Settings, undisturbed: Undisturbed, fault: str) -> None:
    shutil.copytree(undisturbed.root, tmp_path / "hands")
    node, target = joined(), world(tmp_path / "hands", settings)
    path = target.runner("batch").paths(node).changelog
    cause, message = FAULTS[fault]
    cause(target, path)
    publish(target, deliveries()[2])
    # Refused again and again, and nothing lost, until it is healed.
    for _ in range(2):
        with pytest.raises(ExternalModificationError, match=message) as refused:
            target.run(node)
    assert f"rivermeet rebuild {node.pipeline.name} --select {node.name}" in str(refused.value)
    assert path in str(refused.value)
    assert "\n" not in str(refused.value)
    result = target.rebuild(node)
    assert result is not None
    assert result.plan.incarnation == 2
    assert rows(target) == undisturbed.rows[3]
    publish(target, deliveries()[3])
    target.run(node)
    assert rows(target) == undisturbed.rows[4]
    assert target.rows(node, "table") == undisturbed.table
    survived(f"external modification: {fault}", "refused at the next plan, healed by rebuild")


@pytest.mark.prove
def test_a_restore_to_our_last_version_heals(tmp_path: Path, settings: Settings) -> None:
    node, target = joined(), world(tmp_path, settings)
    publish(target, deliveries()[0])
    target.run(node)
    left = node.operation.inputs["left"]  # pyright: ignore[reportOptionalMemberAccess]
    path = target.runner("batch").paths(left).changelog
    external_append(target, path)
    with pytest.raises(ExternalModificationError, match=f"changelog of '{left.pipeline.name}.{left.name}'"):
        target.run(node)
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    target.spark.sql(f"RESTORE delta.{quote(path)} TO VERSION AS OF 0").collect()
    assert target.run(node) is None
    publish(target, deliveries()[1])
    result = target.run(node)
    assert result is not None
    assert result.plan.inputs["left"].records == 1
    survived("external modification: RESTORE to our last version", "taken as healed")


@pytest.mark.prove
def test_a_modified_table_is_folded_again(tmp_path: Path, settings: Settings) -> None:
    node, target = joined(), world(tmp_path, settings)
    publish(target, deliveries()[0])
    target.run(node)
    path = target.runner("batch").paths(node).table
    before = target.rows(node, "table")
    target.spark.sql(f"DELETE FROM delta.{quote(path)}").collect()
    with pytest.raises(ExternalModificationError, match=r"rivermeet rebuild \w+ --select \w+ --table-only"):
        target.run(node)
    assert refold(target.runner("batch"), node)
    assert target.rows(node, "table") == before
    publish(target, deliveries()[1])
    assert target.run(node) is not None
    survived("external modification: a folded table", "refused at the next plan, folded again in full")


@pytest.mark.prove
def test_vacuum_past_a_pinned_version(tmp_path: Path, settings: Settings) -> None:
    node, target = joined(), world(tmp_path, settings)
    publish(target, deliveries()[0])
    target.run(node)
    publish(target, deliveries()[1])
    die(target, settings, "join", "planned")
    right = node.operation.inputs["left"]  # pyright: ignore[reportOptionalMemberAccess]
    paths = target.runner("batch").paths(right)
    # Others rewrite the table and clean up behind themselves: the plan's version has lost its files.
    target.spark.sql(f"OPTIMIZE delta.{quote(paths.table)}").collect()
    target.spark.sql(f"REORG TABLE delta.{quote(paths.table)} APPLY (PURGE)").collect()
    DeltaTable(paths.table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(
        ExternalModificationError, match="which a plan that is still to be run pins, is gone"
    ) as refused:
        target.run(node)
    assert f"rivermeet rebuild {node.pipeline.name} --select {node.name}" in str(refused.value)
    assert target.rebuild(node) is not None
    whole = world(tmp_path / "whole", settings)
    for delivery in deliveries()[:2]:
        publish(whole, delivery)
    whole.run(node)
    assert rows(target) == rows(whole)
    survived("external modification: VACUUM past a pinned version", "refused at the next plan, healed by rebuild")
