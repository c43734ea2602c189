"""Rows of the node's own table before an epoch: the fold of its changelog.

The folded table is a cache, so every version that is not ahead of the epoch gives the same rows: the newest
one is used, with the changelog's records since. Held by ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rivermeet.infra.delta.changelog_files import records
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.plain_files import schema_at
from rivermeet.infra.epochs.inputs import pin_table
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.records.changelog import as_of, unflatten


def own_rows(spark: SparkSession, paths: NodeTables, plan: EpochPlan) -> DataFrame | None:
    """Live rows before a planned epoch, columns `RECORD`; None before the first of an incarnation."""
    if not plan.ends:
        return None
    version, ends = pin_table(paths.table, plan.ends, plan.incarnation)
    tail, folded = records(spark, paths.changelog, ends, plan.ends), None
    if version is not None:
        shape = schema_at(paths.changelog)
        key, value = (cast(StructType, shape[column].dataType) for column in ("key", "value"))
        folded = unflatten(read(spark, paths.table, version), key, value, schema_at(paths.table, version))
    return as_of(folded, tail)
