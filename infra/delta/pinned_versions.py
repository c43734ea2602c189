"""Versions of Delta tables, each opened once per session.

Delta caches only the list of files of a table's newest version. For another version it reconstructs the list from the
log for each frame that reads it, in four jobs and a third of a second, and an epoch reads earlier versions of its
inputs in its operator, its audit and its checks. A temporary view keeps an opened version.

    commit 3 is the newest      3 is read from Delta's cache
    commit 4 comes              3 is opened again, once: Delta drops it from its cache

Held by ``tests/infra/delta/test_pinned_versions.py``.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.delta.lines import commit_file
from rivermeet.pipelines import limits

_views: WeakKeyDictionary[SparkSession, OrderedDict[str, DataFrame]] = WeakKeyDictionary()


def read_pinned(spark: SparkSession, path: str, version: int, opened: Callable[[], DataFrame]) -> DataFrame:
    """The table at ``path`` as of ``version``; ``opened`` opens it if the session has not, or its log is another one.

    A table whose log was cut is opened each time.
    """
    commit = commit_file(path, version)
    if commit is None:
        return opened()
    newest = commit_file(path, version + 1) is None
    name = f"pinned_{hashlib.sha256(repr((path, commit, newest)).encode()).hexdigest()[:24]}"
    known = _views.setdefault(spark, OrderedDict())
    if name not in known:
        opened().createOrReplaceTempView(name)
        known[name] = spark.table(name)
        if len(known) > limits.OPEN_VERSIONS:
            spark.catalog.dropTempView(known.popitem(last=False)[0])
    known.move_to_end(name)
    return known[name]
