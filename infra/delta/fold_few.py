"""Folds a table of few rows in the driver, without a request to the engine, whose planning would take longer.

    table  a 1, b 1     records  a 2, c 1, c NULL     rewritten:  a 2, b 1

The last record of a key is that of the latest epoch with the highest offset (``records/changelog.py``: a key may begin
again in another partition). Spark folds instead: tables and changelogs that are more than a list of files,
rows with columns that the table does not have yet, few but large rows, and keys whose equality is not that of
their bytes or by which Arrow cannot group (fractional numbers, collations, nested ones). Held by
``tests/infra/delta/test_fold_few.py``, which compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.changelog_files import bytes_between, part_rows
from rivermeet.infra.delta.lines import lines_of, open_table
from rivermeet.infra.delta.plain_files import is_plain, schema_of
from rivermeet.infra.delta.staged import Staged, arrow_schema, stage_arrow
from rivermeet.pipelines import limits
from rivermeet.records.changelog import RECORD, flat_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        folded = lines_of(table, path, rows.schema, lambda files: files).to_table()
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
