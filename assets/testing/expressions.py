"""Declared expressions over records in this process: columns are looked up, all else is DuckDB's.

    left.amount                        looked up
    left.amount - coalesce(right.paid, 0)      evaluated by DuckDB
    upper(right.name)                  refused: DuckDB may make another text of it than Spark

What DuckDB may evaluate is the list of ``expectations/judge/expressions.py``. Held by
``tests/testing/test_driver.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection
from sqlglot import exp

from rivermeet.expectations.judge.expressions import first_unlike
from rivermeet.expectations.judge.spark_sql import MACROS, duck
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.sql_text import tokens

ENGINE = "make the driver with engine=True, which asks the engine"
Cells = Mapping[str, Any]


class DriverError(RivermeetError, ValueError):
    """A test driver was asked for something that it does not have, or cannot do without the engine."""

    remedy = "Do what the message says; engine=True runs the operators themselves."


@dataclass(frozen=True)
class Select:
    """Expressions over rows of one shape.

    Attributes
    ----------
    given
        The columns that they see.
    places
        Result column to the path of the column that it is.
    query
        DuckDB's text of all others; empty where there are none.
    gives
        The result's columns.
    """

    given: pa.Schema
    places: Mapping[str, Sequence[str]]
    query: str
    gives: pa.Schema


class Evaluator:
    """Evaluates declared expressions; one database in memory, opened when it is first needed."""

    @cached_property
    def _database(self) -> DuckDBPyConnection:
        connection = duckdb.connect(":memory:")
        for statement in ("SET TimeZone = 'UTC'", *MACROS):
            connection.execute(statement)
        return connection

    def schema(self, columns: Mapping[str, str]) -> pa.Schema:
        """Columns of Spark SQL types as Arrow has them."""
        kinds = {name: exp.DataType.build(kind, dialect="databricks").sql("duckdb") for name, kind in columns.items()}
        nulls = ", ".join(f'CAST(NULL AS {kind}) AS "{at}"' for at, kind in enumerate(kinds.values()))
        found = self._database.sql(f"SELECT {nulls}").to_arrow_table().schema
        return pa.schema([pa.field(name, kind) for name, kind in zip(kinds, found.types, strict=True)])

    def prepare(self, where: str, select: Mapping[str, Any], given: pa.Schema) -> Select:
        """Expressions, checked once.

        Parameters
        ----------
        where
            What they are of, as a message says it.
        select
            Result column to SQL over the columns of ``given``.

        Raises
        ------
        DriverError
            If an expression is no SQL text, has a column that is not there, or may mean something else to DuckDB.
        """
        places: dict[str, Sequence[str]] = {}
        texts: dict[str, str] = {}
        for column, sql in select.items():
            if not isinstance(sql, str):
                raise DriverError(f"{where}: column '{column}' is a function of Spark's columns; {ENGINE}")
            place = _place(sql, given)
            if place is not None:
                places[column] = place
            elif (part := first_unlike(sql)) is not None:
                raise DriverError(
                    f"{where}: column '{column}' is {sql!r}, and {part!r} may mean something else to DuckDB than to "
                    f"Spark; {ENGINE}"
                )
            else:
                texts[column] = sql
        kinds = {column: _type_at(given, place) for column, place in places.items()}
        query = ""
        if texts:
            parts = ", ".join(f"({sql}\n) AS c{at}" for at, sql in enumerate(texts.values()))
            query = duck(f"SELECT {parts} FROM given")
            try:
                found = self._ask(query, given.empty_table()).schema
            except duckdb.Error as error:
                raise DriverError(f"{where}: {str(error).splitlines()[0]}") from None
            kinds |= dict(zip(texts, found.types, strict=True))
        return Select(given, places, query, pa.schema([pa.field(column, kinds[column]) for column in select]))

    def evaluate(self, select: Select, rows: Sequence[Cells]) -> list[dict[str, Any]]:
        """The result's columns of each row."""
        found: list[dict[str, Any]] = [
            {column: _cell(row, place) for column, place in select.places.items()} for row in rows
        ]
        if select.query and rows:
            asked = self._ask(select.query, pa.Table.from_pylist(list(rows), select.given))
            others = [name for name in select.gives.names if name not in select.places]
            for row, cells in zip(found, zip(*(c.to_pylist() for c in asked.columns), strict=True), strict=True):
                row |= zip(others, cells, strict=True)
        return [{name: row[name] for name in select.gives.names} for row in found]

    def _ask(self, query: str, given: pa.Table) -> pa.Table:
        self._database.register("given", given)
        try:
            return self._database.sql(query).to_arrow_table()
        finally:
            self._database.unregister("given")


def _place(sql: str, given: pa.Schema) -> Sequence[str] | None:
    """The path of the column that an expression is, as it is spelled there; None where it is more than that."""
    found = tokens(sql)
    names, dots = found[::2], found[1::2]
    if any(name.kind not in ("word", "quoted") for name in names) or any(dot.text != "." for dot in dots):
        return None
    place: list[str] = []
    fields: Any = list(given)
    for name in names:
        at = next((f for f in fields if f.name.lower() == name.text.lower()), None)
        if at is None:
            return None
        place.append(at.name)
        fields = list(at.type) if pa.types.is_struct(at.type) else []
    return place


def _type_at(given: pa.Schema, place: Sequence[str]) -> pa.DataType:
    kind: Any = given.field(place[0]).type
    for name in place[1:]:
        kind = kind.field(name).type
    return kind


def _cell(row: Cells, place: Sequence[str]) -> Any:
    cell: Any = row
    for name in place:
        cell = None if cell is None else cell[name]
    return cell
