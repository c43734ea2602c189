"""What each relation of the invariants is once an epoch is committed: what it touches, or everything.

| scope | when |
|---|---|
| ``epoch`` | the epoch was just committed, and folded on top of the one before it |
| ``whole`` | checks are run alone; the first epoch, a rebuild; a table that is behind its changelog, or ahead of it |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from assets.relations import InputRelations, Relations, at_version, bounds, lines, version_before, version_sql
from expectations.invariant import Scope, packed, relations_of
from expectations.results import Judged, Relation
from expectations.touched import needed, touched
from infra.changelog_files import epoch_rows
from infra.delta_io import notes, quoted, read
from infra.delta_lines import opened
from infra.inputs import sent
from infra.layout import NodeTables
from infra.plan import CommitNote, EpochPlan
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from infra.shared_frames import SharedFrames


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


def judged(spark: SparkSession, of: Committed, inputs: InputRelations | None, shared: SharedFrames) -> Judged:
    """The relations of stage ``table``, and how many rows each judges."""
    made = _Made(spark, of, inputs, shared)
    relations: Relations = {
        "changelog": made.changelog,
        "late": lambda: _late(spark, of.paths.late, of.plan),
        "bounds": made.bounds,
        **made.inputs_of_touched(),
    }
    checked: dict[str, int | None] = {
        "changelog": of.rows if of.scope == "epoch" else sum(end + 1 for end in of.note.ends.values()),
        "late": sum(part.records for part in of.plan.inputs.values()),
    }
    if of.table is not None:
        relations |= {"table": made.table, "sizes": made.sizes}
        relations |= {"was": made.was, "now": made.now}
        checked["table"] = of.rows if of.scope == "epoch" else rows_of_table(spark, of)
    return Judged(relations, checked, of.scope, shared.keep)


def rows_of_table(spark: SparkSession, of: Committed) -> int | None:
    """Rows of the folded table; Delta answers from the statistics of its log."""
    return None if of.table is None else read(spark, of.paths.table, of.table).count()


@dataclass
class _Made:
    spark: SparkSession
    of: Committed
    inputs: InputRelations | None
    shared: SharedFrames
    _changelog: Relation | None = None
    _touched: Relation | None = None
    _table: Relation | None = None

    def changelog(self) -> Relation:
        of = self.of
        if self._changelog is None and of.scope == "whole":
            self._changelog = at_version(self.spark, of.paths.changelog, of.version)
        elif self._changelog is None:
            epoch = of.plan.epoch
            sql = version_sql(of.paths.changelog, of.version, f"epoch = {epoch}")
            rows = epoch_rows(self.spark, of.paths.changelog, epoch, of.version)
            self._changelog = Relation(self.shared.keep(rows), sql)
        assert self._changelog is not None
        return self._changelog

    def bounds(self) -> Relation:
        return bounds(
            self.spark, self.of.plan if self.of.scope == "epoch" else self.of.plan.model_copy(update={"ends": {}})
        )

    def touched(self) -> Relation:
        """Keys that the epoch's input records could change, and those of its rows."""
        if self._touched is None:
            changelog, given = self.changelog(), touched(self.of.node)
            if given is None:
                # Its own rows tell all that it could change: asking for their keys costs less than a list of them.
                return changelog
            query = f"SELECT key FROM {{changelog}} WHERE key IS NOT NULL UNION {given}"
            named = {"changelog": changelog}
            if self.inputs is not None:
                named |= {name: make() for name, make in self.inputs.all().items() if name in relations_of(query)}
            if "stored" in relations_of(query):
                named["stored"] = self._stored()
            frame = self.spark.sql(query, **self._frames(named))
            sql = f"({query.format(**_texts(named))})"
            self._touched = Relation(self.shared.keep(frame.distinct()), sql)
        return self._touched

    def inputs_of_touched(self) -> Relations:
        """Relations of the inputs; in scope ``epoch`` a table's rows that touched keys are made of."""
        given = self.inputs.all() if self.inputs is not None else {}
        if self.of.scope == "whole":
            return given
        narrow: Relations = dict(given)
        for side, query in needed(self.of.node).items():
            if side in given:
                narrow[side] = cache(lambda side=side, query=query, seen=dict(narrow): self._needed(side, query, seen))
        return narrow

    def _needed(self, side: str, query: str, seen: Relations) -> Relation:
        named = {n: self.touched() if n == "touched" else seen[n]() for n in relations_of(query)}
        return Relation(
            self.shared.keep(self.spark.sql(query, **self._frames(named))), f"({query.format(**_texts(named))})"
        )

    def _stored(self) -> Relation:
        assert self.of.table is not None
        return at_version(self.spark, self.of.paths.table, self.of.table)

    def table(self) -> Relation:
        if self._table is None:
            stored = self._stored()
            self._table = stored if self.of.scope == "whole" else self._with_keys(stored, self.touched())
        return self._table

    def now(self) -> Relation:
        """The table's rows with a key of the changelog's."""
        if self.of.scope == "whole" or touched(self.of.node) is None:
            return self.table()
        return self._with_keys(self.table(), self.changelog())

    def was(self) -> Relation:
        """The same of the table before."""
        assert self.of.table is not None
        if self.of.scope == "whole" or self.of.before is None:
            return at_version(self.spark, self.of.paths.table, self.of.table, "false")
        old = at_version(self.spark, self.of.paths.table, self.of.before)
        return self._with_keys(old, self.changelog())

    def _with_keys(self, rows: Relation, keys: Relation) -> Relation:
        # As a column: of a struct that is written out, IN would compare the fields with so many columns.
        keyed = f"(SELECT *, {packed(self.of.node.key)} AS __key FROM {{rows}})"
        wanted = f"SELECT * EXCEPT (__key) FROM {keyed} WHERE __key IN (SELECT key FROM {{keys}})"
        frame = self.spark.sql(wanted, rows=rows.frame, keys=sent(keys.frame, self.of.plan))
        return Relation(self.shared.keep(frame), f"({wanted.format(rows=rows.sql, keys=keys.sql)})")

    def _frames(self, named: Mapping[str, Relation]) -> dict[str, Any]:
        """Frames by name; those of the epoch are few rows beside a table's."""
        few = ("touched", "new_left", "new_right")
        return {name: sent(one.frame, self.of.plan) if name in few else one.frame for name, one in named.items()}

    def sizes(self) -> Relation:
        of = self.of
        counted = f"(SELECT count(*) FROM delta.{quoted(of.paths.table)} VERSION AS OF "
        before = f"{counted}{of.before})" if of.scope == "epoch" else "0L"
        sql = f"(SELECT {before} AS before, {counted}{of.table}) AS after)"
        return Relation(self.spark.sql(f"SELECT * FROM {sql}"), sql)


def _texts(named: Mapping[str, Relation]) -> dict[str, str]:
    return {name: relation.sql for name, relation in named.items()}


def _late(spark: SparkSession, path: str, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped."""
    table = opened(path)
    if table is None:
        return lines(spark, {"reason": "STRING"}, [])
    return at_version(spark, path, table.version(), f"epoch = {plan.epoch}")
