"""What aggregates have in common: their arguments, and their values over a history or merged from parts.

The argument of each aggregation is evaluated once per record and travels in one STRUCT column, ``arguments``; where
that is NULL the record does not count. For ``count()`` the argument is 1. Nulls are as in SQL: ``sum``, ``min``,
``max`` and ``avg`` skip them and are null if there is nothing else.

    n = 1, null, 5      count() 3   count(n) 2   sum 6   min 1   max 5   avg 3.0

``sum`` has Spark's type (BIGINT, DOUBLE, or DECIMAL with ten digits more), and ``avg`` is that sum over the count, in
DOUBLE. A sum of DOUBLE may differ in its last bits when the same records come in other epochs.

Source: released Kafka Streams (aggregators are the user's own), Spark SQL. Held by
``tests/joins/aggregates/test_table_aggregate.py`` and ``test_windowed_aggregate.py`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.joins.stateless.one_input import add_expressions
from rivermeet.pipelines.operations import Aggregation

HAS_VALUE = "__row.value IS NOT NULL"
"""Of records whose expressions are evaluated; a guard of `add_expressions`."""
PARTS = {"count": ("count",), "sum": ("sum",), "min": ("min",), "max": ("max",), "avg": ("sum", "count")}
"""Function to the parts that it is merged from."""
_OF: Mapping[str, Callable[[Column], Column]] = {"count": F.count, "sum": F.sum, "min": F.min, "max": F.max}
_MERGED: Mapping[str, Callable[[str], Column]] = {"count": F.sum, "sum": F.sum, "min": F.min, "max": F.max}


def add_arguments(records: DataFrame, aggregations: Mapping[str, Aggregation]) -> DataFrame:
    """Add ``arguments``, one field per aggregation; NULL where the record has no value."""
    given = {f"a{i}": "1" if a.of is None else a.of for i, a in enumerate(aggregations.values())}
    return add_expressions(records, given, "arguments", HAS_VALUE)


def aggregate_over(aggregations: Mapping[str, Aggregation], history: WindowSpec) -> Column:
    """The value STRUCT over a window of rows with ``arguments``."""
    found = [
        _finish(a, {part: _OF[part](F.col(f"arguments.a{i}")).over(history) for part in PARTS[a.function]})
        for i, a in enumerate(aggregations.values())
    ]
    return F.struct(*(column.alias(name) for name, column in zip(aggregations, found, strict=True)))


def compute_parts(aggregations: Mapping[str, Aggregation]) -> list[Column]:
    """Aggregate columns of a group of rows with ``arguments``, to be merged by `merge`."""
    return [
        _OF[part](F.col(f"arguments.a{i}")).alias(f"{part}_{i}")
        for i, a in enumerate(aggregations.values())
        for part in PARTS[a.function]
    ]


def merge(aggregations: Mapping[str, Aggregation], of: StructType) -> Column:
    """The value STRUCT aggregated from several rows of `compute_parts`; ``of`` is their schema."""

    def part(name: str) -> Column:
        kind = name.partition("_")[0]
        found = _MERGED[kind](name)
        # A sum of DECIMAL sums would have ten more digits than the sum itself. Nothing else is cast: over Spark Connect
        # a cast to STRING names a collation, which other readers of the table do not know.
        return found.cast(of[name].dataType) if kind == "sum" else found

    found = [_finish(a, {p: part(f"{p}_{i}") for p in PARTS[a.function]}) for i, a in enumerate(aggregations.values())]
    return F.struct(*(column.alias(name) for name, column in zip(aggregations, found, strict=True)))


def _finish(aggregation: Aggregation, parts: Mapping[str, Column]) -> Column:
    if aggregation.function == "count":
        return F.coalesce(parts["count"], F.lit(0).cast("bigint"))
    if aggregation.function == "avg":
        # Divided only where there is something: the division by zero would raise.
        return F.when(parts["count"] > 0, parts["sum"].cast("double") / parts["count"].cast("double"))
    return parts[aggregation.function]
