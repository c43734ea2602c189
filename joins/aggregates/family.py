"""Aggregates of tables and of windows, registered."""

from __future__ import annotations

from rivermeet.pipelines import TableAggregate, WindowedAggregate
from rivermeet.pipelines.family import Family

TABLE = Family(
    declaration=TableAggregate,
    operators={"3.1": "rivermeet.joins.aggregates.table"},
    reference="rivermeet.joins.aggregates.reference",
    rules="rivermeet.expectations.rules.aggregates",
    why="rivermeet.joins.aggregates.why",
)
WINDOWED = Family(
    declaration=WindowedAggregate,
    operators={"3.1": "rivermeet.joins.aggregates.windowed"},
    reference="rivermeet.joins.aggregates.reference",
    rules="rivermeet.expectations.rules.aggregates",
    why="rivermeet.joins.aggregates.why",
)
