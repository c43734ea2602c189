"""What each relation of the invariants is for a node and a plan: exactly what the plan could see.

A relation is made when a query first names it. What is small, and read by several queries, is computed once; a table
is not: queries ask it for the keys that they need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from assets.quality.relations.sql import lines
from expectations.results import Relation
from infra.delta.io import notes
from infra.epochs.inputs import broadcast_if_few, pinned_table
from infra.epochs.offsets import between_sql
from infra.epochs.plan import EpochPlan
from joins.equal_columns import needed_rows, rows_of_result
from pipelines import Node
from pipelines.source import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from infra.engine.shared_frames import SharedFrames
    from infra.epochs.column_ranges import ColumnRanges
    from infra.epochs.inputs import PinnedInputs

Relations = dict[str, Callable[[], Relation]]
_RECORD = "key, value, timestamp, partition, offset"


def effective(node: Node, plan: EpochPlan) -> Node:
    """The node as the plan runs it: rebuilt with another grace, it has that one."""
    if plan.grace is None or node.operation is None:
        return node
    return replace(node, origin=node.operation.with_grace(plan.grace))


@dataclass
class InputRelations:
    """Relations of a computed node's inputs.

    Attributes
    ----------
    node
        As the plan runs it.
    everything
        Whether the consumed records are all of them, and not the epoch's.
    result
        Gives ranges of the rows that are judged; None where they are unknown.
    """

    spark: SparkSession
    node: Node
    pinned: PinnedInputs
    shared: SharedFrames
    everything: bool = False
    result: Callable[[], ColumnRanges] | None = None
    _made: Relations = field(default_factory=dict)

    @property
    def plan(self) -> EpochPlan:
        """What they are as of."""
        return self.pinned.plan

    def all(self) -> Relations:
        """Every relation of the inputs that there is for the node's family, each made once."""
        if not self._made:
            self._made = {name: cache(make) for name, make in self._named().items()}
        return self._made

    def needed(self) -> Relations:
        """Relations of tables without most of the rows that neither the epoch's records nor its own rows can meet."""
        made, result, found = self.node.operation, self.result, Relations()
        if made is None or result is None or self.everything:
            return found
        ways, own, ranges = needed_rows(made), rows_of_result(made), cache(result)
        for side in ways.keys() & own.keys():
            if made.inputs[side].is_table and not made.reads_history(side):
                where = cache(lambda side=side: self.pinned.needed(side, [*ways[side], own[side]], ranges()))
                found[side] = cache(lambda side=side, where=where: self._table(side, "after", where()))
                found[f"{side}_before"] = cache(lambda side=side, where=where: self._table(side, "before", where()))
        return found

    def _named(self) -> Relations:
        found: Relations = {"unread": self._unread}
        made = self.node.operation
        if made is None:
            return found
        for side, given in made.inputs.items():
            if not given.is_stored:
                continue
            found[f"new_{side}"] = lambda side=side: self._new(side)
            if made.open_ms is not None:
                found[side] = lambda side=side: self._in_reach(side)
            elif made.reads_history(side):
                found[side] = lambda side=side: self._history(side)
            elif given.is_table:
                found[side] = lambda side=side: self._table(side, "after")
                found[f"{side}_before"] = lambda side=side: self._table(side, "before")
        return found

    @property
    def slack(self) -> int:
        """How long (ms) after its timestamp a record can matter."""
        return (self.node.operation.open_ms or 0) if self.node.operation is not None else 0

    def _at(self, side: str) -> str:
        return f"delta.{quoted(self.pinned.paths(side).changelog)} VERSION AS OF {self.plan.inputs[side].version}"

    def _new(self, side: str) -> Relation:
        part = self.plan.inputs[side]
        after = {} if self.everything else part.after
        sql = f"(SELECT {_RECORD} FROM {self._at(side)} WHERE {between_sql(after, part.upto)})"
        if self.everything:
            return Relation(self.pinned.changelog(side, {}, part.upto), sql)
        if self.node.operation is not None and self.node.operation.open_ms is not None:
            return Relation(self.all()[side]().frame.where("is_new").drop("is_new"), sql)
        return Relation(broadcast_if_few(self.shared.keep_if_few(self.pinned.new(side)), part.records), sql)

    def _in_reach(self, side: str) -> Relation:
        from pyspark.sql import functions as F

        part = self.plan.inputs[side]
        new = between_sql(part.after, part.upto)
        still = f"({between_sql({}, part.after)}) AND ({self.pinned.open_sql(self.slack)})"
        sql = f"(SELECT {_RECORD}, ({new}) AS is_new FROM {self._at(side)} WHERE ({new}) OR ({still}))"
        earlier = self.pinned.open_records(side, self.slack).withColumn("is_new", F.lit(False))
        frame = self.pinned.new(side).withColumn("is_new", F.lit(True)).unionByName(earlier)
        return Relation(self.shared.keep_if_few(frame), sql)

    def _history(self, side: str) -> Relation:
        part = self.plan.inputs[side]
        new, known = between_sql(part.after, part.upto), between_sql({}, part.upto)
        sql = f"(SELECT {_RECORD}, ({new}) AS is_new FROM {self._at(side)} WHERE {known})"
        return Relation(self.pinned.changelog(side, {}, part.upto).selectExpr("*", f"({new}) AS is_new"), sql)

    def _table(self, side: str, moment: str, needed: str | None = None) -> Relation:
        part = self.plan.inputs[side]
        position = part.after if moment == "before" else part.upto
        records = f"SELECT * FROM {self._at(side)} WHERE ({between_sql({}, position)}) AND key IS NOT NULL"
        last = "max_by(struct(value, timestamp, partition, offset), offset) AS last"
        sql = (
            f"(SELECT key, last.* FROM (SELECT key, {last} FROM ({records}) GROUP BY key) WHERE last.value IS NOT NULL)"
        )
        # What the plan pinned is the table before the epoch; what its source has folded since may be that after it.
        version, ends = pinned_table(self.pinned.paths(side).table, position, part.incarnation)
        at = part.model_copy(update={"table_version": version, "table_ends": ends, "upto": position})
        pinned = replace(self.pinned, plan=self.plan.model_copy(update={"inputs": {**self.plan.inputs, side: at}}))
        return Relation(pinned.table(side, "after", needed), sql)

    def _unread(self) -> Relation:
        """Records that an input had when the epoch was planned, and that it left for later."""
        rows = []
        for side, part in self.plan.inputs.items():
            there = next((n.ends for v, n in notes(self.pinned.paths(side).changelog) if v <= part.version), {})
            rows += [(f"'{side}'", p, end - part.upto.get(p, -1)) for p, end in there.items()]
        columns = {"side": "STRING", "partition": "INT", "records": "BIGINT"}
        return lines(self.spark, columns, [row for row in rows if row[2] > 0])
