"""Operations that forward a record, and merge, registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rivermeet.joins.equal_columns import own
from rivermeet.pipelines import Filter, MapValues, Merge, Operation, SelectKey, ToStream, ToTable
from rivermeet.pipelines.family import Family, Needed, need_all


def need_rows(operation: Filter) -> Needed:
    """Rows of a table whose key is that of a record."""
    return {"left": [own("left", operation.input.key)]}


def _make(declaration: type[Operation], operator: str, needed: Callable[[Any], Needed] = need_all) -> Family:
    return Family(
        declaration=declaration,
        operators={"3.1": f"rivermeet.joins.stateless.{operator}"},
        reference="rivermeet.joins.stateless.reference",
        why="rivermeet.joins.stateless.why",
        needed=needed,
    )


FILTER = _make(Filter, "filter", need_rows)
MAP_VALUES = _make(MapValues, "map_values")
SELECT_KEY = _make(SelectKey, "select_key")
TO_TABLE = _make(ToTable, "to_table")
TO_STREAM = _make(ToStream, "to_table")
MERGE = _make(Merge, "merge")
