"""Finds a few rows of a changelog or a side table by their columns, without Spark.

    key.tail_number = N1, partition = 3, offset <= 70
    file a    min.offset 0, max.offset 69      read: only its row groups whose statistics may have N1
    file b    min.offset 70                    read
    file c    min.offset 900                   not opened

A table that is more than a list of files (``plain_files.py``) is read by Spark. Held by
``tests/infra/delta/test_few_rows.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, eq, gt, le
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import lines_of, open_table
from rivermeet.infra.delta.plain_files import is_plain
from rivermeet.pipelines.expressions import quote

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {"==": eq, "<=": le, ">": gt}


@dataclass(frozen=True)
class Where:
    """A condition on a column, or a field of a struct: ``Where(("key", "id"), "==", 7)``; ``== None`` is null.

    ``in`` takes a list of whole numbers.
    """

    column: tuple[str, ...]
    is_: Literal["==", "<=", ">", "in"]
    value: Any

    def holds(self, schema: pa.Schema) -> pc.Expression:
        """The condition in the column's own type."""
        field = pc.field(*self.column)
        if self.value is None:
            return field.is_null()
        kind = _type(schema, self.column)
        if self.is_ == "in":
            return field.isin(pa.array(self.value, kind))
        return _COMPARE[self.is_](field, pa.scalar(self.value).cast(kind))

    def may_hold(self, files: pa.Table) -> pc.Expression | None:
        """Whether a file may have such rows, according to its statistics; None if they do not show it."""
        low, high = (f"{end}.{'.'.join(self.column)}" for end in ("min", "max"))
        if self.value is None or not {low, high} <= set(files.column_names):
            return None
        if self.is_ == "in":
            within = [Where(self.column, "<=", max(self.value)), Where(self.column, ">", min(self.value) - 1)]
            return reduce(and_, (found for one in within if (found := one.may_hold(files)) is not None))
        try:
            value = pa.scalar(self.value).cast(files.schema.field(low).type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        below = pc.field(low) <= value
        found = {"==": below & (pc.field(high) >= value), "<=": below, ">": pc.field(high) > value}[self.is_]
        return found | ~found.is_valid()


def few_rows(
    path: str, where: Sequence[Where], session: Callable[[], SparkSession], columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows for which all conditions hold, as in `rows_where`."""
    found = rows_where(path, where, session, columns)
    return [] if found is None else found.to_pylist()


def rows_where(
    path: str, where: Sequence[Where], session: Callable[[], SparkSession], columns: Sequence[str] | None = None
) -> pa.Table | None:
    """Rows for which all conditions hold, in any order; None if there is no table, or no such column.

    Parameters
    ----------
    columns
        Columns to read; None for all.
    session
        Opens the session for a table that Delta has to read.
    """
    table = open_table(path)
    if table is None:
        return None
    schema = pa.schema(table.schema().to_arrow())
    if any(_type(schema, one.column) is None for one in where):
        return None
    if not is_plain(table):
        return _by_spark(path, where, session, columns)

    def choose(files: pa.Table) -> pa.Table:
        conditions = [found for one in where if (found := one.may_hold(files)) is not None]
        return files.filter(reduce(and_, conditions)) if conditions else files

    try:
        wanted = reduce(and_, (one.holds(schema) for one in where)) if where else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a value that the column cannot have
        return None
    names = None if columns is None else [name for name in columns if name in schema.names]
    return lines_of(table, path, schema, choose).to_table(names, filter=wanted)


def _by_spark(
    path: str, where: Sequence[Where], session: Callable[[], SparkSession], columns: Sequence[str] | None
) -> pa.Table:
    frame = read(session(), path)
    for one in where:
        column = F.col(".".join(quote(name) for name in one.column))
        if one.value is None:
            frame = frame.where(column.isNull())
        elif one.is_ == "in":
            frame = frame.where(column.isin(one.value))
        else:
            frame = frame.where(_COMPARE[one.is_](column, F.lit(one.value)))
    names = frame.columns if columns is None else [name for name in columns if name in frame.columns]
    return frame.select(*(quote(name) for name in names)).toArrow()


def _type(schema: pa.Schema, column: tuple[str, ...]) -> pa.DataType | None:
    if column[0] not in schema.names:
        return None
    kind = schema.field(column[0]).type
    for name in column[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind
