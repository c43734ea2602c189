"""Folding: merges a changelog's records into its table, up to a committed epoch.

The table is a cache: its commit notes say up to which offsets it contains the changelog, so a fold that is behind by
any number of epochs catches up in one commit, and one that is up to date does nothing.

| the table | how |
|---|---|
| has few rows, and never had many | rewritten by the driver (`stage_few`): a MERGE takes ten actions |
| has more | MERGE with deletion vectors: writes grow with the records, not with the table |
| does not exist, or belongs to an earlier incarnation | rewritten |

    3,000 rows, 100 records      one file of some 3,000 rows replaces all files
    1,000,000 rows, 10,000       a file of new and changed rows, and deletion vectors for rows of the others

In a large first fold each file has the keys of one range, if keys are numbers; a MERGE reads only the files that may
have its keys.

A table of few rows is folded without a request to the engine, whose planning would take longer:

    table  a 1, b 1     records  a 2, c 1, c NULL     rewritten:  a 2, b 1

The last record of a key is that of the latest epoch with the highest offset (``records/changelog.py``: a key may begin
again in another partition). Spark folds instead: tables and changelogs that are more than a list of files,
rows with columns that the table does not have yet, few but large rows, and keys whose equality is not that of
their bytes or by which Arrow cannot group (fractional numbers, collations, nested ones). Held by
``tests/infra/delta/test_fold.py``, and by ``tests/infra/delta/test_fold_few.py``, which compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.changelog_files import bytes_between, count_between, part_rows, records
from rivermeet.infra.delta.column_ranges import ColumnRanges, has_range
from rivermeet.infra.delta.io import FOLDED, RETENTION, VECTORS, append, last_note, merge
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import lines_of, open_table, rows_in
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
    is_few = _is_few(paths.table, count_between(after, upto.ends))
    replaced = found is not None and done is None
    whole = is_few and not replaced
    few = stage_few(paths.changelog, paths.table, after, upto.ends, f"fold-{upto.epoch}") if whole else None
    if few is not None:
        commit_staged(few, app_id, upto.epoch, upto, mode="overwrite", properties=RETENTION, token=token)
    else:
        tail = records(session(), paths.changelog, after, upto.ends)
        rows = _last_by_key(tail, paths, key, after, upto.ends)
        if done is None:
            live = rows.where(~F.col("_deleted")).drop("_deleted")
            append(live, paths.table, app_id, upto.epoch, note=upto, properties=FOLDED, replace=replaced)
        else:
            ranges = ColumnRanges.of_changelog(paths.changelog, after, upto.ends)
            properties = {} if is_few else VECTORS
            merge(rows, paths.table, key, app_id, upto.epoch, upto, properties, ranges.sql_of_key(key))
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


def _is_few(path: str, new: int) -> bool:
    table = open_table(path)
    rows = 0 if table is None else rows_in(table)
    return rows is not None and rows + new <= limits.WHOLE_TABLE_ROWS


_GROUPED = (
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType),
    *(T.BooleanType, T.DateType, T.TimestampType, T.BinaryType),
)


def stage_few(changelog: str, path: str, after: Mapping[int, int], upto: Offsets, name: str) -> Staged | None:
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
    tail = part_rows(_no_engine, changelog, after, upto, log.version(), (*RECORD, "epoch"))
    tail = tail.filter(tail["key"].is_valid())
    rows = _flat(tail, arrow_schema(schema))
    live, epochs = tail["value"].is_valid(), tail["epoch"]
    if table is not None:
        if schema_of(table).simpleString() != schema.simpleString():
            return None
        folded = lines_of(table, path, rows.schema).to_table()
        rows = pa.concat_tables([folded, rows])
        live = pa.chunked_array([pa.repeat(True, len(folded)), *live.chunks])
        epochs = pa.chunked_array([pa.repeat(0, len(folded)), *epochs.chunks])
    last = _last(rows, key.names, epochs)
    return stage_arrow(rows.take(last.filter(live.take(last))), path, name, schema)


def _is_grouped(field: T.StructField) -> bool:
    return isinstance(field.dataType, _GROUPED) or field.dataType.simpleString() == "string"


def _no_engine() -> SparkSession:
    raise AssertionError("a list of files is read without the engine")


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
        .append_column("place", pa.array(range(len(rows)), pa.int64()))
        .sort_by([("epoch", "ascending"), ("offset", "ascending"), ("partition", "ascending")])
    )
    found = placed.group_by(keyed.column_names, use_threads=False).aggregate([("place", "last")])
    return found["place_last"].combine_chunks()
