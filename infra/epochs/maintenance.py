"""Maintenance: small files are compacted, and files that no run can need are removed.

For each table, in this order, under the lock of its node:

| what | bound |
|---|---|
| rows | operator state of epochs before the last; late and dead rows past a retention that was requested |
| OPTIMIZE | if more than `Retention.small_files` files are small, or there are as many deletion vectors |
| VACUUM | files that no version since the oldest needed one has (below), after an hour or two |
| log | entries below that version (``infra/delta/location.py``) |

The writer of a table maintains it: Spark the nodes' tables, delta-rs those of lines. The commits carry no note and no
transaction id, so positions and plans ignore them. A kill at any point changes no result.

The oldest needed version of a table, and all newer ones, stay readable:

| reader | needs |
|---|---|
| a plan that is logged and not committed | the version that it pins |
| the next plan of a join, however far behind | the newest version that is not past what the join has consumed |
| the next run of the node itself | the commit with the newest note |
| a running query | one of the newest versions; a number of them is kept |

    table: versions 3 (up to offset 10), 4 (20), 5 (30), 6 (OPTIMIZE); a join has consumed up to 20
    the join's next plan pins 4 or a newer one       oldest needed: 4
    a plan of it from before version 4 is open       oldest needed: 3
    the join has never run                           oldest needed: 0, because its plan may pin any

Plans are never removed: a result is a function of the recorded cuts, and a source's plans say which files were
consumed. ``delta.deletedFileRetentionDuration`` is not changed, because Delta refuses to read a version that is older,
even if its files exist.

Why: ``docs/decisions/one-commit-is-the-epoch.md``. Held by ``tests/infra/delta/test_maintenance.py`` and
``tests/infra/delta/test_many_epochs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from deltalake import DeltaTable
from filelock import FileLock
from pyspark.sql import SparkSession

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote, within
from rivermeet.infra.delta.io import notes, session_settings
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.location import KEPT
from rivermeet.infra.delta.table_care import Maintained, Retention, TableCare
from rivermeet.infra.epochs.context import EpochContext
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
    context: EpochContext, pipeline: Pipeline, session: Callable[[], SparkSession], keep: Retention | None = None
) -> list[Maintained]:
    """Maintain all tables of a pipeline and its epoch log; return what was done, table by table.

    ``session`` opens one whose settings may be changed; it is called only if Spark has something to do.
    """
    keep = keep or Retention()
    context.locks.mkdir(parents=True, exist_ok=True)
    with FileLock(context.locks / f"{pipeline.name}.maintenance.lock"):
        done: list[Maintained] = []
        for node in pipeline.stored:
            lock = context.lock(node)
            with lock.hold():
                for name in TABLES:
                    path = getattr(context.paths(node), name)
                    table = open_table(path)
                    if table is not None:
                        care = TableCare(path, table, keep)
                        done.append(_table(context, node, name, care, _statements(context, node, path, session), keep))
        return done + maintain_lines(context.log.path, "epoch log", keep, _past(context, pipeline, keep))


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


def _table(context: EpochContext, node: Node, name: str, care: TableCare, sql: Sql, keep: Retention) -> Maintained:
    # This comes first: a commit of OPTIMIZE may be the one at which Delta cleans its log.
    properties = KEPT if name in ("changelog", "table") else {**KEPT, "delta.appendOnly": "false"}
    if care.lacks(properties):
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({listed})")
    found = context.read_note(node)
    # The next epoch reads only the operator state of the last one.
    kept = {"memory": 1, "late": keep.late, "dead_letter": keep.dead_letter}.get(name)
    if found is not None and kept is not None and care.has_before(first := found.epoch - kept + 1):
        sql(f"DELETE FROM {{table}} WHERE epoch < {first}")
        care.did.append("old rows removed")
    if care.has_many_small_files(limits.SMALL_FILE_BYTES) or care.has_many_deletion_vectors:
        sql("OPTIMIZE {table}")
        care.did.append("optimized")
    crash.crash_at("maintained", node.name)
    oldest = oldest_needed(context, node, care.path, keep.versions)
    hours = care.hours(oldest)
    if hours is not None:
        sql(f"VACUUM {{table}} RETAIN {hours} HOURS")
        care.did.append("vacuumed")
    return care.done(f"{node.name}/{name}", oldest)


def oldest_needed(context: EpochContext, node: Node, path: str, newest: int) -> int:
    """The oldest needed version of the node's table at ``path``; 0 if it is unknown.

    Running queries may need the ``newest`` versions; plans pin changelogs and folded tables only.
    """
    table, paths = open_table(path), context.paths(node)
    if table is None:
        return 0
    kept = [table.version() - newest + 1]
    if path in (paths.changelog, paths.table):
        ours = list(notes(path))
        if not ours:
            return 0
        kept.append(ours[0][0])
        for reader, side in _readers(node):
            kept += _find_pinned(context, reader, side, ours, path == paths.table)
    return max(0, min(kept))


def _find_pinned(
    context: EpochContext, reader: Node, side: str, ours: Sequence[tuple[int, CommitNote]], folded: bool
) -> Iterator[int]:
    """The versions that the reader's logged plans and its next plan pin."""
    # The position is read first: a plan that is made later pins nothing older.
    found = context.read_note(reader)
    for plan in context.log.open_plans(reader.name, found.epoch if found else 0).values():
        part = plan.inputs.get(side)
        pin = part and (part.table_version if folded else part.version)
        if pin is not None:
            yield pin
    incarnation = ours[0][1].incarnation
    if found is None or found.incarnations.get(side, 1) != incarnation:
        yield 0
        return
    consumed = found.consumed.get(side, {})
    yield next((v for v, note in ours if note.incarnation == incarnation and within(note.ends, consumed)), 0)


def _readers(node: Node) -> Iterator[tuple[Node, str]]:
    for reader in node.pipeline.stored:
        if reader.operation is not None:
            for side, part in reader.operation.stored_inputs.items():
                if part is node:
                    yield reader, side


def _past(context: EpochContext, pipeline: Pipeline, keep: Retention) -> str:
    if keep.measured is None:
        return ""
    found = {node.name: context.read_note(node) for node in pipeline.stored}
    slots = [f"node = '{name}' AND epoch <= {note.epoch - keep.measured}" for name, note in found.items() if note]
    return f"kind = 'measured' AND ({' OR '.join(slots) or 'false'})"


def _statements(context: EpochContext, node: Node, path: str, session: Callable[[], SparkSession]) -> Sql:
    def run(statement: str) -> None:
        spark = session()
        context.lock(node).uses(context.engine, [spark])
        with session_settings(spark, _SETTINGS):
            spark.sql(statement.format(table=f"delta.{quote(path)}"))

    return run
