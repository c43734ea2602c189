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

A large epoch sorts by the node's own partitions, and by Spark's hash their numbers may fall into few of the shuffle's:

    4 partitions, 4 of a shuffle     three of them in one task: one core works while the other waits
    4 partitions, 5 of a shuffle     2, 1 and 1, so that two cores have two each

So of the numbers from the one that fits to its double, the first with the shortest work for the cores is taken.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
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


_BITS = 2**32 - 1


def fit_compilation(spark: SparkSession, rows: int) -> None:
    """Set the session for queries that read about so many rows; what this process has set is not asked for."""
    wanted: Mapping[str, str] = INTERPRETED if rows <= limits.INTERPRETED_ROWS else _COMPILED
    if _compiled.get(spark) is wanted:
        return
    for name, value in wanted.items():
        spark.conf.set(name, value)
    _compiled[spark] = wanted


def fit_shuffles(spark: SparkSession, records: int, partitions: int) -> None:
    """Set the session's number for an epoch of so many records; on a cluster its own setting stays.

    Parameters
    ----------
    partitions
        Of the node.
    """
    if spark not in _partitions:
        _partitions[spark] = None if spark.conf.get("spark.sql.adaptive.enabled") == "true" else ""
    if (known := _partitions[spark]) is None:
        return
    wanted = str(shuffle_partitions(records, os.cpu_count() or 1, partitions))
    if known != wanted:
        spark.conf.set("spark.sql.shuffle.partitions", wanted)
        _partitions[spark] = wanted


def shuffle_partitions(records: int, cores: int, partitions: int) -> int:
    """The number for so many records on so many cores, and a node of so many partitions."""
    if records <= limits.ONE_PARTITION_RECORDS:
        return 1
    fits = max(cores, -(-records // limits.PARTITION_RECORDS))
    if records <= limits.PARTITION_RECORDS:
        # Each task costs more here than a core that waits.
        return fits
    hashes = [hash_number(partition) for partition in range(partitions)]
    return min(range(fits, 2 * fits + 1), key=lambda number: _longest_work(hashes, number, cores))


def _longest_work(hashes: Sequence[int], number: int, cores: int) -> int:
    """How many partitions one core works on, if each takes the next task of a shuffle when it has ended one."""
    tasks = Counter(one % number for one in hashes)
    work = [0] * cores
    for task in sorted(tasks):
        work[work.index(min(work))] += tasks[task]
    return max(work)


def hash_number(number: int) -> int:
    """Spark's hash of an INT that is not negative: MurmurHash3 of its four bytes, x86, 32 bits, seed 42."""
    part = _rotate(number * 0xCC9E2D51, 15) * 0x1B873593
    found = (_rotate(42 ^ part & _BITS, 13) * 5 + 0xE6546B64 & _BITS) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> shift) * factor & _BITS
    found ^= found >> 16
    return found - (found >> 31 << 32)


def _rotate(number: int, by: int) -> int:
    number &= _BITS
    return (number << by | number >> 32 - by) & _BITS
