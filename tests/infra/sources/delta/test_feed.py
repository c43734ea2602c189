"""The change data feed: what it folds to is the table, whatever changed it and however it is cut into epochs."""

from __future__ import annotations

import pytest

from rivermeet.infra.epochs.step import EpochResult
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable, Pipeline, Stream, Table
from rivermeet.pipelines.pipeline import SourceOptions
from tests.infra.sources.delta.shed import Row, Shed

SCHEMA = {"id": "STRING", "n": "BIGINT"}
BY_ID: SourceOptions = {"key": ["id"], "value": ["n"], "max_bad_share": 0.5}


def orders(name: str = "orders", **options: object) -> Table:
    given: SourceOptions = {**BY_ID, **options}  # pyright: ignore[reportAssignmentType]
    return Pipeline("shop").table(name, DeltaTable("orders", changes="feed", schema=SCHEMA), partitions=1, **given)


def changes(name: str = "changes") -> Stream:
    return Pipeline("shop").stream(name, DeltaTable("orders", changes="feed", schema=SCHEMA), partitions=1, **BY_ID)


def ranged(result: EpochResult | None) -> VersionRange:
    assert result is not None and isinstance(result.plan.reads, VersionRange)
    return result.plan.reads


def upsert(shed: Shed, *rows: Row) -> None:
    import pyarrow as pa

    given = pa.table({"id": [row[0] for row in rows], "n": [row[1] for row in rows]})
    merged = shed.table().merge(given, "t.id = s.id", source_alias="s", target_alias="t")
    merged.when_matched_update_all().when_not_matched_insert_all().execute()


def history(shed: Shed, step: int) -> None:
    """One commit of each kind, by either writer."""
    match step:
        case 0:
            shed.put(("a", 1), ("b", 2), ("c", 3), fed=True)
        case 1:
            shed.sql("UPDATE {t} SET n = n + 10 WHERE id = 'a'")
        case 2:
            shed.table().delete("id = 'b'")
        case 3:
            upsert(shed, ("c", 30), ("d", 4))
        case 4:
            shed.table().optimize.compact()
        case 5:
            shed.sql("UPDATE {t} SET id = 'e' WHERE id = 'd'")
        case 6:
            shed.put(("a", 100), ("f", 6), mode="overwrite")
        case 7:
            shed.sql("DELETE FROM {t} WHERE id = 'f'")
            shed.sql("INSERT INTO {t} VALUES ('b', 22)")


@pytest.mark.prove
def test_what_it_folds_to_is_the_table(shed: Shed) -> None:
    cut, whole = orders(), orders("whole")
    for step in range(8):
        history(shed, step)
        shed.run(cut)
        assert shed.folded(cut) == shed.there(), f"step {step}"
    shed.run(whole)
    assert shed.records(cut) == shed.records(whole)
    assert shed.said(whole) == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
        ("a", 11),
        ("b", None),
        ("c", 30),
        ("d", 4),
        ("d", None),
        ("e", 4),
        ("a", None),
        ("c", None),
        ("e", None),
        ("a", 100),
        ("f", 6),
        ("f", None),
        ("b", 22),
    ]


def test_a_feed_that_was_switched_on_later(shed: Shed) -> None:
    """The version that switched it on is read whole, and then the changes since."""
    shed.put(("a", 1), ("b", 2))
    shed.put(("c", 3))
    shed.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    shed.table().delete("id = 'a'")
    node = changes()
    found = ranged(shed.run(node))
    assert (found.snapshot, found.start, found.end) == (2, 3, 3)
    assert shed.said(node) == [("a", 1), ("b", 2), ("c", 3), ("a", None)]


def test_a_first_epoch_after_vacuum_is_a_snapshot(shed: Shed) -> None:
    for step in range(4):
        history(shed, step)
    shed.vacuum()
    node = orders()
    found = ranged(shed.run(node))
    assert (found.snapshot, found.end) == (found.end, shed.table().version())
    assert shed.folded(node) == shed.there()
    history(shed, 5)
    shed.run(node)
    assert shed.folded(node) == shed.there()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param("UPDATE {t} SET n = 5 WHERE id = 'a'", [("a", 5)], id="a new value"),
        pytest.param("UPDATE {t} SET id = 'z' WHERE id = 'a'", [("a", None), ("z", 1)], id="another key"),
        pytest.param(
            "UPDATE {t} SET id = CASE id WHEN 'a' THEN 'b' ELSE 'a' END", [("a", 2), ("b", 1)], id="keys swapped"
        ),
        pytest.param("UPDATE {t} SET n = -1 WHERE id = 'a'", [("a", None)], id="excluded by where"),
        pytest.param("UPDATE {t} SET id = NULL WHERE id = 'a'", [("a", None)], id="no key any longer: a dead letter"),
        pytest.param("UPDATE {t} SET n = n", [("a", 1), ("b", 2)], id="nothing"),
        pytest.param("DELETE FROM {t}", [("a", None), ("b", None)], id="all deleted"),
    ],
)
def test_an_update(shed: Shed, change: str, expected: list[Row]) -> None:
    node = orders(where="n >= 0")
    shed.put(("a", 1), ("b", 2), fed=True)
    shed.run(node)
    shed.sql(change)
    shed.run(node)
    assert shed.said(node)[2:] == expected


@pytest.mark.prove
def test_a_snapshot_of_deletion_vectors(shed: Shed) -> None:
    """Rows that a deletion vector masks are in their file still."""
    properties = "delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true"
    shed.sql(f"CREATE TABLE {{t}} (id STRING, n BIGINT) USING delta TBLPROPERTIES ({properties})")
    shed.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ 'k' || id, id FROM range(10)")
    shed.sql("DELETE FROM {t} WHERE n < 4")
    shed.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    shed.sql("ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    shed.sql("DELETE FROM {t} WHERE n < 6")
    node = orders()
    found = ranged(shed.run(node))
    assert (found.snapshot, found.start) == (4, 5)
    assert shed.folded(node) == shed.there() == [(f"k{n}", n) for n in range(6, 10)]


def test_what_a_commit_says(shed: Shed) -> None:
    shed.put(("a", 1), fed=True)
    shed.sql("UPDATE {t} SET n = 2")
    value = ["n", "delta_version", "delta_change"]
    source = DeltaTable("orders", changes="feed", schema=SCHEMA)
    node = Pipeline("shop").table("orders", source, key=["id"], value=value, partitions=1)
    shed.run(node)
    times = [commit["timestamp"] for commit in reversed(shed.table().history())]
    assert shed.records(node) == [
        (0, "a", (1, 0, "insert"), times[0]),
        (0, "a", (2, 1, "update_postimage"), times[1]),
    ]
