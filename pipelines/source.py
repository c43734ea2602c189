"""Where the records of a stream or table come from, and how a row of a file becomes a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

FileFormat = Literal["csv", "json", "parquet"]


@dataclass(frozen=True)
class Expr:
    """A Spark SQL expression over a file's columns, with the type of its result."""

    sql: str
    type: str


def expr(sql: str, type: str) -> Expr:
    """An expression and its Spark SQL type, like ``expr("to_date(day)", "DATE")``."""
    return Expr(sql, type.upper())


@dataclass(frozen=True)
class Files:
    """Files that are each consumed once, in the order of their paths.

    Attributes
    ----------
    pattern
        Path or glob: relative to the data folder (setting ``RIVERMEET_DATA``), absolute, or any URL that Spark reads.
    format
        ``csv`` (plain, ``.gz`` or ``.zip``), ``json`` (one object a line) or ``parquet``.
    schema
        Column name to Spark SQL type. A file may have more columns, and in another order.
    null
        CSV: the text that stands for null besides the empty one, such as ``NA``.
    delimiter
        CSV: what separates the columns.
    """

    pattern: str
    format: FileFormat
    schema: Mapping[str, str]
    null: str | None = None
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.format not in get_args(FileFormat):
            raise ValueError(f"file format {self.format!r} is not one of {', '.join(get_args(FileFormat))}")
        if not self.schema:
            raise ValueError("the schema of a source is empty; give column names and Spark types")


@dataclass(frozen=True)
class Source:
    """How rows of files become records.

    Attributes
    ----------
    key, value
        Record column to the expression that gives it.
    timestamp
        Event time: an expression of type TIMESTAMP, or BIGINT epoch millis.
    time_zone
        Zone of the wall clock that ``timestamp`` was read from: a zone's name, or an expression that gives it per row.
    tombstone
        Boolean expression; where it is true the record's value is null.
    where
        Boolean expression; rows where it is not true are no records of this source (not dead either).
    max_bad_share
        Over this share of bad rows among an epoch's rows, the epoch is refused.
    """

    files: Files
    key: Mapping[str, Expr]
    value: Mapping[str, Expr]
    timestamp: str
    time_zone: str | Expr = "UTC"
    tombstone: str | None = None
    where: str | None = None
    max_bad_share: float = 0.01
