"""Reading part of a changelog from the files that may have it, which are chosen here and not by a Spark job.

Delta queries its log by a job for each scan of each plan, some 45 ms a time: that was a fifth of an epoch of 10,000
changes. A changelog's log is read in 5 ms without Spark, and the statistics of its files show which of them have an
offset or an epoch:

    file a   partitions 0 to 3, offsets 0 to 249,999
    file b   partitions 0 to 3, offsets 250,000 to 250,020      all that is read for the offsets after 249,999

What is more than a list of files is left to Delta: deletion vectors, column mapping, other features of readers.
Held by ``tests/infra/delta/test_changelog_files.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from infra.delta.io import read
from infra.delta.lines import lines_of, opened
from infra.epochs.offsets import WRITTEN_OUT, between
from infra.epochs.plan import Offsets

if TYPE_CHECKING:
    from deltalake import DeltaTable

MOST = 500
"""Up to so many files are named to Spark, which looks for each of them."""
PATTERN = re.compile(r"[*?\[\]{}\\]")
"""Characters of a path that Spark would take for a pattern."""


def records(
    spark: SparkSession, path: str, after: Mapping[int, int], upto: Offsets, version: int | None = None
) -> DataFrame:
    """Records of the changelog at ``path`` whose offset is in ``(after, upto]``, with all its columns."""
    return _rows(spark, path, version, _offsets(after, upto)).where(between(after, upto))


def epoch_rows(spark: SparkSession, path: str, epoch: int, version: int | None = None) -> DataFrame:
    """Records of one epoch."""
    return _rows(spark, path, version, _of_epoch(epoch)).where(f"epoch = {epoch}")


def part_rows(
    session: Callable[[], SparkSession],
    path: str,
    after: Mapping[int, int],
    upto: Offsets,
    version: int,
    columns: Sequence[str],
) -> pa.Table:
    """Records whose offset is in ``(after, upto]``, with those of the columns that there are, in any order.

    Parameters
    ----------
    session
        Gives the session for files that Delta has to read.
    """
    table = opened(path, version)
    if table is None or not _is_plain(table):
        frame = records(session(), path, after, upto, version)
        return frame.select(*(name for name in columns if name in frame.columns)).toArrow()
    schema = pa.schema(table.schema().to_arrow())
    files = lines_of(table, path, schema, lambda files: _chosen(files, _offsets(after, upto)))
    within = [
        (pc.field("partition") == p) & (pc.field("offset") > after.get(p, -1)) & (pc.field("offset") <= end)
        for p, end in upto.items()
    ]
    return files.to_table([name for name in columns if name in schema.names], filter=reduce(or_, within))


@dataclass(frozen=True)
class PartitionOffsets:
    """The offsets of one partition's records."""

    partition: int
    first: int
    last: int
    records: int
    distinct: int

    def are_dense_from(self, start: int) -> bool:
        """Whether they run from ``start`` without hole or double."""
        last = self.first + self.records - 1
        return self.first == start and self.distinct == self.records and self.last == last


def epoch_offsets(path: str, epoch: int, version: int | None = None) -> Sequence[PartitionOffsets] | None:
    """The offsets that the files of a changelog have of one epoch; None where Delta has to read them."""
    table = opened(path, version)
    if table is None or not _is_plain(table):
        return None
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("epoch", pa.int64())])
    files = lines_of(table, path, schema, lambda files: _chosen(files, _of_epoch(epoch)))
    rows = files.to_table(["partition", "offset"], filter=pc.field("epoch") == epoch)
    wanted = [("offset", "min"), ("offset", "max"), ("offset", "count"), ("offset", "count_distinct")]
    return [
        PartitionOffsets(
            one["partition"], one["offset_min"], one["offset_max"], one["offset_count"], one["offset_count_distinct"]
        )
        for one in rows.group_by("partition").aggregate(wanted).to_pylist()
    ]


def _of_epoch(epoch: int) -> pc.Expression:
    return (pc.field("min.epoch") <= epoch) & (pc.field("max.epoch") >= epoch)


def earlier_epochs(spark: SparkSession, path: str, epoch: int) -> DataFrame:
    """Records of the epochs before one."""
    return _rows(spark, path, None, pc.field("min.epoch") < epoch).where(f"epoch < {epoch}")


def _offsets(after: Mapping[int, int], upto: Offsets) -> pc.Expression:
    """Whether a file may have such records, by its statistics."""
    low, high = pc.field("min.offset"), pc.field("max.offset")
    new = {p: (after.get(p, -1), end) for p, end in upto.items() if end > after.get(p, -1)}
    if not new:
        return pc.scalar(False)
    if len(new) > WRITTEN_OUT:
        return (high > min(a for a, _ in new.values())) & (low <= max(end for _, end in new.values()))
    slots = [
        (pc.field("min.partition") <= p) & (pc.field("max.partition") >= p) & (high > a) & (low <= end)
        for p, (a, end) in new.items()
    ]
    return reduce(or_, slots)


def _rows(spark: SparkSession, path: str, version: int | None, wanted: pc.Expression) -> DataFrame:
    """Rows of at least the files that are ``wanted``."""
    table = opened(path, version)
    if table is None or not _is_plain(table) or PATTERN.search(path):
        return read(spark, path, version)
    files = pa.table(table.get_add_actions(flatten=True))
    names = _chosen(files, wanted)["path"].to_pylist() or files["path"].to_pylist()[:1]
    if not 0 < len(names) <= MOST:
        return read(spark, path, version)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    return spark.read.schema(schema).parquet(*(f"{path.rstrip('/')}/{unquote(name)}" for name in names))


def _chosen(files: pa.Table, wanted: pc.Expression) -> pa.Table:
    """The files that may have what is wanted; one without statistics may."""
    try:
        return files.filter(wanted | ~wanted.is_valid())
    except pa.ArrowInvalid:  # no file has statistics of such a column
        return files


def _is_plain(table: DeltaTable) -> bool:
    """Whether its rows are all that its files have, under their own names."""
    return table.protocol().min_reader_version == 1 and not table.metadata().partition_columns
