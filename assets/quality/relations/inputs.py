"""What each relation of the invariants is for a node's inputs: exactly what the plan could see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rivermeet.assets.quality.relations.lines import lines
from rivermeet.assets.quality.relations.parts import TableRows
from rivermeet.expectations.invariant import quoted
from rivermeet.expectations.results import Relation
from rivermeet.expectations.rules.record_sql import last_of
from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.changelog_files import files_of, files_with
from rivermeet.infra.delta.io import notes
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.offsets import any_of_sql, between_sql
from rivermeet.infra.delta.plain_files import fields_at, schema_at
from rivermeet.infra.epochs.inputs import open_sql, pin_table
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node
from rivermeet.records.type_text import type_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

Relations = dict[str, Callable[[], Relation]]
TAIL = "key, value, timestamp, partition, offset, epoch"
"""Columns of the records that come to a folded table."""


def effective(node: Node, plan: EpochPlan) -> Node:
    """The node as the plan runs it: rebuilt with another grace, it has that one."""
    if plan.grace is None or node.operation is None:
        return node
    return replace(node, origin=node.operation.with_grace(plan.grace))


@dataclass(frozen=True)
class InputRelations:
    """Relations of a computed node's inputs; of a source there are none.

    Attributes
    ----------
    node
        As the plan runs it.
    everything
        Whether the consumed records are all of them, and not the epoch's.
    """

    node: Node
    plan: EpochPlan
    tables: str
    everything: bool = False

    def all(self) -> Relations:
        """Every relation of the inputs that there is for the node's family."""
        made = self.node.operation
        if made is None:
            return {}
        found: Relations = {"unread": self._unread}
        for side, node in made.inputs.items():
            if not node.is_stored:
                continue
            found[f"new_{side}"] = lambda side=side: self._new(side)
            if made.open_ms is not None:
                found[side] = lambda side=side: self._in_reach(side)
            elif made.reads_history(side):
                found[side] = lambda side=side: self._history(side)
            elif node.is_table:
                found[side] = lambda side=side: self._table(side, "after")
                found[f"{side}_before"] = lambda side=side: self._table(side, "before")
        return found

    @property
    def slack(self) -> int:
        """How long (ms) after its timestamp a record can matter."""
        return (self.node.operation.open_ms or 0) if self.node.operation is not None else 0

    def _paths(self, side: str) -> NodeTables:
        assert self.node.operation is not None
        node = self.node.operation.inputs[side]
        return NodeTables(self.tables, node.pipeline.name, node.name)

    def _new(self, side: str) -> Relation:
        part = self.plan.inputs[side]
        after = {} if self.everything else part.after
        return self._records(side, after, part.upto)

    def _in_reach(self, side: str) -> Relation:
        part, still = self.plan.inputs[side], open_sql(self.plan, self.slack)
        new = self._records(side, part.after, part.upto, ", true AS is_new")
        paths = self._paths(side)
        old = newest(paths, lambda files: still_open(files_with(files, {}, part.after), self.plan, self.slack))
        known = f"({between_sql({}, part.after)}) AND ({still})"
        earlier = f"{self._select(side, ', false AS is_new')} FROM {{earlier}} WHERE {known}"
        return Relation(f"{new.sql} UNION ALL {earlier}", {**new.parts, "earlier": old})

    def _history(self, side: str) -> Relation:
        part = self.plan.inputs[side]
        return self._records(side, {}, part.upto, f", ({between_sql(part.after, part.upto)}) AS is_new")

    def _records(self, side: str, after: Mapping[int, int], upto: Offsets, more: str = "") -> Relation:
        """Records with offsets in ``(after, upto]``, without what is skipped; with ``more`` columns."""
        gone = self._skipped(side)
        is_stream = not self._input(side).is_table
        kept = f" AND NOT ({gone})" if gone and is_stream else ""
        where = f"({between_sql(after, upto)}){kept}"
        files = newest(self._paths(side), lambda files: files_with(files, after, upto))
        return Relation(f"{self._select(side, more)} FROM {{changelog}} WHERE {where}", {"changelog": files})

    def _select(self, side: str, more: str) -> str:
        gone = self._skipped(side)
        # Of a table, what a skipped record puts there is no row: it is a tombstone.
        value = f"CASE WHEN NOT ({gone}) THEN value END AS value" if gone and self._input(side).is_table else "value"
        return f"SELECT key, {value}, timestamp, partition, offset{more}"

    def _input(self, side: str) -> Node:
        assert self.node.operation is not None
        return self.node.operation.inputs[side]

    def _skipped(self, side: str) -> str | None:
        # Both sides of a self-join are one input.
        skipped = [one for one in self.plan.skipped if self._input(one.side) is self._input(side)]
        places = [f"(partition = {one.partition} AND offset = {one.offset})" for one in skipped]
        return any_of_sql(places) if places else None

    def _table(self, side: str, moment: str) -> Relation:
        part, paths = self.plan.inputs[side], self._paths(side)
        position = part.after if moment == "before" else part.upto
        # What the plan pinned is the table before the epoch; what its source has folded since may be that after it.
        version, ends = pin_table(paths.table, position, part.incarnation)
        tail = self._records(side, ends, position, ", epoch")
        return live_rows(paths, version, ends, position, tail, self._skipped(side))

    def _unread(self) -> Relation:
        """Records that an input had when the epoch was planned, and that it left for later."""
        rows = []
        for side, part in self.plan.inputs.items():
            there = next((n.ends for v, n in notes(self._paths(side).changelog) if v <= part.version), {})
            rows += [(f"'{side}'", p, end - part.upto.get(p, -1)) for p, end in there.items()]
        columns = {"side": "STRING", "partition": "INT", "records": "BIGINT"}
        return lines(columns, [row for row in rows if row[2] > 0])


def newest(paths: NodeTables, chosen: Callable[[pa.Table], pa.Table]) -> TableRows:
    """Files of a changelog; it is read in its newest shape and cut by offsets, below which nothing changes."""
    table = open_table(paths.changelog)
    assert table is not None, f"{paths.changelog} is there"
    return TableRows.of(paths, "changelog", table.version(), chosen)


def live_rows(
    paths: NodeTables, version: int | None, ends: Offsets, position: Offsets, tail: Relation, gone: str | None = None
) -> Relation:
    """A table's live rows: its fold at ``version``, up to ``ends``, and the last records of the ``tail`` since then.

    Parameters
    ----------
    gone
        SQL for the records that are skipped.
    """
    last = f"""WITH tail AS (SELECT * FROM ({tail.sql}) WHERE key IS NOT NULL)
SELECT * EXCEPT (epoch) FROM {last_of("tail")} WHERE value IS NOT NULL"""
    if version is None:
        return Relation(last, tail.parts)
    own = {field.name for field in schema_at(paths.table, version).fields}

    names = [quoted(field.name) for field in fields_at(paths.changelog, "key")]

    def packed(column: str) -> str:
        fields = (
            f"{quoted(field.name) if field.name in own else _null(field)} AS {quoted(field.name)}"
            for field in fields_at(paths.changelog, column)
        )
        return f"struct({', '.join(fields)}) AS {column}"

    place = "_timestamp AS timestamp, _partition AS partition, _offset AS offset"
    # What a skipped record had put there is no row.
    folded = f"SELECT {packed('key')}, {packed('value')}, {place} FROM {{table}}"
    folded = f"SELECT * FROM ({folded}){f' WHERE NOT ({gone})' if gone else ''}"
    parts = {**tail.parts, "table": TableRows.of(paths, "table", version)}
    if ends == position:
        return Relation(folded, {"table": parts["table"]}, names)
    sql = f"{last} UNION ALL SELECT f.* FROM ({folded}) f LEFT ANTI JOIN tail t ON t.key = f.key"
    return Relation(sql, parts, names)


def _null(field: StructField) -> str:
    kind = type_text(field.dataType).replace("{", "{{").replace("}", "}}")
    return f"CAST(NULL AS {kind})"


def still_open(files: pa.Table, plan: EpochPlan, slack: int) -> pa.Table:
    """The files that may have such records."""
    if not plan.stream_time:
        return files.slice(0, 0)
    return files_of(files, pc.field("max.timestamp") > min(plan.stream_time.values()) - slack)
