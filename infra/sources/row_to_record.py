"""Converts a row of a source to a record, a dead letter, or nothing, by the declaration.

A row that is not a record has a reason, and does not affect other rows. Only an expression that fails when it is
evaluated (a division by zero, an overflow) fails the epoch, because Spark cannot catch it: write ``try_divide``,
``try_add``, ….
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.sources.declared_types import is_exact, not_a, value_as
from rivermeet.infra.sources.event_time import (
    as_instants,
    event_millis,
    is_timestamp,
    is_zone,
    needs_zone,
    out_of_bounds,
    validate_event_time,
    with_moment,
)
from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.pipelines import Expr, Source, limits
from rivermeet.pipelines.errors import SourceError
from rivermeet.pipelines.expressions import quote
from rivermeet.pipelines.sql_text import is_column
from rivermeet.records.type_text import kind_of

_UNDECLARED: Mapping[str, T.DataType] = {
    "where": T.BooleanType(),
    "tombstone": T.BooleanType(),
    "time_zone": T.StringType(),
}
"""Types of what a source need not declare: of the literal that stands for it."""
_CUT = f" (its text is cut to {limits.LETTER_WIDTH:,} characters)"


def to_records(rows: DataFrame, source: Source, partition: str | None = None, absent: str | None = None) -> DataFrame:
    """Add ``key value timestamp sequence excluded`` to every row, and ``reason`` and text to dead ones.

    Declared types come first, then ``where``, the tombstone, and the other expressions. Each step
    guards the next with CASE, because Spark may move a filter but not a branch (test: expressions
    see only rows that parsed).

    ``partition`` is a declared column with each row's partition, if it already has one. ``absent`` is a declared
    column, an array: if it is not empty, the row may still turn out to be dead, so the text and the column are kept.
    """
    # A row of a file can be read there later; rows of a topic, which may remove them, are kept completely.
    kept_whole = not source.reads.stays
    own = _prefix(source)
    named = [F.col(f"typed.t{i}").alias(name) for i, name in enumerate(source.reads.schema)]
    typed = rows.select(*named, F.struct(*LINE_COLUMNS, "instants", "malformed").alias(own))
    kinds = _kinds(typed, source)
    sound = F.isnull(f"{own}.malformed")
    asked = typed.select("*", (sound & _true(sound, source.where, True)).alias(f"{own}kept"))
    marked = asked.select("*", _true(F.col(f"{own}kept"), source.tombstone, False).alias(f"{own}gone"))
    kept, gone = F.col(f"{own}kept"), F.col(f"{own}gone")
    # Under a condition a literal would not be a constant, and be looked up for every row: a twelfth of the time
    # of a large file (tests/infra/sources/test_reading.py).
    given = source.time_zone
    zone = F.when(kept, F.expr(given.sql).cast("string")) if isinstance(given, Expr) else F.lit(given)
    timed = with_moment(marked, source, own, zone, kinds["timestamp"])
    instants = as_instants(source, own, zone)
    found = timed.select(
        F.col(own).alias("row"),
        kept.alias("kept"),
        gone.alias("gone"),
        _evaluate(source.key, kept, instants).alias("keys"),
        _evaluate(source.value, kept & ~gone, instants).alias("values"),
        _without_instant(source, gone, instants, zone).alias("timeless"),
        F.col(f"{own}moment").alias("moment"),
        F.col(f"{own}instant").alias("instant"),
        F.col(f"{own}doubtful").alias("doubtful"),
        zone.alias("zone"),
        *([F.col(partition).alias("partition")] if partition else ()),
        *([F.col(absent)] if absent else ()),
    )
    made = found.select(
        "*",
        _cast("keys", "key", source.key, kinds).alias("key"),
        _cast("values", "value", source.value, kinds).alias("new"),
        event_millis(F.col("moment"), kinds["timestamp"], F.col("zone"), F.col("instant")).alias("timestamp"),
    )
    reason = F.coalesce(F.col("row.malformed"), F.when(F.col("kept"), _record_problem(source, kinds)))
    may_be_dead = F.isnotnull("reason") if absent is None else F.isnotnull("reason") | (F.size(absent) > 0)
    return made.select("*", reason.alias("reason")).select(
        (F.isnull("row.malformed") & ~F.col("kept")).alias("excluded"),
        "key",
        F.when(~F.col("gone"), F.col("new")).alias("value"),
        "timestamp",
        F.struct("row.file_rank", "row.block", "row.row").alias("sequence"),
        F.when(F.isnull("row.member"), F.col("row.file"))
        .otherwise(F.concat("row.file", F.lit("!"), "row.member"))
        .alias("file"),
        "row.line",
        F.when(may_be_dead, F.col("row.text") if kept_whole else F.substring("row.text", 1, limits.LETTER_WIDTH)).alias(
            "text"
        ),
        F.when(may_be_dead, F.col("row.header")).alias("header"),
        "row.modified_ms",
        F.concat("reason", F.lit("") if kept_whole else _cut(F.col("row.text"))).alias("reason"),
        *(["partition"] if partition else ()),
        *([absent] if absent else ()),
    )


def is_cut(text: Column) -> Column:
    """Whether a dead letter has only the beginning of its row."""
    return F.coalesce(F.char_length(text) >= limits.LETTER_WIDTH, F.lit(False))


def _cut(text: Column) -> Column:
    return F.when(is_cut(text), _CUT).otherwise("")


def _prefix(source: Source) -> str:
    own = "row"
    while any(name.lower().startswith(own) for name in source.reads.schema):
        own += "_"
    return own


def _kinds(typed: DataFrame, source: Source) -> dict[str, T.DataType]:
    """Types of the source's expressions; ValueError in one line for one that Spark refuses.

    The declaration has the types of columns: the engine is asked for those of other expressions, in one request.
    """
    asked = {
        **{f"key column '{c}'": e.sql for c, e in source.key.items()},
        **{f"value column '{c}'": e.sql for c, e in source.value.items()},
        "timestamp": source.timestamp,
    }
    zone = source.time_zone.sql if isinstance(source.time_zone, Expr) else None
    may_be = {"where": source.where, "tombstone": source.tombstone, "time_zone": zone}
    asked |= {what: sql for what, sql in may_be.items() if sql}
    declared = {what: kind for what, sql in asked.items() if (kind := _find_declared(sql, source.reads.schema))}
    others = {what: sql for what, sql in asked.items() if what not in declared}
    found = {**_UNDECLARED, **declared}
    try:
        found |= zip(others, _types_of(typed, list(others.values())), strict=True)
    except AnalysisException:
        for what, sql in others.items():
            try:
                _types_of(typed, [sql])
            except AnalysisException as error:
                message = str(error).splitlines()[0]
                raise SourceError(f"{what} of the source is {sql!r}: {message}", option=what, sql=sql) from None
        raise
    validate_event_time(source.timestamp, found["timestamp"], source.timestamp_type)
    for what in ("where", "tombstone"):
        if not isinstance(found[what], T.BooleanType):
            says = f"{what} of the source is {asked[what]!r}, of type {found[what].simpleString()}; give a BOOLEAN"
            raise SourceError(says, option=what, sql=asked[what])
    return found


def _find_declared(sql: str, schema: Mapping[str, str]) -> T.DataType | None:
    """The type of a column alone; None for the engine to say."""
    return next((kind_of(kind) for name, kind in schema.items() if is_column(sql, name)), None)


def _types_of(frame: DataFrame, expressions: list[str]) -> list[T.DataType]:
    if not expressions:
        return []
    columns = [F.expr(sql).alias(f"e{i}") for i, sql in enumerate(expressions)]
    return [field.dataType for field in frame.select(*columns).schema]


def _true(guard: Column, sql: str | None, default: bool) -> Column:
    return F.lit(default) if sql is None else F.coalesce(F.when(guard, F.expr(sql)), F.lit(False))


def _evaluate(columns: Mapping[str, Expr], guard: Column, instants: Mapping[str, Column]) -> Column:
    made = [instants[column] if (column := _column(e, instants)) else F.expr(e.sql) for e in columns.values()]
    return F.struct(*[F.when(guard, value).alias(f"x{i}") for i, value in enumerate(made)])


def _column(made: Expr, instants: Mapping[str, Column]) -> str | None:
    """The TIMESTAMP column that a key or value copies."""
    if not is_timestamp(made.type):
        return None
    return next((name for name in instants if is_column(made.sql, name)), None)


def _without_instant(source: Source, gone: Column, instants: Mapping[str, Column], zone: Column) -> Column:
    """Why a key or value that is a local time has no instant."""
    problems = [F.lit(None).cast("string")]
    for what, columns in (("key", source.key), ("value", source.value)):
        for name, e in columns.items():
            if column := _column(e, instants):
                lost = F.isnotnull(quote(column)) & F.isnull(instants[column])
                beyond = f"{what} column '{name}' has a time that is beyond all timestamps"
                says = F.when(is_zone(zone), beyond).otherwise(
                    f"{what} column '{name}' has a time without an offset, and its time_zone is none"
                )
                problems.append(F.when(lost if what == "key" else lost & ~gone, says))
    return F.coalesce(*problems)


_Kinds = Mapping[str, T.DataType]
"""The name of each expression to its type."""


def _cast(struct: str, what: str, columns: Mapping[str, Expr], kinds: _Kinds) -> Column:
    """Text is converted like text of a file; computed values are cast, and rounded to their type."""
    made: list[Column] = []
    for i, (name, e) in enumerate(columns.items()):
        raw, wanted = F.col(f"{struct}.x{i}"), _of_text(f"{what} column '{name}'", e, kinds)
        made.append((value_as(raw, T.StringType(), wanted) if wanted else raw.try_cast(e.type)).alias(name))
    return F.struct(*made)


def _of_text(label: str, expression: Expr, kinds: _Kinds) -> T.DataType | None:
    """The type to which an expression's text is converted; None if it is not text, or stays text."""
    if not isinstance(kinds[label], T.StringType) or expression.type.upper() == "STRING":
        return None
    return kind_of(expression.type)


def _record_problem(source: Source, kinds: _Kinds) -> Column:
    problems = [F.col("timeless")]
    for what, columns, raw, cast in (
        ("key", source.key, "keys", "key"),
        ("value", source.value, "values", "new"),
    ):
        for i, (name, e) in enumerate(columns.items()):
            found, made = F.col(f"{raw}.x{i}"), F.col(cast).getField(name)
            label = f"{what} column '{name}'"
            wanted = _of_text(label, e, kinds)
            exact = None if wanted is None else is_exact(found, made, T.StringType(), wanted)
            bad = F.isnotnull(found) & F.isnull(made) if exact is None else ~exact
            problems.append(F.when(bad, not_a(label, found, e.type)))
            if what == "key":
                problems.append(F.when(F.isnull(made), F.lit(f"{label} is null")))
    zone = F.coalesce("zone", F.lit("NULL"))
    no_zone = F.concat(F.lit("no event time: '"), F.substring(zone, 1, limits.VALUE_WIDTH), F.lit("' is no time zone"))
    twice = (
        f"no event time: '{source.timestamp}' is a clock time that comes twice, of a value with an offset; give the "
        "column alone, or leave out time_zone"
    )
    if needs_zone(kinds["timestamp"]):
        problems.append(F.when(F.isnotnull("moment") & F.isnull("instant") & ~is_zone(zone), no_zone))
    problems.append(F.when(F.col("doubtful"), twice))
    problems.append(F.when(F.isnull("moment"), F.lit(f"no event time: '{source.timestamp}' gave null")))
    beyond = F.concat(F.lit("no event time: "), F.col("moment").cast("string"), F.lit(" is beyond all timestamps"))
    problems.append(F.when(F.isnull("timestamp"), beyond))
    return F.coalesce(*problems, *out_of_bounds(source, F.col("timestamp"), F.col("row.modified_ms")))


@dataclass(frozen=True)
class SourceFrames:
    """The parsed rows: each is a record, dead, or excluded by the source's ``where``.

    ``parsed`` has ``excluded``, ``reason`` (null except for dead rows) and all columns of `records` and `dead`. Persist
    it to count and write without parsing twice. ``count`` is None if it is unknown before they are computed.
    """

    parsed: DataFrame
    count: int | None = None

    @property
    def records(self) -> DataFrame:
        """Columns ``key value timestamp partition``, ``origin`` and ``sequence``, the order of arrival.

        ``origin`` STRUCT<file, line> is where a record came from, as in a dead letter: a file, and the line
        if it is known; or TOPIC/PARTITION and the offset.
        """
        good = self.parsed.where(F.isnull("reason") & ~F.col("excluded"))
        origin = F.struct("file", "line").alias("origin")
        return good.select("key", "value", "timestamp", "partition", origin, "sequence")

    @property
    def dead(self) -> DataFrame:
        """Dead letters: ``file``, ``line`` (null where not known), ``position``, ``text``, ``header`` and so on.

        ``position`` is the letter's place among those of its file, from 1; it is 0, and ``text`` null, if the file
        itself could not be read.
        """
        place = F.row_number().over(Window.partitionBy("file").orderBy("sequence"))
        dead = self.parsed.where(F.isnotnull("reason"))
        numbered = dead.select("*", F.when(F.isnull("text"), 0).otherwise(place).alias("position"))
        return numbered.select("file", "line", "position", "text", "header", "modified_ms", "reason")


def partition_of(key: Column, partitions: int) -> Column:
    """The partition of a key struct; the names of its columns do not matter."""
    return F.pmod(F.xxhash64(key), F.lit(partitions)).cast("int")
