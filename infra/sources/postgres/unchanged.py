"""Values that the log omits, fetched from the row's last value.

``body`` is a large value (TOAST), such as 'x…':

    own table     key 1   body x…
    the epoch     u  1 → n 5, body omitted             x…, from the node's own table
                  u  1 → body y…                       y…
                  d  1, i 2 → body omitted             y…, from the row formerly under key 1
                  i  1 → body z…
                  u  1 → n 6, body omitted             z…: not the row that now has key 2

A value column that is the plain column keeps the value. If there is none, or the node's table lacks the row (a dead
letter), the value is unknown, and the row is a dead letter. Held by ``tests/infra/sources/postgres/test_unchanged.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.infra.sources.postgres.rows import LINEAGE, OP
from rivermeet.pipelines import Source
from rivermeet.pipelines.expressions import quote
from rivermeet.records.changelog import field_names


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
        marked = marked.withColumn("own", F.lit(None))
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
    """The identifying columns of a row of the node's own table."""
    named = {e.sql: column for column, e in source.key.items()}
    return F.struct(*[F.col("key").getField(named[quote(name)]).alias(name) for name in source.postgres.key])
