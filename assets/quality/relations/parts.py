"""What relations are made of: files of a Delta table, files that an epoch has staged, and rows that only Spark has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.plain_files import read_files
from rivermeet.infra.delta.scan import Scan, scan
from rivermeet.infra.delta.scan_sql import quote_name, register_rows, rows_of
from rivermeet.infra.delta.staged import Staged
from rivermeet.pipelines.expressions import quote

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession


def shown_as(paths: NodeTables, table: str) -> str:
    """What ``rivermeet sql`` calls a table of a node."""
    return ".".join(quote_name(part) for part in (paths.pipeline, paths.node, table))


def located(sql: str, paths: NodeTables, rows: str) -> str:
    """A query that was made before its epoch was committed, over ``rows`` in place of the changelog as it was to be.

    What it names at a version is another one's rows, such as the node's earlier ones, and stays.
    """
    return re.sub(re.escape(shown_as(paths, "changelog")) + "(?! AT )", lambda _: rows, sql)


def at_version(name: str, version: int) -> str:
    """A table at a version, as ``rivermeet sql`` has it."""
    return f"{name} AT (VERSION => {version})"


@dataclass(frozen=True)
class TableRows:
    """Rows of a table at one version: those of at least the files that are ``chosen``.

    Attributes
    ----------
    path
        The table's folder or URL.
    name
        What ``rivermeet sql`` calls it.
    """

    path: str
    name: str
    version: int
    chosen: Callable[[pa.Table], pa.Table] = lambda files: files

    @classmethod
    def of(
        cls, paths: NodeTables, table: str, version: int, chosen: Callable[[pa.Table], pa.Table] = lambda files: files
    ) -> Self:
        """Rows of a node's table."""
        return cls(getattr(paths, table), shown_as(paths, table), version, chosen)

    @property
    def shown(self) -> str:
        """Its name, with the version."""
        return at_version(self.name, self.version)

    @property
    def in_spark(self) -> str:
        """The same by its path."""
        return f"delta.{quote(self.path)} VERSION AS OF {self.version}"

    @property
    def bytes(self) -> int:
        """Of the chosen files."""
        return self._scan.bytes

    def query(self, connection: DuckDBPyConnection) -> str:
        """DuckDB's query."""
        return rows_of(self._scan, connection)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Spark's frame."""
        rows = read_files(spark, self.path, self.version, self.chosen)
        return rows if rows is not None else read(spark, self.path, self.version)

    @cached_property
    def _scan(self) -> Scan:
        found = scan(self.path, self.version, self.chosen)
        assert found is not None, f"{self.path} is there"
        return found


@dataclass(frozen=True)
class StagedRows:
    """Rows of an epoch in files that no log names yet."""

    paths: NodeTables
    staged: Staged
    table: str = "changelog"

    @property
    def shown(self) -> str:
        """The table where they are going to be."""
        return shown_as(self.paths, self.table)

    @property
    def in_spark(self) -> str:
        """The same by its path."""
        return f"delta.{quote(getattr(self.paths, self.table))}"

    @property
    def bytes(self) -> int:
        """Of the files."""
        return sum(file.size for file in self.staged.files)

    def query(self, connection: DuckDBPyConnection) -> str:
        """DuckDB's query."""
        files = [file.path for file in self.staged.files]
        return rows_of(Scan(self.staged.table.rstrip("/"), files, self.staged.schema), connection)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Spark's frame."""
        from rivermeet.infra.delta.staged import read_staged

        return read_staged(self.staged, spark.range(0))


@dataclass(frozen=True)
class FrameRows:
    """Rows of an epoch that are in no file: such that Spark has to append."""

    paths: NodeTables
    table: str
    epoch: int
    rows: DataFrame

    @property
    def shown(self) -> str:
        """The table where they are going to be."""
        return f"(SELECT * FROM {shown_as(self.paths, self.table)} WHERE epoch = {self.epoch})"

    @property
    def in_spark(self) -> str:
        """The same by its path."""
        return f"(SELECT * FROM delta.{quote(getattr(self.paths, self.table))} WHERE epoch = {self.epoch})"

    @property
    def bytes(self) -> int:
        """Unknown."""
        return 0

    def query(self, connection: DuckDBPyConnection) -> str:
        """DuckDB's query."""
        return f"SELECT * FROM {register_rows(self.rows.toArrow(), connection)}"

    def frame(self, spark: SparkSession) -> DataFrame:
        """Spark's frame."""
        return self.rows
