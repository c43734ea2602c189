"""The two answers that are compared, and what all comparisons share.

    ours      rows of the operator, by profile kafka-4, each with the record that triggers it
    theirs    rows of the application's output topic, with Kafka's partitions and offsets

A difference is one row: the key, how the answers differ (missing, extra, stale, other), the cause, and what both
sides have.

| kind | ours | theirs |
|---|---|---|
| missing | a row | none |
| extra | none | a row |
| stale | a row | one that joins records which were replaced |
| other | a row | one of another value |

Held by ``tests/joins/shadow``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

UNREAD = "unread"
NOT_READ_HERE = "not_read_here"
Bounds = Mapping[str, Mapping[int, int]]
"""Side to partition to the last offset that the application has read for sure; a side that is read whole is absent."""


@dataclass(frozen=True)
class Answers:
    """What is compared.

    Attributes
    ----------
    ours
        ``key``, ``value``, ``timestamp`` (ms), ``partition``, ``offset``, ``trigger``; of a join of streams also the
        records' ``left_offset`` and ``right_offset``.
    theirs
        ``key``, ``value``, ``timestamp`` (ms), ``partition``, ``offset``; records that could be decoded.
    left, right
        Records that the operator has consumed, in its order: ``key``, ``value``, ``timestamp`` (ms), ``partition``,
        ``offset``, ``order``. None where the operation has no such input.
    read
        How far the application has read; empty if it has read all, or if unknown.
    is_ahead
        Whether the application has read records that we have not.
    keep
        The same rows, for a frame that is used more than once.
    """

    ours: DataFrame
    theirs: DataFrame
    left: DataFrame | None = None
    right: DataFrame | None = None
    read: Bounds = field(default_factory=dict)
    is_ahead: bool = False
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame

    def is_unread(self, trigger: str = "ours.trigger") -> Column:
        """Whether the record that triggers a row is one that the application has not read for sure."""
        found = F.lit(False)
        for side, bounds in self.read.items():
            by_place = [bounds.get(p, -1) for p in range(max(bounds, default=-1) + 1)]
            last = F.get(F.from_json(F.lit(json.dumps(by_place)), "ARRAY<BIGINT>"), F.col(f"{trigger}.partition"))
            of_side = F.col(f"{trigger}.side") == side
            found = found | (of_side & (F.col(f"{trigger}.offset") > F.coalesce(last, F.lit(-1))))
        return F.coalesce(found, F.lit(False))


@dataclass(frozen=True)
class Compared:
    """What a comparison came to.

    Attributes
    ----------
    differences
        ``kind``, ``cause``, ``key``, ``copies`` (rows that it stands for), ``ours``, ``theirs``, ``left``, ``right``:
        structs of what each side has, as `shape_differences` gives them.
    compared
        One row: ``keys`` (of streams: distinct rows) of either side, ``equal`` ones, and ``otherwise``: equal ones that
        came in another order, or with other rows in between.
    """

    differences: DataFrame
    compared: DataFrame


RECORD = ("partition", "offset", "timestamp", "value")
"""What is shown of a record of an input."""
PROVENANCE = ("trigger", "left_offset", "right_offset")


def unite_answers(answers: Answers) -> DataFrame:
    """All rows of both answers: ``mine``, columns of a record, and `PROVENANCE`, which only ours has."""
    columns = ("key", "value", "timestamp", "partition", "offset")
    found = answers.ours.columns
    known = [F.col(c) if c in found else F.lit(None).cast("bigint").alias(c) for c in PROVENANCE]
    mine = answers.ours.select(F.lit(True).alias("mine"), *columns, *known)
    theirs = answers.theirs.select(F.lit(False).alias("mine"), *columns)
    return mine.unionByName(theirs, allowMissingColumns=True)


def hash_history(mine: Column, *of: str) -> Column:
    """A number for the sequence of a key's rows on one side: equal where they came in the same order."""
    rows = F.array_sort(F.collect_list(F.when(mine, F.struct("offset", *of))))
    # A hash ignores NULL: a tombstone needs another value.
    return F.xxhash64(F.transform(rows, lambda row: F.struct(*(row[name] for name in of), row[of[0]].isNull())))


def show_row(name: str, *more: str) -> Column:
    """STRUCT<partition, offset, timestamp, value, …>: a side's row, or a record of an input; the value as JSON."""
    place = F.col(name)
    parts = {part: place[part] for part in ("partition", "offset", "timestamp", "value", *more)}
    parts["value"] = as_json(place["value"])
    return F.when(place.isNotNull(), F.struct(*(column.alias(part) for part, column in parts.items()))).alias(name)


RECORD_TYPE = "STRUCT<partition: INT, offset: BIGINT, timestamp: BIGINT, value: STRING>"


def as_json(value: Column) -> Column:
    """A struct as JSON text with all its fields; NULL of NULL."""
    return F.to_json(value, {"ignoreNullFields": "false"})


def shape_differences(differences: DataFrame) -> DataFrame:
    """Differences in one shape for all nodes.

    Returns
    -------
    DataFrame
        ``kind``, ``cause``, ``key`` (JSON), ``copies``; ``ours`` and ``theirs``, the rows; ``left`` and ``right``, the
        input records behind them; ``joined_left`` and ``joined_right``, those that the application's row
        joins, where they are others.
    """
    inputs = [
        show_row(name) if name in differences.columns else F.lit(None).cast(RECORD_TYPE).alias(name)
        for name in ("left", "right", "joined_left", "joined_right")
    ]
    return differences.select(
        "kind",
        "cause",
        as_json(F.col("key")).alias("key"),
        "copies",
        show_row("ours", "trigger"),
        show_row("theirs", "trigger"),
        *inputs,
    )
