"""Relations that are read from Delta or written out as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from expectations.results import Relation
from infra.delta.io import read
from infra.epochs.plan import EpochPlan
from pipelines.source import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bounds(spark: SparkSession, plan: EpochPlan) -> Relation:
    """Where the epoch's offsets must start."""
    return lines(spark, _BOUNDS, _starts(plan))


def bounds_sql(plan: EpochPlan) -> str:
    """SQL of these places."""
    return lines_sql(_BOUNDS, _starts(plan))


_BOUNDS = {"partition": "INT", "first_offset": "BIGINT"}


def _starts(plan: EpochPlan) -> list[tuple[int, int]]:
    return [(partition, end + 1) for partition, end in plan.ends.items()]


def lines(spark: SparkSession, columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> Relation:
    """A relation of a few values, each written as SQL; the engine is not asked, as it is for the frame of a query."""
    from pyspark.sql import functions as F

    rows = list(rows)
    values = ", ".join(_struct(columns, row) for row in rows or [("NULL",) * len(columns)])
    frame = spark.range(1).select(F.expr(f"inline(array({values}))"))
    return Relation(frame if rows else frame.where("false"), lines_sql(columns, rows))


def _struct(columns: Mapping[str, str], row: tuple[object, ...]) -> str:
    parts = zip(row, columns.items(), strict=True)
    return f"struct({', '.join(f'CAST({value} AS {kind}) AS {name}' for value, (name, kind) in parts)})"


def lines_sql(columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> str:
    """A subquery of a few values, each written as SQL."""
    kinds = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
    values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
    found = f"VALUES {values} AS t({', '.join(columns)})" if values else ""
    nothing = f"SELECT {', '.join(f'NULL AS {name}' for name in columns)}"
    return f"(SELECT {kinds} FROM {found})" if found else f"(SELECT {kinds} FROM ({nothing}) WHERE false)"


def at_version(spark: SparkSession, path: str, version: int, where: str = "true") -> Relation:
    """Rows of a Delta table at one version."""
    return Relation(read(spark, path, version).where(where), version_sql(path, version, where))


def version_sql(path: str, version: int, where: str = "true") -> str:
    """SQL of these rows."""
    return f"(SELECT * FROM delta.{quoted(path)} VERSION AS OF {version} WHERE {where})"
