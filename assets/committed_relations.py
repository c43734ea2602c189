"""What each relation of the invariants is once an epoch is committed: what it touches, or everything.

| scope | when |
|---|---|
| ``epoch`` | the epoch was just committed, and folded on top of the one before it |
| ``whole`` | checks are run alone; the first epoch, a rebuild; a table that is behind its changelog, or ahead of it |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING

from assets.relations import InputRelations, Relations, at_version, bounds, lines, version_before, version_sql
from expectations.invariant import Scope, packed, relations_of
from expectations.results import Judged, Relation, asked
from expectations.touched import needed, reached, touched
from infra.delta_io import notes, quoted, read
from infra.delta_lines import opened, rows_in
from infra.inputs import sent
from infra.layout import NodeTables
from infra.plan import CommitNote, EpochPlan
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def judged(
    spark: SparkSession, of: Committed, rows: DataFrame, inputs: InputRelations | None, shared: SharedFrames
) -> Judged:
    """The relations of stage ``table``, and how many rows each judges; ``rows`` are the epoch's, as committed."""
    made = _Made(spark, of, rows, inputs, shared)
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
    if of.table is None:
        return None
    told = _rows_of(of, of.table)
    return told if told is not None else read(spark, of.paths.table, of.table).count()


def _rows_of(of: Committed, version: int | None) -> int | None:
    table = opened(of.paths.table, version)
    return None if table is None else rows_in(table)


@dataclass
class _Made:
    spark: SparkSession
    of: Committed
    rows: DataFrame
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
            self._changelog = Relation(self._sent(self.rows), sql)
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
            named = {"changelog": changelog, **self._named(query, self._reached)}
            if "stored" in relations_of(query):
                named["stored"] = self._stored()
            frame = asked(self.spark, query, named)
            sql = f"({query.format(**_texts(named))})"
            self._touched = Relation(self._few(frame.distinct()), sql)
        return self._touched

    @cached_property
    def _reached(self) -> Relations:
        """Relations of the inputs, but of some sides only the rows that the epoch reaches."""
        found: Relations = dict(self.inputs.all()) if self.inputs is not None else {}
        for side, query in reached(self.of.node).items():
            if side in found:
                found[side] = cache(lambda query=query, seen=dict(found): self._kept(query, seen))
        return found

    def inputs_of_touched(self) -> Relations:
        """Relations of the inputs; in scope ``epoch`` a table's rows that touched keys are made of."""
        if self.of.scope == "whole":
            return self.inputs.all() if self.inputs is not None else {}
        narrow = dict(self._reached)
        for side, query in needed(self.of.node).items():
            if side in narrow:
                narrow[side] = cache(lambda query=query, seen=dict(narrow): self._kept(query, seen))
        return narrow

    def _named(self, query: str, relations: Relations) -> dict[str, Relation]:
        own = {"touched": self.touched, "changelog": self.changelog}
        return {n: (own.get(n) or relations[n])() for n in relations_of(query) if n in own or n in relations}

    def _kept(self, query: str, seen: Relations) -> Relation:
        named = self._named(query, seen)
        frame = asked(self.spark, query, named)
        return Relation(self._few(frame), f"({query.format(**_texts(named))})")

    def _stored(self) -> Relation:
        assert self.of.table is not None
        return at_version(self.spark, self.of.paths.table, self.of.table)

    def table(self) -> Relation:
        if self._table is None:
            self._table = self._stored()
            if self.of.scope == "epoch":
                narrow = self._with_keys(self._table, self.touched())
                self._table = replace(narrow, frame=self._few(narrow.frame))
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
        frame = asked(self.spark, wanted, {"rows": rows, "keys": keys})
        return Relation(frame, f"({wanted.format(rows=rows.sql, keys=keys.sql)})")

    def _few(self, frame: DataFrame) -> DataFrame:
        """What the epoch has or reaches: few rows beside a table's."""
        return self._sent(self.shared.keep(frame))

    def _sent(self, frame: DataFrame) -> DataFrame:
        return sent(frame, max(self.of.rows, self.of.plan.records))

    def sizes(self) -> Relation:
        of = self.of
        counted = f"(SELECT count(*) FROM delta.{quoted(of.paths.table)} VERSION AS OF "
        before = f"{counted}{of.before})" if of.scope == "epoch" else "0L"
        sql = f"(SELECT {before} AS before, {counted}{of.table}) AS after)"
        sizes = [0 if of.scope == "whole" else _rows_of(of, of.before), _rows_of(of, of.table)]
        if None in sizes:
            return Relation(self.spark.sql(f"SELECT * FROM {sql}"), sql)
        return Relation(lines(self.spark, {"before": "BIGINT", "after": "BIGINT"}, [tuple(sizes)]).frame, sql)


def _texts(named: Mapping[str, Relation]) -> dict[str, str]:
    return {name: relation.sql for name, relation in named.items()}


def _late(spark: SparkSession, path: str, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped."""
    table = opened(path)
    if table is None:
        return lines(spark, {"reason": "STRING"}, [])
    return at_version(spark, path, table.version(), f"epoch = {plan.epoch}")
