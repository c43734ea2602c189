"""map_values: the same records with another value; a null value stays null.

``select`` is output column to SQL over the record's key and value columns. ``{"twice": "n * 2"}``:

    a {n: 1}      a {twice: 2}
    b NULL        b NULL
    a {n: 3}      a {twice: 6}
    - {n: 4}      - {twice: 8}

Source: released Kafka Streams 4.x, ``KTable.mapValues``; of a stream Kafka hands a null value to the mapper, here it
stays null as it does in a table. Held by ``tests/joins/test_stateless.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.stateless.one_input import result_rows, with_expressions
from rivermeet.pipelines import MapValues

READS_ONCE = True


def state(join: MapValues) -> StateRead:
    """Nothing."""
    return {}


def compute(join: MapValues, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    select = {column: e for column, e in join.select.items() if isinstance(e, str)}
    mapped = with_expressions(inputs.left, select, "__mapped", where="__row.value IS NOT NULL")
    return EpochFrames(result_rows(mapped, value=F.col("__mapped")))
