"""Relations that are read from Delta or written out as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from expectations.results import Relation
from infra.delta.io import quoted, read
from infra.epochs.plan import EpochPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bounds(spark: SparkSession, plan: EpochPlan) -> Relation:
    """Where the epoch's offsets must start."""
    sql = bounds_sql(plan)
    return Relation(spark.sql(f"SELECT * FROM {sql}"), sql)


def bounds_sql(plan: EpochPlan) -> str:
    """SQL of these places."""
    starts = [(partition, end + 1) for partition, end in plan.ends.items()]
    return lines_sql({"partition": "INT", "first_offset": "BIGINT"}, starts)


def lines(spark: SparkSession, columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> Relation:
    """A relation of a few values, each written as SQL."""
    sql = lines_sql(columns, rows)
    return Relation(spark.sql(f"SELECT * FROM {sql}"), sql)


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
