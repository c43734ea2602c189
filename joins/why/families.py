"""Which module explains which family; one that is added from outside is explained generically, or registers its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow
from rivermeet.pipelines import (
    Filter,
    ForeignKeyJoin,
    MapValues,
    Merge,
    OneToManyJoin,
    Operation,
    SelectKey,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableAggregate,
    TableTableJoin,
    ToStream,
    ToTable,
    WindowedAggregate,
)


class Family(Protocol):
    """What explains the rows of one family."""

    @staticmethod
    def made_of(operation: Any, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
        """The records that a row was made of."""
        ...

    @staticmethod
    def missing(operation: Any, key: Key, evidence: Evidence) -> list[Reason]:
        """Why a key has no row."""
        ...


FAMILIES: dict[type[Operation], str] = {
    StreamStreamJoin: "rivermeet.joins.why.stream_stream",
    StreamTableJoin: "rivermeet.joins.why.lookups",
    StreamGlobalJoin: "rivermeet.joins.why.lookups",
    TableTableJoin: "rivermeet.joins.why.table_table",
    ForeignKeyJoin: "rivermeet.joins.why.foreign_key",
    OneToManyJoin: "rivermeet.joins.why.one_to_many",
    TableAggregate: "rivermeet.joins.why.aggregates",
    WindowedAggregate: "rivermeet.joins.why.aggregates",
    **dict.fromkeys((Filter, MapValues, Merge, SelectKey, ToStream, ToTable), "rivermeet.joins.why.one_input"),
}


def family_of(operation: Operation) -> Family:
    """What explains an operation's rows."""
    return cast(Family, import_module(FAMILIES.get(type(operation), "rivermeet.joins.why.generic")))
