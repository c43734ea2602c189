"""Aggregates of tables and of windows, registered."""

from __future__ import annotations

from pipelines import TableAggregate, WindowedAggregate
from pipelines.family import Family

TABLE = Family(
    declaration=TableAggregate,
    operators={"3.1": "joins.aggregates.table"},
    rules="expectations.rules.aggregates",
    why="joins.aggregates.why",
)
WINDOWED = Family(
    declaration=WindowedAggregate,
    operators={"3.1": "joins.aggregates.windowed"},
    rules="expectations.rules.aggregates",
    why="joins.aggregates.why",
)
