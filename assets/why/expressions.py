"""What declared expressions give of one record: columns are looked up, all else is asked of Spark where that may be.

    tail_number              the record's own column
    `tail_number`            the same
    concat(carrier, flight)  evaluated by the engine with --engine, else unknown

Held by ``tests/assets/why/test_expressions.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rivermeet.joins.why.evidence import Unknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*))\s*")


@dataclass(frozen=True)
class Expressions:
    """Evaluates expressions over a record's columns; ``session`` is None where Spark is not to be asked."""

    session: Callable[[], SparkSession] | None

    def key(self, mapper: Mapping[str, str], record: pa.Table) -> Mapping[str, Any] | Unknown | None:
        """The key that a mapper gives of a record; None where any part of it is null.

        Parameters
        ----------
        record
            One row: the columns that the expressions see.
        """
        columns = {name: _column(sql, record) for name, sql in mapper.items()}
        if None in columns.values():
            if self.session is None:
                return Unknown(", ".join(mapper.values()))
            row = self.session().createDataFrame(record).selectExpr(*mapper.values()).toArrow().to_pylist()[0]
            values = dict(zip(mapper, row.values(), strict=True))
        else:
            values = {name: record[column][0].as_py() for name, column in columns.items() if column is not None}
        return None if None in values.values() else values


def _column(sql: str, record: pa.Table) -> str | None:
    """The column that an expression is, in whatever case; None where it is more than that."""
    match = _COLUMN.fullmatch(sql)
    if match is None:
        return None
    wanted = (match[1].replace("``", "`") if match[1] else match[2]).lower()
    return next((name for name in record.column_names if name.lower() == wanted), None)
