"""select_key: a stream's records under another key, in the partition of that key.

``key`` gives each key column as SQL over the record's key and value columns, cast to its type. A key with any
column is null is null, and its record is in partition 0. ``{"place": expr("city", "STRING")}``:

    o1 {city: Rome}      Rome {city: Rome}      partition of Rome
    o2 {city: Oslo}      Oslo {city: Oslo}      partition of Oslo
    o3 {city: NULL}      -    {city: NULL}      partition 0
    o4 NULL              -    NULL              partition 0

Records of several partitions meet in one: there they are in the processing order of their epoch. The partition is
that which sources give the same key (``infra/sources/row_to_record.py``), so that both can be joined.

Source: released Kafka Streams 4.x, ``KStream.selectKey`` with ``repartition``. Held by
``tests/joins/stateless/test_stateless.py``.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.stateless.one_input import add_expressions, build_rows, read_nothing
from rivermeet.pipelines import SelectKey

READS_ONCE = True
state = read_nothing


def compute(operation: SelectKey, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`; the trigger has the record's own partition and offset."""
    sql = {column: f"CAST(({e.sql}) AS {e.type})" for column, e in operation.key.items()}
    keyed = add_expressions(inputs.left, sql, "__key")
    whole = reduce(and_, (F.col("__key").getField(column).isNotNull() for column in operation.key))
    key = F.when(whole, F.col("__key"))
    partition = F.when(whole, partition_of(F.col("__key"), operation.partitions)).otherwise(F.lit(0))
    return EpochFrames(build_rows(keyed, key=key, partition=partition))


def partition_of(key: Column, partitions: int) -> Column:
    """The partition of a key struct; the names of its columns do not matter."""
    return F.pmod(F.xxhash64(key), F.lit(partitions)).cast("int")
