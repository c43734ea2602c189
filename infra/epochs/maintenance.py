"""Maintenance: small files are compacted, and files that no run can need are removed.

For each table, in this order, under the lock of its node:

| what | bound |
|---|---|
| rows | operator state of epochs before the last; late and dead rows past a retention that was requested |
| OPTIMIZE | if more than `Retention.small_files` files are small, or there are as many deletion vectors |
| VACUUM | files that no version since the oldest needed one has (``oldest_needed.py``), after an hour or two |
| log | entries below that version (``infra/delta/log.py``) |

The writer of a table maintains it: Spark the nodes' tables, delta-rs those of lines. The commits carry no note and no
transaction id, so positions and plans ignore them. A kill at any point changes no result.

Plans are never removed: a result is a function of the recorded cuts, and a source's plans say which files were
consumed. ``delta.deletedFileRetentionDuration`` is not changed, because Delta refuses to read a version that is older,
even if its files exist. Held by ``tests/infra/delta/test_maintenance.py`` and
``tests/infra/delta/test_many_epochs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from filelock import FileLock
from pyspark.sql import SparkSession

from rivermeet.infra import crash
from rivermeet.infra.delta.care.table_care import Maintained, Retention, TableCare
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.log import KEPT
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.oldest_needed import oldest_needed
from rivermeet.pipelines import Node, Pipeline, limits
from rivermeet.pipelines.expressions import quote

TABLES = ("changelog", "table", "memory", "late", "dead_letter", "rejected", "quarantine")
_SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(limits.SMALL_FILE_BYTES),
    # VACUUM has to accept the given bound, and to add no commits.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
}
Sql = Callable[[str], None]


def maintain(
    runner: EpochContext, pipeline: Pipeline, session: Callable[[], SparkSession], keep: Retention | None = None
) -> list[Maintained]:
    """Maintain all tables of a pipeline and its epoch log; return what was done, table by table.

    Parameters
    ----------
    session
        Opens a session whose settings may be changed; called only if Spark has something to do.
    """
    keep = keep or Retention()
    runner.locks.mkdir(parents=True, exist_ok=True)
    with FileLock(runner.locks / f"{pipeline.name}.maintenance.lock"):
        done: list[Maintained] = []
        for node in pipeline.stored:
            lock = runner.lock(node)
            with lock.hold():
                for name in TABLES:
                    path = getattr(runner.paths(node), name)
                    table = open_table(path)
                    if table is not None:
                        care = TableCare(path, table, keep)
                        done.append(_table(runner, node, name, care, _statements(runner, node, path, session), keep))
        return done + maintain_lines(runner.log.path, "epoch log", keep, _past(runner, pipeline, keep))


def maintain_lines(path: str, name: str, keep: Retention, past: str = "") -> list[Maintained]:
    """Maintain a table of lines, without Spark; ``past`` is SQL for lines that may go."""
    if open_table(path) is None:
        return []
    table = DeltaTable(path)  # Not `open_table`, whose result is shared: this table is written.
    care = TableCare(path, table, keep)
    if past and table.delete(past)["num_deleted_rows"]:
        care.did.append("old lines removed")
    if care.has_many_small_files(limits.SMALL_LINE_FILE_BYTES):
        table.optimize.compact(target_size=limits.SMALL_LINE_FILE_BYTES)
        # Otherwise the next reader of the table reads commits that each name all compacted files.
        table.create_checkpoint()
        care.did.append("optimized")
    oldest = table.version() - keep.versions + 1
    hours = care.hours(oldest)
    if hours is not None:
        table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
        care.did.append("vacuumed")
    return [care.done(name, oldest)]


def _table(runner: EpochContext, node: Node, name: str, care: TableCare, sql: Sql, keep: Retention) -> Maintained:
    # This comes first: a commit of OPTIMIZE may be the one at which Delta cleans its log.
    properties = KEPT if name in ("changelog", "table") else {**KEPT, "delta.appendOnly": "false"}
    if care.lacks(properties):
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({listed})")
    found = last_note(runner.paths(node).changelog)
    # The next epoch reads only the operator state of the last one.
    kept = {"memory": 1, "late": keep.late, "dead_letter": keep.dead_letter}.get(name)
    if found is not None and kept is not None and care.has_before(first := found[1].epoch - kept + 1):
        sql(f"DELETE FROM {{table}} WHERE epoch < {first}")
        care.did.append("old rows removed")
    if care.has_many_small_files(limits.SMALL_FILE_BYTES) or care.has_many_deletion_vectors:
        sql("OPTIMIZE {table}")
        care.did.append("optimized")
    crash.reached("maintained", node.name)
    oldest = oldest_needed(runner, node, care.path, keep.versions)
    hours = care.hours(oldest)
    if hours is not None:
        sql(f"VACUUM {{table}} RETAIN {hours} HOURS")
        care.did.append("vacuumed")
    return care.done(f"{node.name}/{name}", oldest)


def _past(runner: EpochContext, pipeline: Pipeline, keep: Retention) -> str:
    """SQL for measurements past their retention."""
    if keep.measured is None:
        return ""
    found = {node.name: last_note(runner.paths(node).changelog) for node in pipeline.stored}
    last = {name: newest[1].epoch for name, newest in found.items() if newest is not None}
    slots = [f"node = '{name}' AND epoch <= {epoch - keep.measured}" for name, epoch in last.items()]
    return f"kind = 'measured' AND ({' OR '.join(slots) or 'false'})"


def _statements(runner: EpochContext, node: Node, path: str, session: Callable[[], SparkSession]) -> Sql:
    """Runs statements on one table."""

    def run(statement: str) -> None:
        spark = session()
        runner.lock(node).uses(runner.engine, [spark])
        with _settings(spark):
            spark.sql(statement.format(table=f"delta.{quote(path)}"))

    return run


@contextmanager
def _settings(session: SparkSession) -> Iterator[None]:
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in _SETTINGS:
            session.conf.unset(name)
