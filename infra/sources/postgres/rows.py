r"""Landed rows as rows of a source: declared columns with their types, or why a row has none.

    id 1, amount 9.50, DECIMAL(10,2)      typed: id 1, amount 9.50, pg_op i, pg_commit_lsn 900, …
    id 1, amount 9.505                    malformed: column 'amount': '9.505' is not DECIMAL(10,2)
    id 1, at infinity, TIMESTAMP          malformed: column 'at': 'infinity' is not TIMESTAMP
    id 1, body \x00ff, BINARY             typed: two bytes

In a row's dead letter, ``file`` is DATABASE.SCHEMA.TABLE, ``line`` the position of its commit, ``text`` the columns
as printed by the database, in JSON, and ``header`` the rest.

A value that the log omits is the row's last one. ``body`` is a large value (TOAST), such as 'x…':

    own table     key 1   body x…
    the epoch     u  1 → n 5, body omitted             x…, from the node's own table
                  u  1 → body y…                       y…
                  d  1, i 2 → body omitted             y…, from the row formerly under key 1
                  i  1 → body z…
                  u  1 → n 6, body omitted             z…: not the row that now has key 2

A value column that is the plain column keeps the value. If there is none, or the node's table lacks the row (a dead
letter), the value is unknown, and the row is a dead letter.

A truncate has tombstones for the rows of the node's own table and the earlier rows of the epoch:

    own table   a, b             the epoch   i c, d a, TRUNCATE, i d, TRUNCATE, i e
    tombstones at the first truncate for b and c, at the second for d; e remains

They take the truncate's place in the order, by their keys, and the time of its commit. Held by
``tests/infra/sources/postgres/test_types.py``, ``test_unchanged.py`` and ``test_reading.py`` beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.sources.declared_types import declare, no_text, not_a
from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.infra.sources.postgres.changes import Emptied
from rivermeet.pipelines import Postgres, Source
from rivermeet.pipelines.expressions import quote
from rivermeet.records.changelog import field_names
from rivermeet.records.type_text import type_text

OP = 3
"""Place of ``pg_op`` among the columns that each record has."""
LINEAGE: Mapping[str, str] = {
    "unchanged": "ARRAY<INT>",
    "earlier_key": "ARRAY<STRING>",
    "branch": "INT",
}
"""Columns of `typed` after those of the source, by which omitted values are filled in."""


def decode_landed(landed: DataFrame, reads: Postgres, lineage: bool = False) -> DataFrame:
    """The result of `as_declared` for landed rows; with ``lineage``, ``typed`` has the columns of `LINEAGE` as well."""
    columns: dict[str, Column] = {}
    problems: list[Column] = []
    for at, (name, kind) in enumerate(reads.columns.items()):
        text = F.col(f"c{at}")
        columns[name] = F.unhex(F.substring(text, 3, 2**31 - 1)) if kind.upper() == "BINARY" else text
        if kind.upper() == "BINARY":
            problems.append(F.when(~F.startswith(text, F.lit("\\x")), not_a(f"column '{name}'", text, kind)))
    columns |= {
        "pg_commit_lsn": F.col("lsn"),
        "pg_commit_timestamp": F.col("timestamp"),
        "pg_xid": F.col("xid"),
        "pg_op": F.col("op"),
        "pg_tombstone": F.col("op") == "d",
    }
    kinds = dict(reads.schema)
    if lineage:
        columns |= {name: F.col(name) for name in LINEAGE}
        kinds |= LINEAGE
    shown = F.struct(*[F.col(f"c{at}").alias(name) for at, name in enumerate(reads.columns)])
    return declare(
        landed,
        kinds,
        [columns[name] for name in kinds],
        F.coalesce(*problems, no_text()),
        file=F.lit(reads.table),
        modified_ms=F.col("timestamp"),
        member=no_text(),
        line=F.col("lsn"),
        text=F.to_json(shown, {"ignoreNullFields": "false"}),
        header=F.to_json(F.struct("op", "lsn", "timestamp", "xid", "unchanged")),
    )


def fill_unchanged(rows: DataFrame, source: Source, columns: Collection[int], own: DataFrame | None) -> DataFrame:
    """The result of `landed_rows`, which has `LINEAGE`, without it, and with omitted values of these columns filled in.

    ``own`` are the rows of the node's own table before the epoch, with key and value.
    """
    reads = source.postgres
    places = {name: at for at, name in enumerate([*reads.schema, *LINEAGE])}
    left_out, earlier, branch = (F.col(f"typed.t{places[name]}") for name in LINEAGE)
    mine = [F.col(f"typed.t{places[name]}") for name in reads.key]
    root = F.struct(
        *[
            F.when(F.isnull(earlier), own_key).otherwise(earlier[at].try_cast(reads.schema[name])).alias(name)
            for at, (name, own_key) in enumerate(zip(reads.key, mine, strict=True))
        ]
    )
    marked = rows.select("*", root.alias("root"), branch.alias("branch"), left_out.alias("left_out"))
    # The node's own table does not have a newly declared column yet.
    there = field_names(own, "value") if own is not None else ()
    kept = {at: column for at, column in _find_kept(source, columns).items() if column in there}
    if own is not None and kept:
        values = F.struct(*[F.struct(F.col("value").getField(v).alias("v")).alias(f"k{at}") for at, v in kept.items()])
        known = own.select(_key_of(source).alias("own_root"), values.alias("own"))
        # A key that was left and used again has no value from the node's own table.
        marked = marked.join(known, (F.col("root") == F.col("own_root")) & (F.col("branch") == 0), "left")
    else:
        marked = marked.select("*", F.lit(None).alias("own"))
    before = Window.partitionBy("root", "branch").orderBy("file_rank", "block", "row")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    named = {at: name for at, name in enumerate(reads.columns)}
    found: dict[int, Column] = {}
    for at in columns:
        is_left_out = F.array_contains(F.coalesce("left_out", F.expr("CAST(array() AS ARRAY<INT>)")), at)
        is_written = ~is_left_out & (F.col(f"typed.t{len(reads.columns) + OP}") != "d")
        written = F.last(F.when(is_written, F.struct(F.col(f"typed.t{at}").alias("v"))), ignorenulls=True).over(before)
        of_table = F.col(f"own.k{at}") if own is not None and at in kept else F.lit(None)
        found[at] = F.when(is_left_out, F.coalesce(written, of_table)).otherwise(
            F.struct(F.col(f"typed.t{at}").alias("v"))
        )
    asked = marked.select("*", *[value.alias(f"f{at}") for at, value in found.items()])
    reasons = [
        F.when(
            F.isnull(f"f{at}"),
            f"column '{named[at]}' was not changed, so that the log leaves it out, and no record has it: declare it as "
            "a value column, or ALTER TABLE … REPLICA IDENTITY FULL, and read the whole table again",
        )
        for at in found
    ]
    typed = F.struct(
        *[
            (F.col(f"f{at}.v") if at in found else F.col(f"typed.t{at}")).alias(f"t{at}")
            for at in range(len(reads.schema))
        ]
    )
    return asked.select(
        *LINE_COLUMNS, typed.alias("typed"), "instants", F.coalesce("malformed", *reasons).alias("malformed")
    )


def _find_kept(source: Source, columns: Collection[int]) -> Mapping[int, str]:
    """Number of each column to the value column that is the plain column."""
    names = list(source.postgres.columns)
    plain = {e.sql: column for column, e in source.value.items()}
    found = {at: plain.get(quote(names[at]), plain.get(names[at])) for at in columns}
    return {at: column for at, column in found.items() if column is not None}


def _key_of(source: Source) -> Column:
    named = {e.sql: column for column, e in source.key.items()}
    return F.struct(*[F.col("key").getField(named[quote(name)]).alias(name) for name in source.postgres.key])


def with_emptied(records: DataFrame, own: DataFrame | None, emptied: Sequence[Emptied], table: str) -> DataFrame:
    """An epoch's records with the tombstones of its truncates; ``table`` is the origin of the tombstones.

    ``sequence.file_rank`` of a record is twice the number of truncates before it. ``own`` are the rows of the node's
    own table before the epoch.
    """
    if not emptied:
        return records
    rank = F.col("sequence.file_rank")
    live = F.isnotnull("value").alias("live")
    lives = records.select("key", live, "partition", rank.alias("rank"), "sequence")
    if own is not None:
        first = F.struct(
            F.lit(-1).alias("file_rank"), F.lit(0).cast("bigint").alias("block"), F.lit(0).cast("bigint").alias("row")
        )
        lives = own.select("key", live, "partition", F.lit(0).alias("rank"), first.alias("sequence")).unionByName(lives)
    last = F.max_by(F.struct("live", "partition"), F.col("sequence")).alias("last")
    ended = lives.where(F.col("rank") < 2 * len(emptied)).groupBy("key", "rank").agg(last).where("last.live")
    times = F.create_map(*[F.lit(part) for one in emptied for part in (one.file_rank, one.timestamp)])
    commits = F.create_map(*[F.lit(part) for one in emptied for part in (one.file_rank, one.lsn)])
    origin = F.struct(F.lit(table).alias("file"), commits[F.col("rank") + 1].cast("bigint").alias("line"))
    number = F.row_number().over(Window.partitionBy("rank").orderBy("key")).cast("bigint")
    place = F.struct(
        (F.col("rank") + 1).cast("int").alias("file_rank"), F.lit(0).cast("bigint").alias("block"), number.alias("row")
    )
    kind = type_text(records.schema["value"].dataType)
    tombstones = ended.select(
        "key",
        F.lit(None).cast(kind).alias("value"),
        times[F.col("rank") + 1].cast("bigint").alias("timestamp"),
        F.col("last.partition").alias("partition"),
        origin.alias("origin"),
        place.alias("sequence"),
    )
    return records.unionByName(tombstones)
