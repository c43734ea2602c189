"""What each relation of the invariants is once an epoch is committed: what it touches, or everything.

| scope | when |
|---|---|
| ``epoch`` | the epoch was just committed, and folded on top of the one before it |
| ``whole`` | checks are run alone; the first epoch, a rebuild; a table that is behind its changelog, or ahead of it |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from assets.quality.relations.affected import Affected, AuditCache
from assets.quality.relations.inputs import Relations
from assets.quality.relations.sql import at_version, bounds, lines, version_before, version_sql
from expectations.invariant import Scope
from expectations.results import Judged, Relation
from expectations.rules.touched import touched
from infra.delta.io import notes, quoted, read
from infra.delta.layout import NodeTables
from infra.delta.lines import opened, rows_in
from infra.epochs.inputs import broadcast_if_few
from infra.epochs.plan import CommitNote, EpochPlan
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Committed:
    """A node's committed epoch, and the versions of its tables that are judged.

    Attributes
    ----------
    version, note
        Of the changelog.
    table
        Version of the folded table; None where there is none.
    before
        Its version before the epoch.
    """

    node: Node
    paths: NodeTables
    plan: EpochPlan
    version: int
    note: CommitNote
    table: int | None = None
    before: int | None = None
    scope: Scope = "whole"

    @property
    def rows(self) -> int:
        """How many rows the epoch has."""
        return sum(end - self.plan.ends.get(p, -1) for p, end in self.note.ends.items())


def committed(node: Node, paths: NodeTables, plan: EpochPlan, alone: bool) -> Committed:
    """What is there to judge; ``alone``: everything is."""
    # Another run may have gone on since: what is judged is the tables as this epoch left them.
    version, note = next((v, n) for v, n in notes(paths.changelog) if n.epoch <= plan.epoch)
    goes_on = not alone and plan.previous_epoch > 0 and not plan.replaces
    table = opened(paths.table) if node.is_table else None
    if table is None:
        return Committed(node, paths, plan, version, note, scope="epoch" if goes_on and not node.is_table else "whole")
    before = version_before(paths.table, plan)
    folded = {v: n.epoch for v, n in islice(notes(paths.table), 8)}
    goes_on = goes_on and plan.epoch in folded.values() and folded.get(before or 0) == plan.previous_epoch
    later = [v for v, epoch in folded.items() if epoch > plan.epoch]
    now = min(later) - 1 if later else table.version()
    return Committed(node, paths, plan, version, note, now, before, "epoch" if goes_on else "whole")


def changelog(spark: SparkSession, of: Committed, rows: DataFrame) -> Relation:
    """Rows of the changelog that are judged; ``rows`` are the epoch's, as committed."""
    if of.scope == "whole":
        return at_version(spark, of.paths.changelog, of.version)
    sql = version_sql(of.paths.changelog, of.version, f"epoch = {of.plan.epoch}")
    return Relation(broadcast_if_few(rows, max(of.rows, of.plan.records)), sql)


def stored(spark: SparkSession, of: Committed) -> Relation:
    """The whole folded table."""
    assert of.table is not None
    return at_version(spark, of.paths.table, of.table)


def judged(
    spark: SparkSession, of: Committed, changelog: Relation, affected: Affected, cache: AuditCache | None
) -> Judged:
    """The relations of stage ``table``, and how many rows each judges.

    Parameters
    ----------
    affected
        What the epoch affects of the inputs; in scope ``whole`` all of them count.
    cache
        What the epoch's audit has read.
    """
    made = _Made(spark, of, changelog, affected, cache)
    relations: Relations = {
        "changelog": lambda: changelog,
        "late": lambda: _late(spark, of.paths.late, of.plan),
        "bounds": made.bounds,
    }
    if of.scope == "epoch":
        relations |= affected.relations
    elif affected.inputs is not None:
        relations |= affected.inputs.all()
    checked: dict[str, int | None] = {
        "changelog": of.rows if of.scope == "epoch" else sum(end + 1 for end in of.note.ends.values()),
        "late": sum(part.records for part in of.plan.inputs.values()),
    }
    if of.table is not None:
        relations |= {"table": made.table, "sizes": made.sizes}
        relations |= {"was": made.was, "now": made.now}
        checked["table"] = of.rows if of.scope == "epoch" else rows_of_table(spark, of)
    return Judged(relations, checked, of.scope, affected.shared.keep)


def rows_of_table(spark: SparkSession, of: Committed) -> int | None:
    """Rows of the folded table; Delta answers from the statistics of its log."""
    if of.table is None:
        return None
    known = _rows_of(of, of.table)
    return known if known is not None else read(spark, of.paths.table, of.table).count()


def _rows_of(of: Committed, version: int | None) -> int | None:
    table = opened(of.paths.table, version)
    return None if table is None else rows_in(table)


@dataclass
class _Made:
    spark: SparkSession
    of: Committed
    changelog: Relation
    affected: Affected
    cache: AuditCache | None
    _table: Relation | None = None
    _failed: Exception | None = None

    def bounds(self) -> Relation:
        return bounds(
            self.spark, self.of.plan if self.of.scope == "epoch" else self.of.plan.model_copy(update={"ends": {}})
        )

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
        narrow = self.affected.with_keys(rows, self.affected.touched())
        return replace(narrow, frame=self.affected.few(narrow.frame))

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
        known = self.cache.was.get(of.before) if self.cache is not None else None
        return known or self.affected.was(at_version(self.spark, of.paths.table, of.before))

    def sizes(self) -> Relation:
        of = self.of
        counted = f"(SELECT count(*) FROM delta.{quoted(of.paths.table)} VERSION AS OF "
        before = f"{counted}{of.before})" if of.scope == "epoch" else "0L"
        sql = f"(SELECT {before} AS before, {counted}{of.table}) AS after)"
        sizes = [0 if of.scope == "whole" else _rows_of(of, of.before), _rows_of(of, of.table)]
        if None in sizes:
            return Relation(self.spark.sql(f"SELECT * FROM {sql}"), sql)
        return Relation(lines(self.spark, {"before": "BIGINT", "after": "BIGINT"}, [tuple(sizes)]).frame, sql)


def _late(spark: SparkSession, path: str, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped."""
    table = opened(path)
    if table is None:
        return lines(spark, {"reason": "STRING"}, [])
    return at_version(spark, path, table.version(), f"epoch = {plan.epoch}")
