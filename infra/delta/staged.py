"""Rows written once: staged as Parquet files below a table, then named by one entry of its log.

    changelog/epoch-7-5f0c…/part-00000-….parquet      staged: no log names it yet
    changelog/epoch-7-5f0c…/files.txt                 on S3: the valid files of the folder
    changelog/_delta_log/00000000000000000007.json    the commit: names the file, with note and transaction

Spark writes the files in one action; the judge reads them, and delta-rs makes the log entry without a
job. Statistics for pruning come from the files' footers. A killed attempt leaves files that no log
names; VACUUM removes them. Each attempt has its own folder, because the engine may still be writing for a killed run.
Spark renames the files of a finished task, and stores have no renames: there the engine lists the valid files
(``infra/engine/NamedFilesProtocol.java``).

Spark appends instead: rows that add columns to a table, rows of tables with features that a list of files cannot
express (column mapping, wider types), and rows of tables in a folder whose name Spark would interpret as a pattern. The
rows of a rebuild are always staged, because they replace the table; if the log needs more than their names, Spark
writes them again.

Held by ``tests/infra/delta/test_staged.py``, ``tests/infra/engine/test_named_files.py`` and
``tests/infra/epochs/test_kill.py``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileInfo, FileSelector
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.evolution import fit_rows, is_alike
from rivermeet.infra.delta.fence import refuse_fenced
from rivermeet.infra.delta.io import APPEND_ONLY, needs_mapping, once
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.location import files_below, is_local, local
from rivermeet.infra.delta.plain_files import PATTERN, schema_of
from rivermeet.pipelines import limits
from rivermeet.records.known_schemas import with_schema

_OPTIONS = {
    # Each attempt has its own folder, so nothing is renamed into place, and no marker file could be mistaken for data.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "rivermeet.named-files": "true",
}
_NAMED = "files.txt"
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_NEW_FEATURES = re.compile(r"timestamp_ntz|variant|interval|void")
"""Types that require a table feature."""


@dataclass(frozen=True)
class Staged:
    """Rows below a table that its log does not name yet.

    Attributes
    ----------
    table
        The table's location, as passed to Spark.
    folder
        Folder of the files, relative to it.
    schema
        Schema of the rows in the table.
    can_be_named
        Whether a list of files describes the table's rows completely, so that `commit_staged` can name them.
    """

    table: str
    folder: str
    schema: StructType
    can_be_named: bool = True

    @cached_property
    def files(self) -> list[FileInfo]:
        """Its files, in the order of their names, with paths relative to the table. Listed once.

        Raises
        ------
        FileNotFoundError
            If one that the engine has listed does not exist.
        """
        below = files_below(self.table)
        try:
            with below.open_input_file(f"{self.folder}/{_NAMED}") as listed:
                names = listed.read().decode().split()
        except FileNotFoundError:  # an engine that renames: all existing files count
            found = below.get_file_info(FileSelector(self.folder, allow_not_found=True))
            return sorted((file for file in found if file.extension == "parquet"), key=lambda file: file.path)
        named = below.get_file_info([f"{self.folder}/{name}" for name in names])
        if missing := [file.path for file in named if not file.is_file]:
            raise FileNotFoundError(f"{self.table}/{missing[0]} was written and is not there; run again")
        return named

    def count_rows(self) -> int:
        """Count its rows by the footers of its files."""
        found = 0
        for one in self.files:
            with self.open(one) as read:
                found += read.metadata.num_rows
        return found

    def open(self, file: FileInfo) -> pq.ParquetFile:
        """Open one of its files; the caller closes it."""
        return pq.ParquetFile(file.path, filesystem=files_below(self.table))


def stage(rows: DataFrame, path: str, name: str, *, own_schema: bool = False) -> Staged | None:
    """Write rows below the table at ``path``; None if Spark has to append them.

    Rows almost always have the table's schema. To ask for theirs, the engine would analyse all that they are made of,
    and once more when they are written: so they are written, and their files say what it is.

    Parameters
    ----------
    name
        Start of the folder's name.
    own_schema
        Whether they keep their own schema, because they replace the table's rows.
    """
    if PATTERN.search(path):
        return None
    table = open_table(path)
    is_plain = table is None or _is_plain(table)
    if table is None or own_schema:
        return _write(rows, path, name, is_plain) if _is_plainly_made(rows.schema) else None
    if not is_plain:
        return None
    staged = _write(rows, path, name, schema=schema_of(table))
    if (written := _schema_of_files(staged)) is not None and is_alike(written, staged.schema):
        return staged
    discard(staged)
    fit, needed = fit_rows(rows, table)
    return _write(fit, path, name) if needed is None else None


def _write(
    rows: DataFrame, path: str, name: str, can_be_named: bool = True, schema: StructType | None = None
) -> Staged:
    staged = Staged(path, f"{name}-{uuid4().hex}", _nullable(schema or rows.schema), can_be_named)
    rows.write.mode("error").options(**_OPTIONS).parquet(f"{path.rstrip('/')}/{staged.folder}")
    return staged


def _schema_of_files(staged: Staged) -> StructType | None:
    """The schema that Spark has left in its files; None if it has written none."""
    if not staged.files:
        return None
    with staged.open(staged.files[0]) as read:
        said = (read.metadata.metadata or {}).get(_SPARK_SCHEMA)
    return None if said is None else StructType.fromJson(json.loads(said))


def stage_arrow(rows: pa.Table, path: str, name: str, schema: StructType) -> Staged | None:
    """Write rows of the driver below the table at ``path``; None if Spark has to write them.

    Parameters
    ----------
    rows
        Rows in the Arrow types of the schema (`arrow_schema`).
    schema
        Schema of the rows, and of the table if it exists.
    """
    table = open_table(path)
    if PATTERN.search(path) or not (_is_plainly_made(schema) if table is None else _is_plain(table)):
        return None
    staged = Staged(path, f"{name}-{uuid4().hex}", _nullable(schema))
    below = files_below(path)
    below.create_dir(staged.folder)
    options = {"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True}
    # Several files are read by several tasks, also where rows in them are marked as deleted.
    for part, start in enumerate(range(0, max(len(rows), 1), limits.PARTITION_RECORDS)):
        some = rows.slice(start, limits.PARTITION_RECORDS)
        pq.write_table(some, f"{staged.folder}/part-{part:05}.zstd.parquet", filesystem=below, **options)
    return staged


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema in the types that delta-rs writes."""
    return pa.schema(Schema.from_json(_nullable(schema).json()).to_arrow())


def read_staged(staged: Staged, like: DataFrame) -> DataFrame:
    """The rows, read from their files in the session of ``like``."""
    reader = like.sparkSession.read.schema(staged.schema)
    rows = reader.parquet(*(f"{staged.table.rstrip('/')}/{file.path}" for file in staged.files))
    return with_schema(rows, staged.schema)


def discard(staged: Staged) -> None:
    """Remove files that will not be committed."""
    files_below(staged.table).delete_dir(staged.folder)


def commit_staged(
    staged: Staged,
    app_id: str,
    epoch: int,
    note: CommitNote | str,
    rows: bool = True,
    *,
    mode: Literal["append", "overwrite"] = "append",
    properties: Mapping[str, str] = APPEND_ONLY,
    token: int | None = None,
) -> None:
    """Name the files in one commit, once; with ``rows=False`` the commit has the note and no rows.

    An existing commit of ``app_id`` with this epoch or a later one wins; then the files are never named.

    Parameters
    ----------
    note
        What the commit says of itself.
    mode
        Whether the rows are added to the table, or replace it.
    properties
        Of a table that is not there yet.
    token
        Token of the lease under which the rows were computed, if there is one.

    Raises
    ------
    LeaseLostError
        If the table has the fence of a later holder; nothing is committed.
    """
    if (table := open_table(staged.table)) is not None:
        # The commit is made on top of the version that was checked: another run may have committed since.
        table = DeltaTable(staged.table)
        if (table.transaction_version(app_id) or 0) >= epoch:
            return
        refuse_fenced(table, token)
    added = [action for file in staged.files if (action := _add_action(staged, file)) is not None] if rows else []
    commit = CommitProperties(
        custom_metadata={"userMetadata": note if isinstance(note, str) else note.model_dump_json()},
        # After another run's commit, the check is repeated before a new attempt.
        max_commit_retries=0,
        app_transactions=[Transaction(app_id, epoch)],
    )
    hooks = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
    schema = Schema.from_json(staged.schema.json())
    with once(staged.table, app_id, epoch):
        if table is None:
            create_table_with_add_actions(
                str(local(staged.table)) if is_local(staged.table) else staged.table,
                schema,
                added,
                mode="error",
                configuration=dict(properties),
                commit_properties=commit,
                post_commithook_properties=hooks,
            )
        else:
            table.create_write_transaction(
                [*added], mode, schema, commit_properties=commit, post_commithook_properties=hooks
            )


def _is_plainly_made(schema: StructType) -> bool:
    """Whether a new table of that schema needs no feature."""
    return not needs_mapping(schema) and not _NEW_FEATURES.search(schema.simpleString())


def _is_plain(table: DeltaTable) -> bool:
    """Whether a list of files describes a table's rows completely, with the same column names."""
    protocol = table.protocol()
    return protocol.min_reader_version == 1 and protocol.min_writer_version <= 2


def _add_action(staged: Staged, file: FileInfo) -> AddAction | None:
    statistics = statistics_of(staged, file)
    if statistics is None:
        return None
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={},
        modification_time=file.mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps(statistics),
    )


def statistics_of(staged: Staged, file: FileInfo) -> Mapping[str, Any] | None:
    """Rows of a file, with minimum, maximum and null count of its whole numbers; None if it has no rows."""
    with staged.open(file) as read:
        metadata = read.metadata
    if metadata.num_rows == 0:
        return None
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    missing: dict[str, Any] = {}
    for path, chunks in _numbers(metadata, staged.schema):
        known = [chunk.statistics for chunk in chunks]
        if any(one is None or not one.has_null_count for one in known):
            continue
        _put(missing, path, sum(one.null_count for one in known))
        valued = [one for one, chunk in zip(known, chunks, strict=True) if one.null_count < chunk.num_values]
        if valued and all(one.has_min_max for one in valued):
            _put(lowest, path, min(one.min for one in valued))
            _put(highest, path, max(one.max for one in valued))
    return {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": missing}


def _numbers(
    metadata: pq.FileMetaData, schema: StructType
) -> Iterator[tuple[Sequence[str], list[pq.ColumnChunkMetaData]]]:
    paths = {".".join(path): path for path in _leaves(schema)}
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    # In a footer, a column `a.b` has the same name as the field b of a: if both exist, it is ambiguous.
    times = Counter(column.path for column in columns)
    for at, column in enumerate(columns):
        # A log has no statistics of elements; readers ignore all statistics of an entry that has some.
        if column.path not in paths or column.max_repetition_level or times[column.path] > 1:
            continue
        # Dates and decimals are whole numbers in the file, but not in the log.
        if column.physical_type in ("INT32", "INT64") and column.logical_type.type in ("NONE", "INT"):
            groups = range(metadata.num_row_groups)
            yield paths[column.path], [metadata.row_group(group).column(at) for group in groups]


def _leaves(kind: DataType, *path: str) -> Iterator[Sequence[str]]:
    if isinstance(kind, StructType):
        for of in kind.fields:
            yield from _leaves(of.dataType, *path, of.name)
    else:
        yield path


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _nullable(kind: Any) -> Any:
    """A type as in a new Delta table: all parts are nullable, without metadata."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    assert isinstance(kind, DataType)
    return kind
