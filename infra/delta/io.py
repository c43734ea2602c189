"""Delta reads at pinned versions, and writes that take effect exactly once.

Every write is stamped ``txnAppId``/``txnVersion``: Delta skips a version that it already has. An append of
no rows is a commit too, so an epoch without results is durable. The two settings that stamp a MERGE
would affect every later write of their session, so a MERGE runs in a separate session.

Versions are opened once per session. Delta caches only the list of files of a table's newest version. For another
version it reconstructs the list from the log for each frame that reads it, in four jobs and a third of a second, and an
epoch reads earlier versions of its inputs in its operator, its audit and its checks. A temporary view keeps an opened
version.

    commit 3 is the newest      3 is read from Delta's cache
    commit 4 comes              3 is opened again, once: Delta drops it from its cache

Held by ``tests/infra/delta/test_pinned_versions.py``.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.evolution import fit_rows, without_zone
from rivermeet.infra.delta.lines import commit_file, commits, open_table
from rivermeet.infra.delta.location import KEPT
from rivermeet.infra.delta.plain_files import read_files
from rivermeet.pipelines import limits
from rivermeet.pipelines.expressions import quote

RETENTION = {
    **KEPT,
    "delta.logRetentionDuration": "interval 90 days",
    "delta.deletedFileRetentionDuration": "interval 60 days",
}
"""Long enough for any open plan: Delta refuses a pinned version that is older than the second of them."""
APPEND_ONLY = {**RETENTION, "delta.appendOnly": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
FOLDED = {**RETENTION, **VECTORS}
_SYNTAX = re.compile(r"[ ,;{}()\n\t=]")
_TXN = "spark.databricks.delta.write.txn"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"


def notes(path: str) -> Iterator[tuple[int, CommitNote]]:
    """(version, note) of every commit of ours, newest first; commits of maintenance carry no note."""
    return ((int(commit["version"]), note) for commit, note in _read_notes(open_table(path)))


def arrivals(path: str) -> Sequence[tuple[int, Offsets]]:
    """(time in epoch millis, last offsets) of every commit of ours, newest first."""
    return [(int(commit["timestamp"]), note.ends) for commit, note in _read_notes(open_table(path))]


def last_note(path: str) -> tuple[int, CommitNote] | None:
    """(version, note) of the newest commit of ours; an epoch asks some fifteen times, and an unchanged table once."""
    table, known = open_table(path), _recall(path)
    opened, found = known.of
    if table is None or opened is not table:
        found = next(((int(commit["version"]), note) for commit, note in _read_notes(table)), None)
        # Returned is what this thread has read: another one may have written in between.
        known.of = table, found
    return found


class _Known:
    """A table as it was opened last, and its last note."""

    of: tuple[DeltaTable | None, tuple[int, CommitNote] | None] = None, None


@lru_cache(maxsize=128)
def _recall(path: str) -> _Known:
    return _Known()


def note_upto(path: str, epoch: int) -> tuple[int, CommitNote]:
    """(version, note) of the newest commit of ours at or before an epoch; StopIteration if there is none."""
    return next((version, note) for version, note in notes(path) if note.epoch <= epoch)


def _read_notes(table: DeltaTable | None) -> Iterator[tuple[Mapping[str, Any], CommitNote]]:
    for commit in commits(table) if table is not None else ():
        note = note_of(commit)
        if note is not None:
            yield commit, note


def note_of(commit: Mapping[str, Any]) -> CommitNote | None:
    """The note of a commit of ours; None for other commits and those of maintenance."""
    try:
        return CommitNote.model_validate_json(commit.get("userMetadata") or "")
    except ValidationError:
        return None


def read(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """The table at ``path`` as of ``version``; None for the newest.

    A changelog is read at its newest version and restricted by offsets: records below an offset never change.
    """
    rows = read_files(spark, path, version)
    if rows is not None:
        return rows
    reader = spark.read.format("delta")
    if version is None:
        return reader.load(path)
    return read_pinned(spark, path, version, lambda: reader.option("versionAsOf", version).load(path))


def append(
    frame: DataFrame,
    path: str,
    app_id: str,
    epoch: int,
    *,
    note: CommitNote | None = None,
    metadata: str | None = None,
    properties: Mapping[str, str] = APPEND_ONLY,
    replace: bool = False,
) -> None:
    """Append once: a second call with the same ``app_id`` and ``epoch`` (or a lower one) does nothing.

    If the table lacks a column of the rows, or has a narrower type, the commit adds it (``evolution.py``).

    Parameters
    ----------
    note, metadata
        The metadata of the commit; one of the two.
    properties
        Properties of a table that does not exist yet.
    replace
        Whether the rows and their schema replace the table's.
    """
    table = open_table(path)
    options = dict(properties) if table is None else {}
    if table is None and needs_mapping(frame.schema):
        options["delta.columnMapping.mode"] = "name"
    if replace:
        if table is not None:
            allow_removal(frame.sparkSession, path, table)
            set_properties(frame.sparkSession, path, without_zone(frame, table))
        options["overwriteSchema"] = "true"
    elif table is not None:
        frame, needed = fit_rows(frame, table)
        if needed is not None:
            set_properties(frame.sparkSession, path, needed)
            options["mergeSchema"] = "true"
    writer = frame.write.format("delta").mode("overwrite" if replace else "append").options(**options)
    writer = writer.option("txnAppId", app_id).option("txnVersion", epoch)
    about = note.model_dump_json() if note is not None else metadata
    if about is not None:
        writer = writer.option("userMetadata", about)
    with once(path, app_id, epoch):
        writer.save(path)


def allow_removal(session: SparkSession, path: str, table: DeltaTable) -> None:
    """Lift the protection of an append-only table; `protect` restores it."""
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        set_properties(session, path, {"delta.appendOnly": "false"})


def is_protected(path: str) -> bool:
    """Whether a changelog is append-only."""
    table = open_table(path)
    return table is not None and table.metadata().configuration.get("delta.appendOnly") == "true"


def protect(session: Callable[[], SparkSession], path: str) -> None:
    """Make a changelog append-only again, after a replacement."""
    if open_table(path) is not None and not is_protected(path):
        set_properties(session(), path, {"delta.appendOnly": "true"})


@contextmanager
def once(path: str, app_id: str, epoch: int) -> Iterator[None]:
    """Ignore the failure of a write if the same write has been committed in the meantime.

    An engine continues the queries of a killed client, so a run may conflict with the write of the previous run
    (``tests/infra/epochs/test_soak.py``).
    """
    try:
        yield
    except Exception:  # Delta's conflicts have no common class, and no class at all on Spark Connect
        table = open_table(path)
        done = table.transaction_version(app_id) if table is not None else None
        if done is None or done < epoch:
            raise


def merge(
    rows: DataFrame,
    path: str,
    key: Sequence[str],
    app_id: str,
    epoch: int,
    note: CommitNote,
    properties: Mapping[str, str],
    within: str | None = None,
) -> None:
    """Fold ``rows`` into the table at ``path``, once.

    Parameters
    ----------
    rows
        One row per key, with the table's columns and ``_deleted``; from a session that does nothing else.
    key
        Columns that identify a row.
    properties
        Properties that the table gets if it lacks them.
    within
        SQL that is true for all rows of the table with such a key: its other files are not read.
    """
    session = rows.sparkSession
    _grow(rows, path)
    table = open_table(path)
    assert table is not None, path
    have = table.metadata().configuration
    set_properties(session, path, {name: value for name, value in properties.items() if have.get(name) != value})
    # mergeInto gives its target no alias, so the source's columns get names that the target cannot have.
    source = rows.select(*(F.col(quote(c)).alias(f"__new_{c}") for c in rows.columns))
    live = ~F.col("__new__deleted")
    same = F.expr(within or "true")
    for name in key:
        same = same & (F.col(quote(name)) == F.col(quote(f"__new_{name}")))
    values = {quote(c): F.col(quote(f"__new_{c}")) for c in rows.columns if c != "_deleted"}
    # Inserting takes an outer join, for which Spark would sort the whole table: a fold into ten million rows took
    # 5.3 s for 4.4. A table of the few new rows is small.
    hashed = {"spark.sql.join.preferSortMergeJoin": "false"}
    settings = {f"{_TXN}AppId": app_id, f"{_TXN}Version": str(epoch), _NOTE: note.model_dump_json(), **hashed}
    with session_settings(session, settings), once(path, app_id, epoch):
        (
            source.mergeInto(f"delta.{quote(path)}", same)
            .whenMatched(~live)
            .delete()
            .whenMatched()
            .update(values)
            .whenNotMatched(live)
            .insert(values)
            .merge()
        )


@contextmanager
def session_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for the duration of a block."""
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def _grow(rows: DataFrame, path: str) -> None:
    """Add the columns and types of the rows to a folded table.

    A MERGE can add columns only under the names of its source, so a commit without rows adds them before. It
    carries the note of the previous fold, because the rows of the table have not changed.
    """
    table, found = open_table(path), last_note(path)
    assert table is not None and found is not None, path
    fit, needed = fit_rows(rows.drop("_deleted"), table)
    if needed is not None:
        set_properties(rows.sparkSession, path, needed)
        writer = fit.where("false").write.format("delta").mode("append").option("mergeSchema", "true")
        writer.option("userMetadata", found[1].model_dump_json()).save(path)


def set_properties(session: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    """Set table properties, with Spark, because delta-rs cannot alter tables with features that it does not know."""
    if properties:
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        session.sql(f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ({listed})")


def needs_mapping(schema: StructType) -> bool:
    """Whether column names contain characters that Parquet does not allow; the files then have other names."""
    return any(map(_SYNTAX.search, _names(schema)))


def _names(kind: DataType) -> list[str]:
    if isinstance(kind, StructType):
        return [name for field in kind.fields for name in (field.name, *_names(field.dataType))]
    if isinstance(kind, ArrayType):
        return _names(kind.elementType)
    return _names(kind.keyType) + _names(kind.valueType) if isinstance(kind, MapType) else []


def append_records(records: pa.Table, path: str, app_id: str, note: CommitNote) -> None:
    """Append records of an epoch, once, like `append` for a frame, but without Spark: in milliseconds, not a second.

    For hand-written inputs: the cases of ``rivermeet replay``, and those of tests.

    Parameters
    ----------
    records
        In the columns of a changelog, with ``epoch``.
    note
        The note of the commit; its epoch is the transaction's version.
    """
    table = open_table(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= note.epoch:
        return
    write_deltalake(
        path,
        records,
        mode="append",
        configuration=APPEND_ONLY if table is None else None,
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": note.model_dump_json()},
            app_transactions=[Transaction(app_id, note.epoch)],
        ),
    )


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
