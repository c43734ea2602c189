"""Values that the log leaves out, fetched from where the row had them last.

``body`` lies out of line; 'x…' is long:

    own table     key 1   body x…
    the epoch     u  1 → n 5, body left out            x…, of our own table
                  u  1 → body y…                       y…
                  d  1, i 2 → body left out            y…, of the row under key 1 before
                  i  1 → body z…
                  u  1 → n 6, body left out            z…: it is another row than the one that has key 2 now

A value column that is the column itself keeps the value. Where none does, or our table lacks the row (a dead letter),
the value is not known, and the row is a dead letter. Held by ``tests/infra/sources/postgres/test_unchanged.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.infra.sources.postgres.rows import LINEAGE
from rivermeet.pipelines import Source
from rivermeet.pipelines.expressions import quoted
from rivermeet.records.changelog import field_names


def filled(rows: DataFrame, source: Source, columns: Collection[int], own: DataFrame | None) -> DataFrame:
    """Give what `landed_rows` gives without `LINEAGE`, with the values of these columns where they are left out.

    Parameters
    ----------
    rows
        From `landed_rows`, with `LINEAGE`.
    own
        Rows of our own table before the epoch, with key and value.
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
    # A column that is declared since then is none of our own table yet.
    there = field_names(own, "value") if own is not None else ()
    kept = {at: column for at, column in _kept(source, columns).items() if column in there}
    if own is not None and kept:
        values = F.struct(*[F.struct(F.col("value").getField(v).alias("v")).alias(f"k{at}") for at, v in kept.items()])
        known = own.select(_key_of(source).alias("own_root"), values.alias("own"))
        # What was left and came again has nothing of our own table.
        marked = marked.join(known, (F.col("root") == F.col("own_root")) & (F.col("branch") == 0), "left")
    else:
        marked = marked.withColumn("own", F.lit(None))
    before = Window.partitionBy("root", "branch").orderBy("file_rank", "block", "row")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    named = {at: name for at, name in enumerate(reads.columns)}
    found: dict[int, Column] = {}
    for at in columns:
        is_left_out = F.array_contains(F.coalesce("left_out", F.expr("CAST(array() AS ARRAY<INT>)")), at)
        is_written = ~is_left_out & (F.col(f"typed.t{len(reads.columns) + _OP}") != "d")
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


_OP = 3
"""Place of ``pg_op`` among the columns that each record has."""


def _kept(source: Source, columns: Collection[int]) -> Mapping[int, str]:
    """Number of each column to the value column that is the column itself."""
    names = list(source.postgres.columns)
    plain = {e.sql: column for column, e in source.value.items()}
    found = {at: plain.get(quoted(names[at]), plain.get(names[at])) for at in columns}
    return {at: column for at, column in found.items() if column is not None}


def _key_of(source: Source) -> Column:
    """The identifying columns of a row of our own table."""
    named = {e.sql: column for column, e in source.key.items()}
    return F.struct(*[F.col("key").getField(named[quoted(name)]).alias(name) for name in source.postgres.key])
