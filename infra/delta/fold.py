"""Folding: merges a changelog's records into its table, up to a committed epoch.

The table is a cache: its commit notes say up to which offsets it contains the changelog, so a fold that is behind by
any number of epochs catches up in one commit, and one that is up to date does nothing.

| the table | how |
|---|---|
| does not exist, or has few rows, or not ten times as many as there are new records | written whole by the driver |
| has more, or has been merged into before | MERGE with deletion vectors: it writes as much as is new, not as is there |
| belongs to an earlier incarnation, or is new and large | written whole by Spark |

    3,000 rows, 100 records             one file of some 3,000 rows replaces all files
    80,000 rows, 256,000 records        the same: what is written is at most eleven times what is new
    1,000,000 rows, 10,000 records      a file of new and changed rows, and deletion vectors for rows of the others

In a large first fold each file has the keys of one range, if keys are numbers; a MERGE reads only the files that may
have its keys.

What the driver writes (`stage_whole`) takes no request to the engine. A MERGE takes ten actions, whose planning takes
longer, and of a million records Arrow finds the last ones in a sixth of the processor time that Spark takes:

    table  a 1, b 1     records  a 2, c 1, c NULL     rewritten:  a 2, b 1

The last record of a key is that of the latest epoch with the highest offset (``records/changelog.py``: a key may begin
again in another partition). Spark folds instead: tables and changelogs that are more than a list of files, rows with
columns that the table does not have yet, more bytes than the driver has room for, and keys whose equality is not that
of their bytes or by which Arrow cannot group (fractional numbers, collations, nested ones). Held by
``tests/infra/delta/test_fold.py``, and by ``tests/infra/delta/test_fold_few.py``, which compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.changelog_files import bytes_between, count_between, part_of, records
from rivermeet.infra.delta.column_ranges import ColumnRanges, has_range
from rivermeet.infra.delta.io import FOLDED, RETENTION, VECTORS, append, last_note, merge
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import lines_of, open_table, read_within, rows_in
from rivermeet.infra.delta.plain_files import is_plain, schema_of
from rivermeet.infra.delta.staged import Staged, arrow_schema, commit_staged, stage_arrow
from rivermeet.pipelines import limits
from rivermeet.records.changelog import RECORD, flat_schema, table_rows


def fold(
    session: Callable[[], SparkSession],
    paths: NodeTables,
    key: list[str],
    upto: CommitNote,
    token: int | None = None,
) -> bool:
    """Fold the table up to the epoch of ``upto``; return whether it was behind.

    Parameters
    ----------
    session
        Opens a session that only folds use: its settings are changed while a MERGE runs.
    token
        Token of the lease under which it is folded, if there is one.
    """
    found = last_note(paths.table)
    # Offsets of an earlier incarnation denote other records.
    done = found[1] if found is not None and found[1].incarnation == upto.incarnation else None
    if done is not None and done.epoch >= upto.epoch:
        return False
    after = done.ends if done is not None else {}
    app_id = paths.app_id("fold", upto.incarnation)
    rows, new = _count_rows(paths.table), count_between(after, upto.ends)
    is_few = rows is not None and rows + new <= limits.WHOLE_TABLE_ROWS
    replaced = found is not None and done is None
    is_whole = not replaced and (is_few or (rows is not None and new >= limits.WHOLE_TABLE_SHARE * rows))
    whole = stage_whole(paths.changelog, paths.table, after, upto.ends, f"fold-{upto.epoch}") if is_whole else None
    if whole is not None:
        commit_staged(whole, app_id, upto.epoch, upto, mode="overwrite", properties=RETENTION, token=token)
    else:
        tail = records(session(), paths.changelog, after, upto.ends)
        last = _last_by_key(tail, paths, key, after, upto.ends)
        if done is None:
            live = last.where(~F.col("_deleted")).drop("_deleted")
            append(live, paths.table, app_id, upto.epoch, note=upto, properties=FOLDED, replace=replaced)
        else:
            ranges = ColumnRanges.of_changelog(paths.changelog, after, upto.ends)
            properties = {} if is_few else VECTORS
            merge(last, paths.table, key, app_id, upto.epoch, upto, properties, ranges.sql_of_key(key))
    crash.crash_at("merged", paths.node)
    return True


def refold(session: Callable[[], SparkSession], paths: NodeTables, key: list[str], upto: CommitNote) -> None:
    """Replace the table by the fold of the whole changelog; its contents do not matter, because it is a cache."""
    changelog = records(session(), paths.changelog, {}, upto.ends)
    rows = _last_by_key(changelog, paths, key, {}, upto.ends)
    live = rows.where(~F.col("_deleted")).drop("_deleted")
    found = open_table(paths.table)
    # For Delta, folds of this epoch are done; so this write has another id, and the version that it replaces as its
    # number.
    app_id, number = paths.app_id("fold-anew", upto.incarnation), found.version() + 1 if found else 0
    append(live, paths.table, app_id, number, note=upto, properties=FOLDED, replace=found is not None)


def _last_by_key(
    changelog: DataFrame, paths: NodeTables, key: list[str], after: Mapping[int, int], upto: Offsets
) -> DataFrame:
    """The last record of each key as columns of the table, in one file per range of keys if these are numbers.

    An epoch then reads the files that may have its keys (``joins/equal_columns.py``). The fold groups by key and needs
    a shuffle anyway, which this one replaces; it reads its input twice.
    """
    kind = cast(T.StructType, changelog.schema["key"].dataType)
    ranges = bytes_between(paths.changelog, after, upto) // limits.KEY_RANGE_BYTES
    if ranges > 1 and has_range(kind[key[0]].dataType):
        changelog = changelog.repartitionByRange(ranges, "key")
    return table_rows(changelog)


def _count_rows(path: str) -> int | None:
    table = open_table(path)
    return 0 if table is None else rows_in(table)


_GROUPED = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType),
    *(T.BooleanType, T.DateType, T.TimestampType, T.BinaryType),
)


def stage_whole(changelog: str, path: str, after: Mapping[int, int], upto: Offsets, name: str) -> Staged | None:
    """Stage the whole table at ``path`` as of ``upto``; None if Spark has to fold it.

    Parameters
    ----------
    after
        Offsets up to which the table is folded.
    name
        Start of the name of the files' folder.
    """
    table, log = open_table(path), open_table(changelog)
    if log is None or not is_plain(log) or (table is not None and not is_plain(table)):
        return None
    shape = schema_of(log)
    schema, key = flat_schema(shape), shape["key"].dataType
    assert isinstance(key, T.StructType)
    if not all(map(_is_grouped, key.fields)):
        return None
    there = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist() if table is not None else []
    if sum(there) + bytes_between(changelog, after, upto) > limits.DRIVER_FOLD_BYTES:
        return None
    tail = read_within(part_of(log, changelog, after, upto, (*RECORD, "epoch")), limits.DRIVER_FOLD_MEMORY)
    if tail is None:
        return None
    tail = tail.filter(tail["key"].is_valid())
    rows = _flat(tail, arrow_schema(schema))
    live, epochs = tail["value"].is_valid(), tail["epoch"]
    if table is not None:
        if schema_of(table).simpleString() != schema.simpleString():
            return None
        folded = read_within(lines_of(table, path, rows.schema).scanner(), limits.DRIVER_FOLD_MEMORY - tail.nbytes)
        if folded is None:
            return None
        rows = pa.concat_tables([folded, rows])
        live = pa.chunked_array([pa.repeat(True, len(folded)), *live.chunks])
        epochs = pa.chunked_array([pa.repeat(0, len(folded)), *epochs.chunks])
    last = _last(rows, key.names, epochs)
    return stage_arrow(rows.take(last.filter(live.take(last))), path, name, schema)


def _is_grouped(field: T.StructField) -> bool:
    return isinstance(field.dataType, _GROUPED) or field.dataType.simpleString() == "string"


def _flat(records: pa.Table, schema: pa.Schema) -> pa.Table:
    """Records as the columns of a folded table; for a tombstone, those of the value are null."""
    placed = (records[name] for name in ("timestamp", "partition", "offset"))
    columns = [*records["key"].flatten(), *records["value"].flatten(), *placed]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def _last(rows: pa.Table, key: list[str], epochs: pa.ChunkedArray) -> pa.Array:
    """Indexes of the last row of each key; rows of the table have epoch 0, before all records."""
    keyed = rows.select(key).rename_columns([f"key_{at}" for at in range(len(key))])
    placed = (
        keyed.append_column("epoch", epochs)
        .append_column("offset", rows["_offset"])
        .append_column("partition", rows["_partition"])
        .append_column("place", pa.array(np.arange(len(rows))))
        .sort_by([("epoch", "ascending"), ("offset", "ascending"), ("partition", "ascending")])
    )
    found = placed.group_by(keyed.column_names, use_threads=False).aggregate([("place", "last")])
    return found["place_last"].combine_chunks()
