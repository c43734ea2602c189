"""The wait of stream records before a versioned table is looked up: until the stream is ``grace`` ms further.

With O the highest timestamp of the partition's stream records so far (those with a value and a key to look up), and
grace g:

- ``x.timestamp < O - g``: x is late and looked up at once.
- Otherwise x waits, and then raises O. All that wait with ``timestamp <= O - g`` leave: by timestamp, key and arrival.
- Who leaves is looked up at its own timestamp, in the table as it is then; the record that raised O is the trigger.

g = 5:

    left  k A@10       waits
    left  k B@4        late (4 < 10 - 5): looked up at once
    right k a@8
    left  k C@15       A leaves (10 <= 15 - 5): A-a @10, though a came after A

Who waits before an epoch follows from O: the accepted records with ``timestamp > O - g``.

Source: KIP-923, released Kafka Streams 4.x. Held by ``tests/joins/stream_table/test_recorded.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochInputs
from rivermeet.joins.order import before_here, stream_time_at_start
from rivermeet.joins.stream_table.lookups import at_once
from rivermeet.joins.tables.as_of import first_to_reach


def release_waiting(accepted: DataFrame, waiting: DataFrame, inputs: EpochInputs, grace: int) -> DataFrame:
    """Records that are looked up in this epoch, with ``at`` and ``moved_by``: order and offset of what released them.

    Parameters
    ----------
    accepted
        The epoch's stream records with a value and a key to look up.
    waiting
        Those of earlier epochs that may still wait; their ``order`` is NULL.
    """
    earlier = before_here(Window.partitionBy("partition").orderBy("order"))
    before = F.greatest(F.max("timestamp").over(earlier), stream_time_at_start(inputs))
    timed = inputs.keep(inputs.numbers(accepted, table_grace=grace).select("*", before.alias("before")))
    # A record that is exactly g behind waits no longer than a late one: O has been reached already.
    passed = F.coalesce(F.col("before") >= F.col("timestamp") + F.col("table_grace"), F.lit(False))
    late = at_once(timed.where(passed))
    still = inputs.numbers(waiting, table_grace=grace)
    # Where declarations are run together, the slack is the longest of them.
    still = still.where(F.col("timestamp") + F.col("table_grace") > stream_time_at_start(inputs))
    wait = timed.where(~passed).drop("before").unionByName(still)
    steps = timed.where(F.col("before").isNull() | (F.col("timestamp") > F.col("before"))).select(
        "partition", F.col("timestamp").alias("time"), F.struct("order", "offset").alias("step")
    )
    leaves = wait.select(
        "partition", (F.col("timestamp") + F.col("table_grace")).alias("time"), F.struct("*").alias("waiting")
    )
    left = first_to_reach(steps, leaves, "waiting.offset").select(
        "waiting.*", F.col("step.order").alias("at"), F.col("step.offset").alias("moved_by")
    )
    return late.select(*left.columns).unionByName(left).drop("table_grace")
