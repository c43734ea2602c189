"""What relations are made of: files of a Delta table or of an epoch, rows that only Spark has, and values in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from rivermeet.expectations.results import Part, Relation
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.plain_files import read_files
from rivermeet.infra.delta.scan import Scan, quote_name, register_rows, rows_of, scan
from rivermeet.infra.delta.staged import Staged, read_staged
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines.expressions import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql_name(paths: NodeTables, table: str) -> str:
    """What ``rivermeet sql`` calls a table of a node."""
    return ".".join(quote_name(part) for part in (paths.pipeline, paths.node, table))


def locate(sql: str, paths: NodeTables, rows: str) -> str:
    """A query made before its epoch was committed, over ``rows`` in place of the changelog.

    A table named at a version has other rows, such as the node's earlier ones, and stays.
    """
    return re.sub(re.escape(sql_name(paths, "changelog")) + "(?! AT )", lambda _: rows, sql)


def at_version(name: str, version: int) -> str:
    """A table at a version, as ``rivermeet sql`` has it."""
    return f"{name} AT (VERSION => {version})"


Chosen = Callable[[pa.Table], pa.Table]
"""Leaves those that are wanted of a table's files."""


def table_part(path: str, name: str, version: int, chosen: Chosen = lambda files: files) -> Part:
    """Rows of a table at one version, at least those of the files that are ``chosen``; shown under ``name``."""

    @cache
    def scan_table() -> Scan:
        found = scan(path, version, chosen)
        assert found is not None, f"{path} is there"
        return found

    def frame(spark: SparkSession) -> DataFrame:
        rows = read_files(spark, path, version, chosen)
        return rows if rows is not None else read(spark, path, version)

    return Part(
        at_version(name, version),
        f"delta.{quote(path)} VERSION AS OF {version}",
        lambda connection: rows_of(scan_table(), connection),
        frame,
        lambda: scan_table().bytes,
    )


def node_part(paths: NodeTables, table: str, version: int, chosen: Chosen = lambda files: files) -> Part:
    """Rows of a node's table."""
    return table_part(getattr(paths, table), sql_name(paths, table), version, chosen)


def part_of_staged(paths: NodeTables, staged: Staged, table: str = "changelog") -> Part:
    """Rows of an epoch in files that no log names yet, shown as rows of the table."""
    files = Scan(staged.table.rstrip("/"), [file.path for file in staged.files], staged.schema)
    return Part(
        sql_name(paths, table),
        f"delta.{quote(getattr(paths, table))}",
        lambda connection: rows_of(files, connection),
        lambda spark: read_staged(staged, spark.range(0)),
        lambda: sum(file.size for file in staged.files),
    )


def frame_part(paths: NodeTables, table: str, epoch: int, rows: DataFrame) -> Part:
    """Rows of an epoch that are in no file, because Spark has to append them."""
    return Part(
        f"(SELECT * FROM {sql_name(paths, table)} WHERE epoch = {epoch})",
        f"(SELECT * FROM delta.{quote(getattr(paths, table))} WHERE epoch = {epoch})",
        lambda connection: f"SELECT * FROM {register_rows(rows.toArrow(), connection)}",
        lambda spark: rows,
    )


def lines(columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> Relation:
    """A relation of a few values, each written as SQL."""
    kinds = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
    given = [*rows]
    values = ", ".join(f"({', '.join(map(str, row))})" for row in given or [["NULL"] * len(columns)])
    where = "" if given else " WHERE false"
    return Relation(f"SELECT {kinds} FROM VALUES {values} AS t({', '.join(columns)}){where}")


def bounds(plan: EpochPlan) -> Relation:
    """Where the epoch's offsets must start."""
    starts = [(partition, end + 1) for partition, end in plan.ends.items()]
    return lines({"partition": "INT", "first_offset": "BIGINT"}, starts)


def times(plan: EpochPlan) -> Relation:
    """Stream time (ms) before the epoch."""
    return lines({"partition": "INT", "stream_time": "BIGINT"}, plan.stream_time.items())
