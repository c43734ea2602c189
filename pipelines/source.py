"""The source of a stream or table, and how a row of a file, topic or table becomes a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal, TypeVar, get_args

from rivermeet.pipelines.errors import OptionError
from rivermeet.pipelines.expressions import Expr
from rivermeet.pipelines.reads.delta import DeltaTable
from rivermeet.pipelines.reads.kafka import Kafka
from rivermeet.pipelines.reads.postgres import Postgres
from rivermeet.pipelines.reads.reads import Reads, refuse_alike
from rivermeet.pipelines.window import duration_ms

_Reads = TypeVar("_Reads", bound=Reads)
FileFormat = Literal["csv", "json", "parquet"]
DuplicateFiles = Literal["dead_letter", "read"]
_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "BIGINT")
FIRST_INSTANT = "1970-01-01"
"""The earliest timestamp of Kafka."""


@dataclass(frozen=True)
class Files(Reads):
    """Files that are each consumed once, in the order of their paths.

    Attributes
    ----------
    pattern
        Path or glob: relative to the data folder (setting ``RIVERMEET_DATA``), absolute, or any URL that Spark reads.
        Files that Spark regards as hidden are ignored (``docs/guides/files.md``).
    format
        ``csv`` (plain, ``.gz`` or ``.zip``), ``json`` (one object a line) or ``parquet``.
    schema
        Column name to Spark SQL type. A file may have more columns, and in another order.
    null
        CSV: the text that means null in addition to the empty one, such as ``NA``.
    delimiter
        CSV: what separates the columns.
    """

    what: ClassVar[str] = "files"
    clock: ClassVar[str] = "its file was modified"
    stays: ClassVar[bool] = True
    pattern: str
    format: FileFormat
    schema: Mapping[str, str]
    null: str | None = None
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.format not in get_args(FileFormat):
            raise OptionError(f"file format {self.format!r} is not one of {', '.join(get_args(FileFormat))}")
        if not self.schema:
            raise OptionError("the schema of a source is empty; give column names and Spark types")
        refuse_alike(self.schema, f"the schema of files '{self.pattern}'")

    @property
    def label(self) -> str:
        """The pattern."""
        return f"files '{self.pattern}'"


@dataclass(frozen=True)
class Source:
    """How rows of files, of a topic, or of a table of Delta's or PostgreSQL's become records.

    Attributes
    ----------
    reads
        The files, the topic or the table.
    key, value
        Record column to the expression that gives it.
    timestamp
        Event time: an expression of type TIMESTAMP, or BIGINT epoch millis.
    time_zone
        Zone of local times, in event time and in TIMESTAMP columns that are keys or values: a zone's name, or an
        expression that gives it per row. It does not affect values with an offset, or columns of instants.
    tombstone
        Boolean expression; if it is true, the record's value is null.
    where
        Boolean expression; rows for which it is not true are neither records of this source nor dead letters.
    max_bad_share
        An epoch with a larger share of bad rows is refused.
    not_before, not_after
        Bounds of event time, themselves allowed: an ISO date (its first instant) or timestamp, in UTC. A record outside
        is a dead letter; None is no bound.
    max_ahead
        Duration: event time may be at most so far after the modification time of the record's file, or after the
        timestamp that Kafka, or the commit of a table, has of it. One bad clock in
        the year 9999 would close every window, and make all later records late.
    duplicate_files
        Treatment of a file with the same bytes as an earlier one: a dead letter, or read like any other.
    timestamp_type
        The type that ``timestamp`` was declared with; None: it has any type that says a time.
    """

    reads: Reads
    key: Mapping[str, Expr]
    value: Mapping[str, Expr]
    timestamp: str
    time_zone: str | Expr = "UTC"
    tombstone: str | None = None
    where: str | None = None
    max_bad_share: float = 0.01
    not_before: str | None = FIRST_INSTANT
    not_after: str | None = None
    max_ahead: str | int | None = None
    duplicate_files: DuplicateFiles = "dead_letter"
    timestamp_type: str | None = None

    def __post_init__(self) -> None:
        bounds = {name: instant_ms(name, text) for name in _BOUNDS if (text := getattr(self, name)) is not None}
        if len(bounds) == 2 and bounds["not_before"] > bounds["not_after"]:
            raise OptionError(
                f"not_before={self.not_before} is after not_after={self.not_after}, so no record could pass; swap them"
            )
        if self.max_ahead is not None:
            try:
                ahead = duration_ms(self.max_ahead)
            except ValueError as error:
                raise OptionError(f"max_ahead: {error}") from None
            if ahead < 0:
                raise OptionError(f"max_ahead is {ahead} ms; make it 0 or more")
        if not 0 <= self.max_bad_share <= 1:
            raise OptionError(f"max_bad_share is {self.max_bad_share}; give a share between 0 and 1")
        kind = self.timestamp_type
        if kind is not None and kind not in _TIMES:
            raise OptionError(f"timestamp is an expression of type {kind}; give one of {', '.join(_TIMES)}")
        if self.duplicate_files not in get_args(DuplicateFiles):
            choices = ", ".join(get_args(DuplicateFiles))
            raise OptionError(f"duplicate_files {self.duplicate_files!r} is not one of {choices}")

    @property
    def files(self) -> Files:
        """The files that are read; TypeError for another kind."""
        return self._reads_as(Files, "files")

    @property
    def topic(self) -> Kafka:
        """The topic that is read; TypeError for another kind."""
        return self._reads_as(Kafka, "topic")

    @property
    def delta(self) -> DeltaTable:
        """The Delta table that is read; TypeError for another kind."""
        return self._reads_as(DeltaTable, "Delta table")

    @property
    def postgres(self) -> Postgres:
        """The table of PostgreSQL that is read."""
        return self._reads_as(Postgres, "table of PostgreSQL")

    def _reads_as(self, kind: type[_Reads], what: str) -> _Reads:
        if not isinstance(self.reads, kind):
            raise TypeError(f"a source of {self.reads.label} reads no {what}")
        return self.reads


_BOUNDS = ("not_before", "not_after")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_ms(option: str, text: str) -> int:
    """Epoch millis of an ISO date or timestamp; one without a zone is in UTC.

    Examples
    --------
    >>> instant_ms("not_after", "1970-01-02")
    86400000
    >>> instant_ms("not_after", "1970-01-01T01:00:00+01:00")
    0
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise OptionError(
            f"{option} is {text!r}, no ISO date or timestamp; write one in UTC, like '2030-12-31' or '2030-12-31T12:00'"
        ) from None
    utc = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (utc - _EPOCH) // timedelta(milliseconds=1)
