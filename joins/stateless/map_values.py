"""map_values: the same records with another value; a null value stays null.

``select`` is output column to SQL over the record's key and value columns. ``{"twice": "n * 2"}``:

    a {n: 1}      a {twice: 2}
    b NULL        b NULL
    a {n: 3}      a {twice: 6}
    - {n: 4}      - {twice: 8}

Source: released Kafka Streams 4.x, ``KTable.mapValues``; of a stream Kafka hands a null value to the mapper, here it
stays null as it does in a table. Held by ``tests/joins/stateless/test_stateless.py``.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from rivermeet.joins.operator import EpochFrames, EpochInputs
from rivermeet.joins.stateless.one_input import add_expressions, build_rows, read_nothing
from rivermeet.pipelines import MapValues

READS_ONCE = True
state = read_nothing


def compute(operation: MapValues, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    select = {column: e for column, e in operation.select.items() if isinstance(e, str)}
    mapped = add_expressions(inputs.left, select, "__mapped", where="__row.value IS NOT NULL")
    return EpochFrames(build_rows(mapped, value=F.col("__mapped")))
