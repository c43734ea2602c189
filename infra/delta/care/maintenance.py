"""Maintenance: small files become large ones, and what no run can need any more goes.

For each table, in this order, under the lock of its node:

| what | bound |
|---|---|
| rows | what an operator remembers of epochs before the last; late and dead rows past a retention that was requested |
| OPTIMIZE | where more than `Retention.small_files` files are small, or as many deletion vectors lie about |
| VACUUM | files that no version since the oldest needed one has (``oldest_needed.py``), and an hour or two more |
| log | what lies below that version (``infra/delta/log.py``) |

Whoever writes a table maintains it: Spark the nodes' tables, delta-rs those of lines. The commits carry no note and no
transaction id, so that positions and plans look through them. Killed anywhere, nothing that counts has changed.

Plans are never removed: they are the recorded cuts that a result is a function of, and a source's say which files were
consumed. ``delta.deletedFileRetentionDuration`` stays as it is, since Delta refuses to read a version that is older,
whether its files are there or not. Held by ``tests/infra/delta/test_maintenance.py`` and
``tests/infra/delta/test_many_epochs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from filelock import FileLock
from pyspark.sql import SparkSession

from rivermeet.infra import crash
from rivermeet.infra.delta.care.oldest_needed import oldest_needed
from rivermeet.infra.delta.care.table_care import Maintained, Retention, TableCare
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import opened
from rivermeet.infra.delta.log import KEPT
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.source import quoted

TABLES = ("changelog", "table", "memory", "late", "dead_letter", "rejected", "quarantine")
SMALL = 16 * 2**20
"""Bytes below which a file is put together with others; a larger one is written once and then left."""
SMALL_LINES = 2**20
"""The same for lines: of files that follow each other in time, a look at the newest lines opens the last one only."""
_SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL),
    # VACUUM is to take the bound that it is given, and to add no commits of its own.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
}
Sql = Callable[[str], None]


def maintain(
    runner: EpochContext, pipeline: Pipeline, session: Callable[[], SparkSession], keep: Retention | None = None
) -> list[Maintained]:
    """Maintain all tables of a pipeline and its epoch log; what was done, table by table.

    Parameters
    ----------
    session
        Gives a session whose settings may be changed meanwhile; opened only where Spark has something to do.
    """
    keep = keep or Retention()
    runner.locks.mkdir(parents=True, exist_ok=True)
    with FileLock(runner.locks / f"{pipeline.name}.maintenance.lock"):
        done: list[Maintained] = []
        for node in pipeline.stored:
            lock = runner.lock(node)
            with lock.held():
                for name in TABLES:
                    path = getattr(runner.paths(node), name)
                    table = opened(path)
                    if table is not None:
                        care = TableCare(path, table, keep)
                        done.append(_table(runner, node, name, care, _statements(runner, node, path, session), keep))
        return done + maintain_lines(runner.log.path, "epoch log", keep, _past(runner, pipeline, keep))


def maintain_lines(path: str, name: str, keep: Retention, past: str = "") -> list[Maintained]:
    """Maintain a table of lines, without Spark; ``past`` is SQL for lines that may go."""
    if opened(path) is None:
        return []
    table = DeltaTable(path)  # It is written with, and `opened` gives what others read too.
    care = TableCare(path, table, keep)
    if past and table.delete(past)["num_deleted_rows"]:
        care.did.append("old lines removed")
    if care.crumbled(SMALL_LINES):
        table.optimize.compact(target_size=SMALL_LINES)
        # Without it, whoever opens the table next reads commits that each name all that was put together.
        table.create_checkpoint()
        care.did.append("optimized")
    oldest = table.version() - keep.versions + 1
    hours = care.hours(oldest)
    if hours is not None:
        table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
        care.did.append("vacuumed")
    return [care.done(name, oldest)]


def _table(runner: EpochContext, node: Node, name: str, care: TableCare, sql: Sql, keep: Retention) -> Maintained:
    # First of all: a commit of OPTIMIZE may be the one with which Delta cleans its log.
    properties = KEPT if name in ("changelog", "table") else {**KEPT, "delta.appendOnly": "false"}
    if care.lacks(properties):
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({listed})")
    found = last_note(runner.paths(node).changelog)
    # What an operator remembers of its last epoch is all that the next one reads.
    kept = {"memory": 1, "late": keep.late, "dead_letter": keep.dead_letter}.get(name)
    if found is not None and kept is not None and care.has_before(first := found[1].epoch - kept + 1):
        sql(f"DELETE FROM {{table}} WHERE epoch < {first}")
        care.did.append("old rows removed")
    if care.crumbled(SMALL) or care.scattered:
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
            spark.sql(statement.format(table=f"delta.{quoted(path)}"))

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
