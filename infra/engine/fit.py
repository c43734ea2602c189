"""Fits a session to an epoch: whether Spark compiles its queries, and how many partitions a shuffle has.

Queries that read few rows are not compiled.

An epoch has some twenty queries, each with classes of its own that are generated, compiled and first run cold. On a few
thousand rows that takes longer than to interpret them; on a million it is well spent.

    ten nodes of some 3,000 rows       interpreted
    10,000 changes of a million rows   compiled

What an operator reads its offsets say, and what a source has landed is counted; of files that the engine reads, and of
versions of a Delta table, sizes and statistics say about how many rows they have.

A shuffle of few records has one partition, for each costs a task and its files. An epoch of 10,000 changes runs a
hundred shuffles, in its operator and its checks. Adaptive execution fits them by itself and costs more than it saves on
one machine (``infra/engine/conf.py``), so that the number is set before an epoch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERPRETED: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
_compiled: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()
"""What this process has set of each session."""
_partitions: WeakKeyDictionary[SparkSession, str | None] = WeakKeyDictionary()
"""The same; None where its engine fits the number itself."""


def fit_compilation(spark: SparkSession, rows: int) -> None:
    """Set the session for queries that read about so many rows; what this process has set is not asked for."""
    wanted: Mapping[str, str] = INTERPRETED if rows <= limits.INTERPRETED_ROWS else _COMPILED
    if _compiled.get(spark) is wanted:
        return
    for name, value in wanted.items():
        spark.conf.set(name, value)
    _compiled[spark] = wanted


def fit_shuffles(spark: SparkSession, records: int) -> None:
    """Set the session's number for an epoch of so many records; on a cluster its own setting stays."""
    if spark not in _partitions:
        _partitions[spark] = None if spark.conf.get("spark.sql.adaptive.enabled") == "true" else ""
    if (known := _partitions[spark]) is None:
        return
    wanted = str(shuffle_partitions(records, os.cpu_count() or 1))
    if known != wanted:
        spark.conf.set("spark.sql.shuffle.partitions", wanted)
        _partitions[spark] = wanted


def shuffle_partitions(records: int, cores: int) -> int:
    """The number for so many records on so many cores."""
    return 1 if records <= limits.ONE_PARTITION_RECORDS else max(cores, -(-records // limits.PARTITION_RECORDS))
