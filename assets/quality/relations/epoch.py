"""What each relation of the invariants is for an epoch, committed or not, and for a node's inputs.

Of the inputs it is exactly what the plan could see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rivermeet.assets.quality.relations.parts import bounds, lines, node_part, times
from rivermeet.expectations.invariant import quote
from rivermeet.expectations.results import Judged, Part, Relation
from rivermeet.expectations.rules.record_sql import fields_of, last_of
from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.changelog_files import any_of_sql, between_sql, epoch_files, files_of, files_with
from rivermeet.infra.delta.io import notes
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.plain_files import fields_at, schema_at
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.inputs import open_sql, pin_table
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node
from rivermeet.records.type_text import type_text

Relations = dict[str, Callable[[], Relation]]
TAIL = "key, value, timestamp, partition, offset, epoch"
"""Columns of the records that come to a folded table."""


def build_epoch_relations(
    context: EpochContext, node: Node, plan: EpochPlan, rows: Part, count: int, late: Callable[[], Relation]
) -> Judged:
    """The relations by which an epoch's ``count`` rows are judged, staged or committed, as of what its plan could see.

    What it dropped is made a relation by ``late``, if a rule asks.
    """
    paths, inputs = context.paths(node), InputRelations(node, plan, context.tables)
    own = Relation(f"SELECT * FROM {{changelog}} WHERE epoch = {plan.epoch}", {"changelog": rows})
    relations: Relations = {
        **inputs.all(),
        "rows": lambda: own,
        "changelog": lambda: own,
        "bounds": lambda: bounds(plan),
        "times": lambda: times(plan),
        "before": lambda: _before(paths, plan, node.key),
        "placed": lambda: _place_keys(paths, plan, own),
        "earlier": lambda: _earlier(paths, plan, inputs.slack, own),
        "late": late,
    }
    read = sum(part.records for part in plan.inputs.values())
    return Judged(relations, {"rows": count, "changelog": count, "read": read})


def _before(paths: NodeTables, plan: EpochPlan, key: Mapping[str, str]) -> Relation:
    """Keys of the folded result before the epoch, also if the epoch is judged again, or its table is behind."""
    if plan.output_version is None or not plan.ends:
        return lines({quote(column): kind for column, kind in key.items()}, [])
    version, ends = pin_table(paths.table, plan.ends, plan.incarnation)
    if version is not None and ends == plan.ends:
        return Relation("SELECT * FROM {table}", {"table": node_part(paths, "table", version)})
    live = live_rows(paths, version, ends, plan.ends, records_between(paths, ends, plan.ends))
    return Relation(f"SELECT {fields_of({'key': key})} FROM ({live.sql})", live.parts)


def _place_keys(paths: NodeTables, plan: EpochPlan, own: Relation) -> Relation:
    """Keys with their partitions before the epoch: the folded table's, and those of the records since its last fold."""
    if plan.output_version is None or not plan.ends:
        return Relation(f"SELECT key, partition FROM ({own.sql}) WHERE false", own.parts)
    version, ends = pin_table(paths.table, plan.ends, plan.incarnation)
    new = records_between(paths, ends, plan.ends, "key, partition")
    tail = f"{new.sql} AND key IS NOT NULL"
    if version is None:
        return Relation(tail, new.parts)
    names = [quote(field.name) for field in fields_at(paths.changelog, "key")]
    key = ", ".join(f"{name} AS {name}" for name in names)
    folded = f"SELECT struct({key}) AS key, _partition AS partition FROM {{table}}"
    parts = {**new.parts, "table": node_part(paths, "table", version)}
    return Relation(f"{tail} UNION ALL {folded}", parts, names)


def _earlier(paths: NodeTables, plan: EpochPlan, slack: int, own: Relation) -> Relation:
    """The node's own earlier rows that still matter."""
    if plan.output_version is None:
        return Relation(f"SELECT * FROM ({own.sql}) WHERE false", own.parts)

    def choose(files: pa.Table) -> pa.Table:
        return still_open(files_of(files, pc.field("min.epoch") < plan.epoch), plan, slack)

    rows = node_part(paths, "changelog", plan.output_version, choose)
    sql = f"SELECT * FROM {{changelog}} WHERE epoch < {plan.epoch} AND ({open_sql(plan, slack)})"
    return Relation(sql, {"changelog": rows})


def late(paths: NodeTables, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped."""
    table = open_table(paths.late)
    if table is None:
        return nothing_late()
    rows = node_part(paths, "late", table.version(), lambda files: epoch_files(files, plan.epoch))
    return Relation(f"SELECT * FROM {{late}} WHERE epoch = {plan.epoch}", {"late": rows})


def nothing_late() -> Relation:
    """The relation for an epoch that drops nothing."""
    return lines({"reason": "STRING"}, [])


def effective(node: Node, plan: EpochPlan) -> Node:
    """The node as the plan runs it: with the grace that a rebuild gave it."""
    if plan.grace is None or node.operation is None:
        return node
    return replace(node, origin=node.operation.with_grace(plan.grace))


@dataclass(frozen=True)
class InputRelations:
    """Relations of the inputs of a computed node, as the plan runs it; of a source there are none.

    With ``everything``, ``new_`` relations have all consumed records, not the epoch's alone.
    """

    node: Node
    plan: EpochPlan
    tables: str
    everything: bool = False

    def all(self) -> Relations:
        """Every relation of the inputs that the node's family has."""
        made = self.node.operation
        if made is None:
            return {}
        found: Relations = {"unread": self._select_unread}
        for side, node in made.inputs.items():
            if not node.is_stored:
                continue
            part = self.plan.inputs[side]
            found[f"new_{side}"] = partial(self._records, side, {} if self.everything else part.after, part.upto)
            if made.open_ms is not None:
                found[side] = partial(self._in_reach, side)
            elif made.reads_history(side):
                is_new = f", ({between_sql(part.after, part.upto)}) AS is_new"
                found[side] = partial(self._records, side, {}, part.upto, is_new)
            elif node.is_table:
                found[side] = partial(self._table, side, part.upto)
                found[f"{side}_before"] = partial(self._table, side, part.after)
        return found

    @property
    def slack(self) -> int:
        """How long (ms) after its timestamp a record can matter."""
        return (self.node.operation.open_ms or 0) if self.node.operation is not None else 0

    def _paths(self, side: str) -> NodeTables:
        node = self._input(side)
        return NodeTables(self.tables, node.pipeline.name, node.name)

    def _in_reach(self, side: str) -> Relation:
        part, still = self.plan.inputs[side], open_sql(self.plan, self.slack)
        new = self._records(side, part.after, part.upto, ", true AS is_new")
        paths = self._paths(side)
        old = newest(paths, lambda files: still_open(files_with(files, {}, part.after), self.plan, self.slack))
        known = f"({between_sql({}, part.after)}) AND ({still})"
        earlier = f"SELECT {self._columns(side)}, false AS is_new FROM {{earlier}} WHERE {known}"
        return Relation(f"{new.sql} UNION ALL {earlier}", {**new.parts, "earlier": old})

    def _records(self, side: str, after: Offsets, upto: Offsets, more: str = "") -> Relation:
        """Records with offsets in ``(after, upto]``, without what is skipped; with ``more`` columns."""
        gone = self._match_skipped(side)
        kept = f" AND NOT ({gone})" if gone and not self._input(side).is_table else ""
        found = records_between(self._paths(side), after, upto, self._columns(side) + more)
        return Relation(found.sql + kept, found.parts)

    def _columns(self, side: str) -> str:
        gone = self._match_skipped(side)
        # In a table a skipped record leaves no row: it counts as a tombstone.
        value = f"CASE WHEN NOT ({gone}) THEN value END AS value" if gone and self._input(side).is_table else "value"
        return f"key, {value}, timestamp, partition, offset"

    def _input(self, side: str) -> Node:
        assert self.node.operation is not None
        return self.node.operation.inputs[side]

    def _match_skipped(self, side: str) -> str | None:
        # Both sides of a self-join are one input.
        skipped = [one for one in self.plan.skipped if self._input(one.side) is self._input(side)]
        places = [f"(partition = {one.partition} AND offset = {one.offset})" for one in skipped]
        return any_of_sql(places) if places else None

    def _table(self, side: str, position: Offsets) -> Relation:
        paths = self._paths(side)
        # The plan pinned the table before the epoch; the table as folded since may be the one after it.
        version, ends = pin_table(paths.table, position, self.plan.inputs[side].incarnation)
        tail = self._records(side, ends, position, ", epoch")
        return live_rows(paths, version, ends, position, tail, self._match_skipped(side))

    def _select_unread(self) -> Relation:
        """Records that an input had when the epoch was planned, and that it left for later."""
        rows = []
        for side, part in self.plan.inputs.items():
            there = next((n.ends for v, n in notes(self._paths(side).changelog) if v <= part.version), {})
            rows += [(f"'{side}'", p, end - part.upto.get(p, -1)) for p, end in there.items()]
        columns = {"side": "STRING", "partition": "INT", "records": "BIGINT"}
        return lines(columns, [row for row in rows if row[2] > 0])


def records_between(paths: NodeTables, after: Offsets, upto: Offsets, columns: str = TAIL) -> Relation:
    """Records of a changelog with offsets in ``(after, upto]``."""
    files = newest(paths, lambda files: files_with(files, after, upto))
    return Relation(f"SELECT {columns} FROM {{changelog}} WHERE ({between_sql(after, upto)})", {"changelog": files})


def newest(paths: NodeTables, chosen: Callable[[pa.Table], pa.Table]) -> Part:
    """Files of a changelog, read with its newest schema; rows below an offset never change."""
    table = open_table(paths.changelog)
    assert table is not None, f"{paths.changelog} is there"
    return node_part(paths, "changelog", table.version(), chosen)


def live_rows(
    paths: NodeTables, version: int | None, ends: Offsets, position: Offsets, tail: Relation, gone: str | None = None
) -> Relation:
    """A table's live rows: its fold at ``version``, up to ``ends``, and the last records of the ``tail`` since then.

    Records for which the SQL ``gone`` holds are skipped.
    """
    last = f"""WITH tail AS (SELECT * FROM ({tail.sql}) WHERE key IS NOT NULL)
SELECT * EXCEPT (epoch) FROM {last_of("tail")} WHERE value IS NOT NULL"""
    if version is None:
        return Relation(last, tail.parts)
    own = {field.name for field in schema_at(paths.table, version).fields}
    names = [quote(field.name) for field in fields_at(paths.changelog, "key")]

    def pack(column: str) -> str:
        fields = []
        for field in fields_at(paths.changelog, column):
            kind = type_text(field.dataType).replace("{", "{{").replace("}", "}}")
            value = quote(field.name) if field.name in own else f"CAST(NULL AS {kind})"
            fields.append(f"{value} AS {quote(field.name)}")
        return f"struct({', '.join(fields)}) AS {column}"

    place = "_timestamp AS timestamp, _partition AS partition, _offset AS offset"
    # The row of a skipped record does not count.
    folded = f"SELECT {pack('key')}, {pack('value')}, {place} FROM {{table}}"
    folded = f"SELECT * FROM ({folded}){f' WHERE NOT ({gone})' if gone else ''}"
    parts = {**tail.parts, "table": node_part(paths, "table", version)}
    if ends == position:
        return Relation(folded, {"table": parts["table"]}, names)
    sql = f"{last} UNION ALL SELECT f.* FROM ({folded}) f LEFT ANTI JOIN tail t ON t.key = f.key"
    return Relation(sql, parts, names)


def still_open(files: pa.Table, plan: EpochPlan, slack: int) -> pa.Table:
    """The files that may have records whose windows are still open."""
    if not plan.stream_time:
        return files.slice(0, 0)
    return files_of(files, pc.field("max.timestamp") > min(plan.stream_time.values()) - slack)
