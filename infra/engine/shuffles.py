"""How many partitions a shuffle has: one for few records, for each costs a task and its files.

An epoch of 10,000 changes runs a hundred shuffles, in its operator and its checks. Adaptive execution fits them by
itself and costs more than it saves on one machine (``infra/engine/conf.py``), so that the number is set before an
epoch.
"""

from __future__ import annotations

import os
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from rivermeet.pipelines import limits

_SETTING = "spark.sql.shuffle.partitions"
_set: WeakKeyDictionary[SparkSession, str | None] = WeakKeyDictionary()
"""What this process has set of each session; None where its engine fits the number itself."""


def fit_shuffles(spark: SparkSession, records: int) -> None:
    """Set the session's number for an epoch of so many records; on a cluster its own setting stays."""
    if spark not in _set:
        _set[spark] = None if spark.conf.get("spark.sql.adaptive.enabled") == "true" else ""
    if (known := _set[spark]) is None:
        return
    wanted = str(shuffle_partitions(records, os.cpu_count() or 1))
    if known != wanted:
        spark.conf.set(_SETTING, wanted)
        _set[spark] = wanted


def shuffle_partitions(records: int, cores: int) -> int:
    """The number for so many records on so many cores."""
    return 1 if records <= limits.ONE_PARTITION_RECORDS else max(cores, -(-records // limits.PARTITION_RECORDS))
