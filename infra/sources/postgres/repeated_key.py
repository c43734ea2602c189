"""Finds a key that two rows of a table have at the same time, one of which would be lost.

| a row gets a key | the key is repeated |
|---|---|
| in a snapshot, and so does another | yes |
| by an insert, or an update of its key; the last change of the epoch before left a row there | yes |
| by the same, first of the epoch; our own table has a row there | yes |
| after a delete, an update of that row's key, or a truncate | no |

Keys are compared in the declared type: texts '1' and '01' are the same INT. If the database guarantees unique keys, and
the types preserve that, there is no check (``infra/postgres/unique.py``). Held by
``tests/infra/sources/postgres/test_repeated_key.py``.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.infra.sources.postgres.rows import OP, decode_landed
from rivermeet.pipelines import Postgres


def find_repeated_key(landed: DataFrame, reads: Postgres, own: DataFrame | None) -> str | None:
    """A repeated key, as JSON; None if there is none.

    ``landed`` are the rows of an epoch as they were read, and ``own`` those of the node's own table before it, by the
    identifying columns; None if there are none, or not needed.
    """
    texts = {at: f"c{list(reads.columns).index(name)}" for at, name in enumerate(reads.key)}
    place = [name for name in landed.columns if not name.startswith("c") or not name[1:].isdigit()]
    keys = landed.select(*place, *[F.col(text).alias(f"c{at}") for at, text in texts.items()])
    rows = decode_landed(keys, replace(reads, schema=reads.key_columns))
    named = F.struct(*[F.col(f"typed.t{at}").alias(name) for at, name in enumerate(reads.key)])
    op = F.col(f"typed.t{len(reads.key) + OP}")
    events = rows.where(F.isnull("malformed")).select(
        named.alias("key"), op.alias("op"), F.struct("file_rank", "block", "row").alias("place")
    )
    events = events.where(F.forall(F.array(*[F.isnotnull(f"key.{name}") for name in reads.key]), lambda there: there))
    before = F.lag(F.struct("op", "place")).over(Window.partitionBy("key").orderBy("place"))
    asked = events.withColumn("before", before).where(F.col("op").isin("i", "r"))
    left = (F.col("before.op") != "d") & (F.col("before.place.file_rank") == F.col("place.file_rank"))
    found = asked.where(left).select("key")
    if own is not None:
        first = asked.where(F.isnull("before") & (F.col("place.file_rank") == 0)).select("key")
        found = found.unionByName(first.join(own.select("key"), "key", "left_semi"))
    shown = found.select(F.to_json("key").alias("key")).limit(1).collect()
    return shown[0].key if shown else None
