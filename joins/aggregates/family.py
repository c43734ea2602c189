"""Aggregates of tables and of windows, registered."""

from __future__ import annotations

from rivermeet.pipelines import Operation, TableAggregate, WindowedAggregate
from rivermeet.pipelines.family import Family


def _make(declaration: type[Operation], operator: str) -> Family:
    return Family(
        declaration=declaration,
        operators={"3.1": f"rivermeet.joins.aggregates.{operator}"},
        reference="rivermeet.joins.aggregates.reference",
        rules="rivermeet.expectations.rules.aggregates",
        why="rivermeet.joins.aggregates.why",
    )


TABLE = _make(TableAggregate, "table")
WINDOWED = _make(WindowedAggregate, "windowed")
