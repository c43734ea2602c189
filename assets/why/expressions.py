"""What declared expressions give of records: columns are looked up, all else is asked of Spark where that may be.

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
    """Evaluates expressions over records' columns; ``session`` is None where Spark is not to be asked."""

    session: Callable[[], SparkSession] | None

    def of(self, asked: Mapping[str, Any], records: pa.Table) -> list[dict[str, Any]]:
        """What named expressions give of each record, whose columns they see."""
        columns = {name: _column(sql, records) for name, sql in asked.items()}
        others = {name: sql for name, sql in asked.items() if columns[name] is None}
        found = {name: records[column].to_pylist() for name, column in columns.items() if column is not None}
        if others and self.session is not None and all(isinstance(sql, str) for sql in others.values()):
            made = self.session().createDataFrame(records).selectExpr(*others.values()).toArrow()
            found |= {name: made[at].to_pylist() for at, name in enumerate(others)}
        else:
            found |= {name: [Unknown(str(sql))] * len(records) for name, sql in others.items()}
        return [{name: found[name][at] for name in asked} for at in range(len(records))]


def _column(sql: Any, records: pa.Table) -> str | None:
    """The column that an expression is, in whatever case; None where it is more than that."""
    match = _COLUMN.fullmatch(sql) if isinstance(sql, str) else None
    if match is None:
        return None
    wanted = (match[1].replace("``", "`") if match[1] else match[2]).lower()
    return next((name for name in records.column_names if name.lower() == wanted), None)
