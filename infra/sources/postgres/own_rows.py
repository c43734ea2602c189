"""Rows of our own table before an epoch: what its changelog holds up to there, folded.

The folded table is a cache, so that any of its versions that is not ahead of the epoch gives the same rows: the newest
one is taken, and the changelog's records since. Held by ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from infra.delta.changelog_files import records
from infra.delta.io import notes, read
from infra.delta.layout import NodeTables
from infra.epochs.plan import EpochPlan, within
from records.changelog import RECORD, as_of, unflatten


def own_rows(spark: SparkSession, paths: NodeTables, plan: EpochPlan) -> DataFrame | None:
    """Live rows before a planned epoch, columns `RECORD`; None before the first of an incarnation."""
    if not plan.ends:
        return None
    tail = records(spark, paths.changelog, {}, plan.ends).select(*RECORD)
    for version, note in notes(paths.table):
        if note.incarnation == plan.incarnation and within(note.ends, plan.ends):
            key, value = (cast(StructType, tail.schema[column].dataType) for column in ("key", "value"))
            folded = unflatten(read(spark, paths.table, version), key, value)
            return as_of(folded, records(spark, paths.changelog, note.ends, plan.ends).select(*RECORD))
    return as_of(None, tail)
