"""Conditions on partitions and offsets, short enough for Spark to plan quickly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from rivermeet.infra.commit_note import Offsets
from rivermeet.pipelines import limits


def between(after: Mapping[int, int], upto: Offsets) -> Column:
    """Whether a record's offset is in ``(after, upto]``."""
    return F.expr(between_sql(after, upto))


def count_between(after: Mapping[int, int], upto: Offsets) -> int:
    """The number of records with offsets in ``(after, upto]``: offsets are dense."""
    return sum(end - after.get(partition, -1) for partition, end in upto.items())


def between_sql(after: Mapping[int, int], upto: Offsets) -> str:
    """SQL for whether a record's offset is in ``(after, upto]``.

    Few partitions are written out; for many, the bounds are looked up. The range over all of them comes first, because
    readers can skip parts of files by a range, but not by an OR of several columns.
    """
    new = {int(p): int(end) for p, end in upto.items() if end > after.get(p, -1)}
    if not new:
        return "false"
    start = {p: int(after.get(p, -1)) for p in new}
    among = f"offset > {min(start.values())} AND offset <= {max(new.values())}"
    if len(new) > limits.NAMED_PARTITIONS:
        return f"{among} AND offset > {lookup_sql(start)} AND offset <= {lookup_sql(new)}"
    slots = [f"(partition = {p} AND offset > {start[p]} AND offset <= {end})" for p, end in new.items()]
    return f"{among} AND ({any_of_sql(slots)})"


def lookup_sql(values: Mapping[int, int]) -> str:
    """SQL for the number of a row's partition, null if it has none.

    A condition per partition is evaluated, and planned, one by one: 2,000 cases of a replay are 2,000 partitions.
    """
    by_place = [values.get(p) for p in range(max(values, default=-1) + 1)]
    return f"get(from_json('{json.dumps(by_place)}', 'ARRAY<BIGINT>'), partition)"


def any_of_sql(conditions: Sequence[str]) -> str:
    """SQL for whether one of the conditions holds.

    A text and not a chain of columns: Spark Connect cannot send a chain as long as a topic's partitions
    (``tests/joins/stream_global/test_stream_global.py`` has 60).
    """
    return " OR ".join(conditions) or "false"
