"""Whether Spark compiles an epoch's queries: not where they read few rows.

An epoch has some twenty queries, each with classes of its own that are generated, compiled and first run cold. On a few
thousand rows that takes longer than to interpret them; on a million it is well spent.

    ten nodes of some 3,000 rows       interpreted
    10,000 changes of a million rows   compiled

What an operator reads its offsets say, and what a source has landed is counted; of files that the engine reads, and of
versions of a Delta table, sizes and statistics say about how many rows they have.
"""

from __future__ import annotations

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


_set: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()


def fit_compilation(spark: SparkSession, rows: int) -> None:
    """Set the session for queries that read about so many rows; what this process has set is not asked for."""
    wanted: Mapping[str, str] = INTERPRETED if rows <= limits.INTERPRETED_ROWS else _COMPILED
    if _set.get(spark) is wanted:
        return
    for name, value in wanted.items():
        spark.conf.set(name, value)
    _set[spark] = wanted
