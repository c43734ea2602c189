"""What the driver folds is what Spark folds, row for row, and it asks the engine for nothing."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.fold import fold, stage_whole
from rivermeet.infra.delta.io import RETENTION
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.staged import commit_staged, stage
from rivermeet.joins.tables.cache import select_emitted_before
from rivermeet.records.changelog import as_of, table_rows

KEYS = {
    "i TINYINT, j SMALLINT": [(1, 2), (1, None), (None, 2)],
    "n INT, t STRING": [(1, "a"), (1, ""), (1, None)],
    "l BIGINT": [(2**62,), (-1,), (None,)],
    "d DECIMAL(30, 2)": [(Decimal("1.00"),), (Decimal("-7.25"),), (None,)],
    "on DATE, at TIMESTAMP": [(date(1, 1, 1), datetime(9999, 12, 31)), (date(2024, 2, 29), None), (None, None)],
    "yes BOOLEAN, b BINARY": [(True, b"\x00"), (False, b""), (None, b"\x00")],
}
"""Key columns, and three keys of them."""
VALUE = "a ARRAY<INT>, m MAP<STRING, STRUCT<x: DOUBLE>>, s STRUCT<d: DECIMAL(5, 1), at: TIMESTAMP>, f FLOAT"
FIRST = ([1, None], {"k": (1.5,)}, (Decimal("2.5"), datetime(1500, 1, 1, 12)), -0.0)
SECOND = ([], {}, None, float("nan"))
THIRD = (None, None, (None, None), None)
#        epoch, place of the key (None: no key), value (None: a tombstone)
RECORDS = [
    (1, 0, FIRST), (1, 1, SECOND), (1, None, FIRST), (1, 2, None),
    (2, 0, SECOND), (2, 2, THIRD), (2, 0, FIRST), (2, 0, None), (2, 0, THIRD),
    (4, 1, None), (4, 1, FIRST), (4, 2, None),
]  # fmt: skip
ENDS: list[Offsets] = [{0: 3}, {0: 8}, {0: 8}, {0: 11}]
"""Epoch 3 has no records."""


def _never() -> SparkSession:
    raise AssertionError("asked the engine")


def commits(spark: SparkSession, paths: NodeTables, key: str, keys: list[Any], epoch: int) -> CommitNote:
    schema = f"key STRUCT<{key}>, value STRUCT<{VALUE}>, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
    lines = [
        (None if at is None else keys[at], value, 7 * offset, 0, offset, own)
        for offset, (own, at, value) in enumerate(RECORDS)
        if own == epoch
    ]
    note = CommitNote(incarnation=1, epoch=epoch, ends=ENDS[epoch - 1])
    staged = stage(spark.createDataFrame(lines, schema), paths.changelog, f"epoch-{epoch}")
    assert staged is not None
    commit_staged(staged, "changelog", epoch, note)
    return note


def shown(rows: DataFrame) -> list[str]:
    """Rows as text: NaN is equal to itself there, and 0.0 is not -0.0."""
    return sorted(repr(row) for row in rows.collect())


@pytest.mark.parametrize("key", KEYS)
def test_rows_and_properties_are_those_that_spark_gives(spark: SparkSession, tmp_path: Path, key: str) -> None:
    paths = NodeTables(str(tmp_path), "p", "n")
    for epoch in range(1, len(ENDS) + 1):
        note = commits(spark, paths, key, KEYS[key], epoch)
        assert fold(_never, paths, [], note)
        changelog = spark.read.format("delta").load(paths.changelog)
        expected = table_rows(changelog).where("NOT _deleted").drop("_deleted")
        found = spark.read.format("delta").load(paths.table)
        assert found.schema.simpleString() == expected.schema.simpleString()
        assert shown(found) == shown(expected), f"epoch {epoch}"
    table = open_table(paths.table)
    assert table is not None
    assert table.metadata().configuration == RETENTION
    assert [commit["operation"] for commit in table.history()] == ["WRITE"] * 3 + ["CREATE TABLE"]


def test_a_key_that_begins_again_in_another_partition_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """Its tombstone has the higher offset, in the partition where it was."""
    paths = NodeTables(str(tmp_path), "p", "n")
    schema = "key STRUCT<k: INT>, value STRUCT<v: INT>, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
    lines = [((1,), (1,), 0, 0, 0, 1), ((1,), None, 1, 0, 1, 1), ((1,), (2,), 2, 1, 0, 2)]
    staged = stage(spark.createDataFrame(lines, schema), paths.changelog, "epochs")
    assert staged is not None
    note = CommitNote(incarnation=1, epoch=2, ends={0: 1, 1: 0})
    commit_staged(staged, "changelog", 2, note)
    assert fold(_never, paths, [], note)
    assert [(row.k, row.v) for row in spark.read.format("delta").load(paths.table).collect()] == [(1, 2)]
    # And so it is where an epoch takes what is folded with what came since.
    changelog = spark.read.format("delta").load(paths.changelog)
    before, since = as_of(None, changelog.where("timestamp = 0")), changelog.where("timestamp > 0")
    for live in (as_of(None, changelog), as_of(before, since), as_of(before, since, few=True)):
        assert [(row.partition, row.value.v) for row in live.collect()] == [(1, 2)]
    assert select_emitted_before(changelog, changelog.select("key")).count() == 1, "what ends it next is emitted"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("f DOUBLE", "0.0 and -0.0 are one key"),
        ("s STRUCT<n: INT>", "Arrow does not group by it"),
        ("`a b` INT", "its columns need names of their own in the files"),
    ],
)
def test_what_the_driver_cannot_fold_is_left_to_spark(spark: SparkSession, tmp_path: Path, key: str, why: str) -> None:
    paths = NodeTables(str(tmp_path), "p", "n")
    schema = f"key STRUCT<{key}>, value STRUCT<v: INT>, timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"
    made = spark.createDataFrame([], schema).write.format("delta")
    made.option("delta.columnMapping.mode", "name" if "`" in key else "none").save(paths.changelog)
    assert stage_whole(paths.changelog, paths.table, {}, {}, "fold") is None, why
