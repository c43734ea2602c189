"""Delta reads at pinned versions, and writes that take effect once.

Every write is stamped ``txnAppId``/``txnVersion``: Delta skips one whose version it has already. Facts: an append of
no rows is a commit all the same, so "epoch done, nothing came out" is durable; the two settings that stamp a MERGE
would leak into every later write of their session, so a MERGE runs in a session of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from infra.delta_lines import opened
from infra.plan import CommitNote, Offsets

RETENTION = {
    "delta.logRetentionDuration": "interval 90 days",
    "delta.deletedFileRetentionDuration": "interval 60 days",
}
"""Long enough for any plan that still has to be run: Delta refuses a pinned version past the second of them."""
APPEND_ONLY = {**RETENTION, "delta.appendOnly": "true"}
FOLDED = {**RETENTION, "delta.enableDeletionVectors": "true"}
_TXN = "spark.databricks.delta.write.txn"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"


def notes(path: str) -> Sequence[tuple[int, CommitNote]]:
    """(version, note) of every commit of ours, newest first; commits of maintenance carry no note."""
    found = []
    for version, commit in _history(path):
        try:
            found.append((version, CommitNote.model_validate_json(commit.get("userMetadata") or "")))
        except ValidationError:
            continue
    return found


def _history(path: str) -> list[tuple[int, dict[str, Any]]]:
    table = opened(path)
    if table is None:
        return []
    return [(int(commit.get("version", table.version() - back)), commit) for back, commit in enumerate(table.history())]


def arrivals(path: str) -> Sequence[tuple[int, Offsets]]:
    """(time in epoch millis, last offsets) of every commit of ours, newest first."""
    times = {version: int(commit["timestamp"]) for version, commit in _history(path)}
    return [(times[version], note.ends) for version, note in notes(path)]


def last_note(path: str) -> tuple[int, CommitNote] | None:
    """(version, note) of the newest commit of ours."""
    table = opened(path)
    if table is None:
        return None
    newest = table.history(1)
    try:
        return table.version(), CommitNote.model_validate_json(newest[0].get("userMetadata") or "")
    except (ValidationError, IndexError):
        return next(iter(notes(path)), None)


def read(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """The table at ``path`` as of ``version``; None for the newest, which costs no reconstruction of an old one.

    A changelog is read at its newest version and cut by offsets: what lies below an offset never changes.
    """
    if version is None:
        return spark.read.format("delta").load(path)
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def append(
    frame: DataFrame,
    path: str,
    app_id: str,
    epoch: int,
    *,
    note: CommitNote | None = None,
    properties: Mapping[str, str] = APPEND_ONLY,
) -> None:
    """Append once: a second call with the same ``app_id`` and ``epoch`` (or a lower one) does nothing."""
    writer = frame.write.format("delta").mode("append")
    writer = writer.option("txnAppId", app_id).option("txnVersion", epoch)
    if note is not None:
        writer = writer.option("userMetadata", note.model_dump_json())
    if opened(path) is None:
        writer = writer.options(**properties)
    writer.save(path)


def merge(rows: DataFrame, path: str, key: Sequence[str], app_id: str, epoch: int, note: CommitNote) -> None:
    """Fold ``rows`` into the table at ``path``, once.

    Parameters
    ----------
    rows
        One row per key, with the table's columns and ``_deleted``; of a session that does nothing else.
    key
        Columns that identify a row.
    """
    session = rows.sparkSession
    # mergeInto gives its target no alias, so the source's columns get names that the target cannot have.
    source = rows.select(*(F.col(quoted(c)).alias(f"__new_{c}") for c in rows.columns))
    live = ~F.col("__new__deleted")
    same = F.lit(True)
    for name in key:
        same = same & (F.col(quoted(name)) == F.col(quoted(f"__new_{name}")))
    values = {quoted(c): F.col(quoted(f"__new_{c}")) for c in rows.columns if c != "_deleted"}
    settings = {f"{_TXN}AppId": app_id, f"{_TXN}Version": str(epoch), _NOTE: note.model_dump_json()}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        (
            source.mergeInto(f"delta.{quoted(path)}", same)
            .whenMatched(~live)
            .delete()
            .whenMatched()
            .update(values)
            .whenNotMatched(live)
            .insert(values)
            .merge()
        )
    finally:
        for name in settings:
            session.conf.unset(name)


def quoted(identifier: str) -> str:
    """An identifier as SQL text takes it."""
    return "`" + identifier.replace("`", "``") + "`"
