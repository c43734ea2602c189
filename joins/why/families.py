"""Which module explains which family; one that is added from outside is explained generically, or registers its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow
from pipelines import (
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
    StreamStreamJoin: "joins.why.stream_stream",
    StreamTableJoin: "joins.why.lookups",
    StreamGlobalJoin: "joins.why.lookups",
    TableTableJoin: "joins.why.table_table",
    ForeignKeyJoin: "joins.why.foreign_key",
    OneToManyJoin: "joins.why.one_to_many",
    TableAggregate: "joins.why.aggregates",
    WindowedAggregate: "joins.why.aggregates",
    **dict.fromkeys((Filter, MapValues, Merge, SelectKey, ToStream, ToTable), "joins.why.one_input"),
}


def family_of(operation: Operation) -> Family:
    """What explains an operation's rows."""
    return cast(Family, import_module(FAMILIES.get(type(operation), "joins.why.generic")))
