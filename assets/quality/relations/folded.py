"""What each relation of the invariants is for a folded table: what the epochs since the last fold touch, or everything.

| scope | when |
|---|---|
| ``epoch`` | the table was folded on top of the fold before it, over one epoch or several |
| ``whole`` | the first fold, the fold of a rebuild, and checks that are run alone |

Several epochs are judged as one that read what they read together: a `span`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from assets.quality.relations.affected import Affected
from assets.quality.relations.inputs import Relations
from assets.quality.relations.sql import at_version, bounds, lines, version_sql
from expectations.invariant import Scope
from expectations.results import Judged, Relation
from expectations.rules.touched import touched
from infra.delta.changelog_files import records
from infra.delta.io import last_note, note_upto, notes, read
from infra.delta.layout import NodeTables
from infra.delta.lines import opened, rows_in
from infra.delta.plain_files import schema_at
from infra.epochs.column_ranges import ColumnRanges, has_range
from infra.epochs.inputs import broadcast_if_few
from infra.epochs.log import EpochLog
from infra.epochs.offsets import between_sql, count_between
from infra.epochs.plan import CommitNote, EpochPlan
from pipelines import Node
from pipelines.source import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 1_000_000
"""Rows of a table from which on a job that looks for the range of some keys costs less than it saves."""


@dataclass(frozen=True)
class Folded:
    """A node's folded table, and the epochs of its changelog that are judged with it.

    Attributes
    ----------
    span
        What these epochs read, as one plan; ``ends`` are the changelog's before them.
    version, note
        Of the changelog.
    table
        Version of the folded table; None where there is none.
    before
        Its version before the fold.
    """

    node: Node
    paths: NodeTables
    span: EpochPlan
    version: int
    note: CommitNote
    table: int | None = None
    before: int | None = None
    scope: Scope = "whole"

    @property
    def rows(self) -> int:
        """How many rows these epochs have."""
        return count_between(self.span.ends, self.note.ends)

    @cached_property
    def ranges(self) -> ColumnRanges:
        """Of the columns of these rows."""
        return ColumnRanges.of_changelog(self.paths.changelog, self.span.ends, self.note.ends)


def folded(node: Node, paths: NodeTables, log: EpochLog) -> Folded | None:
    """The node's newest fold, to be judged by what it folded; None where there is none."""
    found, table = list(islice(notes(paths.table), 8)), opened(paths.table)
    if not node.is_table or not found or table is None:
        return None
    note = found[0][1]
    version, committed = note_upto(paths.changelog, note.epoch)
    # Of the same incarnation alone: a table that a rebuild has replaced is judged as a whole.
    older = [(v, n.epoch) for v, n in found if n.incarnation == note.incarnation and n.epoch < note.epoch]
    plans = _plans(log, node, older[0][1], note) if older else None
    if plans is None:
        return whole(node, paths, log, table.version())
    return Folded(node, paths, span(plans), version, committed, table.version(), older[0][0], "epoch")


def whole(node: Node, paths: NodeTables, log: EpochLog, table: int | None) -> Folded:
    """Everything that a node has committed, or folded up to ``table``, a version of its folded table."""
    upto = next((note for v, note in notes(paths.table) if v <= table), None) if table is not None else None
    found = last_note(paths.changelog) if upto is None else note_upto(paths.changelog, upto.epoch)
    assert found is not None, f"'{node.name}' has committed nothing that could be judged"
    version, note = found
    plans = _plans(log, node, note.epoch - 1, note)
    assert plans is not None, f"epoch {note.epoch} of '{node.name}' was committed without a plan"
    return Folded(node, paths, plans[-1].model_copy(update={"ends": {}}), version, note, table)


def _plans(log: EpochLog, node: Node, after: int, upto: CommitNote) -> Sequence[EpochPlan] | None:
    """Plans of the epochs ``(after, upto]``; None where the log lacks the last of them."""
    bodies = log.lines(node.name, "plan", after)
    refused = log.lines(node.name, "refused", after)
    plans = [EpochPlan.model_validate_json(b) for e, b in bodies.items() if e <= upto.epoch and e not in refused]
    mine = [plan for plan in plans if plan.incarnation == upto.incarnation]
    return mine if mine and mine[-1].epoch == upto.epoch else None


def span(plans: Sequence[EpochPlan]) -> EpochPlan:
    """One plan that reads what these read together, one after the other."""
    first, last = plans[0], plans[-1]
    inputs = {
        side: part.model_copy(
            update={
                "after": first.inputs[side].after,
                "table_version": first.inputs[side].table_version,
                "table_ends": first.inputs[side].table_ends,
            }
        )
        for side, part in last.inputs.items()
    }
    before = {"ends": first.ends, "stream_time": first.stream_time, "previous_epoch": first.previous_epoch}
    return last.model_copy(update={"inputs": inputs, "output_version": first.output_version, **before})


def changelog(spark: SparkSession, of: Folded) -> Relation:
    """Rows of the changelog that are judged."""
    path = of.paths.changelog
    if of.scope == "whole":
        return at_version(spark, path, of.version)
    rows = records(spark, path, of.span.ends, of.note.ends, of.version)
    sql = version_sql(path, of.version, between_sql(of.span.ends, of.note.ends))
    return Relation(broadcast_if_few(rows, max(of.rows, of.span.records)), sql)


def stored(spark: SparkSession, of: Folded) -> Relation:
    """The whole folded table."""
    assert of.table is not None
    return at_version(spark, of.paths.table, of.table)


def judged(spark: SparkSession, of: Folded, changelog: Relation, affected: Affected) -> Judged:
    """The relations of stage ``table``, and how many rows each judges.

    Parameters
    ----------
    affected
        What the epochs affect of the inputs; in scope ``whole`` all of them count.
    """
    made = _Made(spark, of, changelog, affected)
    relations: Relations = {
        "changelog": lambda: changelog,
        "late": lambda: dropped(spark, of.paths.late, of.span),
        "bounds": lambda: bounds(spark, of.span),
    }
    if of.scope == "epoch":
        relations |= affected.relations
    elif affected.inputs is not None:
        relations |= affected.inputs.all()
    checked: dict[str, int | None] = {
        "changelog": of.rows,
        "read": sum(part.records for part in of.span.inputs.values()),
    }
    if of.table is not None:
        relations |= {"table": made.table, "sizes": made.sizes}
        relations |= {"was": made.was, "now": made.now}
        checked["table"] = of.rows if of.scope == "epoch" else rows_of_table(spark, of)
    return Judged(relations, checked, of.scope, affected.shared.keep)


def rows_of_table(spark: SparkSession, of: Folded) -> int | None:
    """Rows of the folded table; Delta answers from the statistics of its log."""
    if of.table is None:
        return None
    known = _rows_of(of, of.table)
    return known if known is not None else read(spark, of.paths.table, of.table).count()


def _rows_of(of: Folded, version: int | None) -> int | None:
    table = opened(of.paths.table, version)
    return None if table is None else rows_in(table)


@dataclass
class _Made:
    spark: SparkSession
    of: Folded
    changelog: Relation
    affected: Affected
    _table: Relation | None = None
    _failed: Exception | None = None

    def table(self) -> Relation:
        # Where it cannot be narrowed, every rule that names it is not evaluated: on the whole table, rows that the
        # epoch does not touch would be violations (tests/expectations/test_scopes.py).
        if self._failed is not None:
            raise self._failed
        if self._table is None:
            try:
                self._table = self._touched()
            except Exception as error:
                self._failed = error
                raise
        return self._table

    def _touched(self) -> Relation:
        rows = stored(self.spark, self.of)
        if self.of.scope == "whole":
            return rows
        narrow = self.affected.with_keys(rows, self.affected.touched(), within=self._within())
        return replace(narrow, frame=self.affected.few(narrow.frame))

    def _within(self) -> str | None:
        """SQL for the range of the touched keys, where the table is large enough to be worth a look at them."""
        rows, kinds = _rows_of(self.of, self.of.table), schema_at(self.of.paths.table, self.of.table)
        numbers = [column for column in self.of.node.key if has_range(kinds[column].dataType)]
        if rows is None or rows < LARGE or not numbers:
            return None
        touched = self.affected.touched().frame
        return ColumnRanges.of_rows(touched, [f"key.{column}" for column in numbers]).sql_of_key(numbers)

    def now(self) -> Relation:
        """The table's rows with a key of the changelog's."""
        if self.of.scope == "whole" or touched(self.of.node) is None:
            return self.table()
        return self.affected.with_keys(self.table(), self.changelog)

    def was(self) -> Relation:
        """Keys of the changelog's that the table had before; key columns alone."""
        of = self.of
        assert of.table is not None
        if of.scope == "whole" or of.before is None:
            return self.affected.was(at_version(self.spark, of.paths.table, of.table, "false"))
        before = at_version(self.spark, of.paths.table, of.before)
        return self.affected.was(before, of.ranges.sql_of_key(of.node.key))

    def sizes(self) -> Relation:
        of = self.of
        counted = f"(SELECT count(*) FROM delta.{quoted(of.paths.table)} VERSION AS OF "
        before = f"{counted}{of.before})" if of.scope == "epoch" else "0L"
        sql = f"(SELECT {before} AS before, {counted}{of.table}) AS after)"
        sizes = [0 if of.scope == "whole" else _rows_of(of, of.before), _rows_of(of, of.table)]
        if None in sizes:
            return Relation(self.spark.sql(f"SELECT * FROM {sql}"), sql)
        return Relation(lines(self.spark, {"before": "BIGINT", "after": "BIGINT"}, [tuple(sizes)]).frame, sql)


def dropped(spark: SparkSession, path: str, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped: the last of those that are judged."""
    table = opened(path)
    if table is None:
        return lines(spark, {"reason": "STRING"}, [])
    return at_version(spark, path, table.version(), f"epoch = {plan.epoch}")
