"""Reads part of a changelog from the files that may contain it, which are chosen here and not by a Spark job.

Conditions on partitions and offsets are short enough for Spark to plan quickly.

The statistics of its files show which of them have an offset or an epoch:

    file a   partitions 0 to 3, offsets 0 to 249,999
    file b   partitions 0 to 3, offsets 250,000 to 250,020      the only one that is read for offsets after 249,999

If a changelog is more than a list of files, Delta reads it (``plain_files.py``). Held by
``tests/infra/delta/test_changelog_files.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import Scanner
from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import lines_of, open_table
from rivermeet.infra.delta.plain_files import is_plain, read_files
from rivermeet.pipelines import limits


def records(
    spark: SparkSession, path: str, after: Mapping[int, int], upto: Offsets, version: int | None = None
) -> DataFrame:
    """Records of the changelog at ``path`` whose offset is in ``(after, upto]``, with all its columns."""
    return _rows(spark, path, version, _offsets(after, upto)).where(between_sql(after, upto))


def part_rows(
    session: Callable[[], SparkSession],
    path: str,
    after: Mapping[int, int],
    upto: Offsets,
    version: int,
    columns: Sequence[str],
) -> pa.Table:
    """Records whose offset is in ``(after, upto]``, with the existing ones of the columns, in any order.

    Parameters
    ----------
    session
        Opens the session for files that Delta has to read.
    """
    table = open_table(path, version)
    if table is None or not is_plain(table):
        frame = records(session(), path, after, upto, version)
        return frame.select(*(name for name in columns if name in frame.columns)).toArrow()
    return part_of(table, path, after, upto, columns).to_table()


def part_of(table: DeltaTable, path: str, after: Mapping[int, int], upto: Offsets, columns: Sequence[str]) -> Scanner:
    """The same of a changelog that is a list of files, not read yet."""
    schema = pa.schema(table.schema().to_arrow())
    files = lines_of(table, path, schema, lambda files: files_with(files, after, upto))
    within = [
        (pc.field("partition") == p) & (pc.field("offset") > after.get(p, -1)) & (pc.field("offset") <= end)
        for p, end in upto.items()
    ]
    some = reduce(or_, within, pc.scalar(False))
    return files.scanner([name for name in columns if name in schema.names], filter=some)


def epoch_files(files: pa.Table, epoch: int) -> pa.Table:
    """The files, one a row, that may have records of one epoch."""
    return files_of(files, (pc.field("min.epoch") <= epoch) & (pc.field("max.epoch") >= epoch))


def earlier_epochs(spark: SparkSession, path: str, epoch: int) -> DataFrame:
    """Records of the epochs before one."""
    return _rows(spark, path, None, pc.field("min.epoch") < epoch).where(f"epoch < {epoch}")


def files_with(files: pa.Table, after: Mapping[int, int], upto: Offsets) -> pa.Table:
    """The files, one a row, that may have records whose offset is in ``(after, upto]``."""
    return files_of(files, _offsets(after, upto))


def bytes_between(path: str, after: Mapping[int, int], upto: Offsets) -> int:
    """Bytes of the files that may have records whose offset is in ``(after, upto]``."""
    table = open_table(path)
    if table is None:
        return 0
    return sum(files_with(pa.table(table.get_add_actions(flatten=True)), after, upto)["size_bytes"].to_pylist())


def _offsets(after: Mapping[int, int], upto: Offsets) -> pc.Expression:
    """Whether a file may have such records, by its statistics."""
    low, high = pc.field("min.offset"), pc.field("max.offset")
    new = {p: (after.get(p, -1), end) for p, end in upto.items() if end > after.get(p, -1)}
    if not new:
        return pc.scalar(False)
    if len(new) > limits.NAMED_PARTITIONS:
        return (high > min(a for a, _ in new.values())) & (low <= max(end for _, end in new.values()))
    slots = [
        (pc.field("min.partition") <= p) & (pc.field("max.partition") >= p) & (high > a) & (low <= end)
        for p, (a, end) in new.items()
    ]
    return reduce(or_, slots)


def _rows(spark: SparkSession, path: str, version: int | None, wanted: pc.Expression) -> DataFrame:
    rows = read_files(spark, path, version, lambda files: files_of(files, wanted))
    return rows if rows is not None else read(spark, path, version)


def files_of(files: pa.Table, wanted: pc.Expression) -> pa.Table:
    """The files, one a row, that may match according to their statistics; files without statistics may."""
    try:
        return files.filter(wanted | ~wanted.is_valid())
    except pa.ArrowInvalid:  # no file has statistics of this column
        return files


def count_between(after: Mapping[int, int], upto: Offsets) -> int:
    """The number of records with offsets in ``(after, upto]``: offsets are dense."""
    return sum(end - after.get(partition, -1) for partition, end in upto.items())


def between_sql(after: Mapping[int, int], upto: Offsets) -> str:
    """SQL for whether a record's offset is in ``(after, upto]``.

    Few partitions are written out; for many, the bounds are looked up. The range over all of them comes first, because
    readers can skip parts of files by a range, but not by an OR of several columns.
    """
    new = {int(p): int(end) for p, end in upto.items() if end > after.get(p, -1)}
    if not new:
        return "false"
    start = {p: int(after.get(p, -1)) for p in new}
    among = f"offset > {min(start.values())} AND offset <= {max(new.values())}"
    if len(new) > limits.NAMED_PARTITIONS:
        return f"{among} AND offset > {lookup_sql(start)} AND offset <= {lookup_sql(new)}"
    slots = [f"(partition = {p} AND offset > {start[p]} AND offset <= {end})" for p, end in new.items()]
    return f"{among} AND ({any_of_sql(slots)})"


def lookup_sql(values: Mapping[int, int]) -> str:
    """SQL for the number of a row's partition, null if it has none.

    A condition per partition is evaluated, and planned, one by one: 2,000 cases of a replay are 2,000 partitions.
    """
    by_place = [values.get(p) for p in range(max(values, default=-1) + 1)]
    return f"get(from_json('{json.dumps(by_place)}', 'ARRAY<BIGINT>'), partition)"


def any_of_sql(conditions: Sequence[str]) -> str:
    """SQL for whether one of the conditions holds.

    A text and not a chain of columns: Spark Connect cannot send a chain as long as a topic's partitions
    (``tests/joins/stream_global/test_stream_global.py`` has 60).
    """
    return " OR ".join(conditions) or "false"
