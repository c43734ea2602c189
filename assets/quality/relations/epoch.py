"""Relations of an epoch that is not committed, or judged as if it were not."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rivermeet.assets.quality.relations.inputs import TAIL, InputRelations, Relations, live_rows, newest, still_open
from rivermeet.assets.quality.relations.lines import bounds, lines, times
from rivermeet.assets.quality.relations.parts import TableRows
from rivermeet.expectations.invariant import quoted
from rivermeet.expectations.results import Part, Relation
from rivermeet.infra.delta.changelog_files import epoch_files, files_of, files_with
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.offsets import between_sql
from rivermeet.infra.delta.plain_files import fields_at
from rivermeet.infra.epochs.inputs import open_sql, pin_table
from rivermeet.infra.epochs.plan import EpochPlan


def epoch_relations(paths: NodeTables, plan: EpochPlan, rows: Part, inputs: InputRelations) -> Relations:
    """Relations by which an epoch's rows are judged, as of what its plan could see.

    Parameters
    ----------
    paths
        The node's own tables.
    rows
        The epoch's, staged or committed.
    """
    own = Relation(f"SELECT * FROM {{changelog}} WHERE epoch = {plan.epoch}", {"changelog": rows})
    return {
        "rows": lambda: own,
        "changelog": lambda: own,
        "bounds": lambda: bounds(plan),
        "times": lambda: times(plan),
        "before": lambda: _before(paths, plan, inputs.node.key),
        "placed": lambda: _placed(paths, plan, own),
        "earlier": lambda: _earlier(paths, plan, inputs.slack, own),
        **inputs.all(),
    }


def _before(paths: NodeTables, plan: EpochPlan, key: Mapping[str, str]) -> Relation:
    """Keys of the folded result before the epoch, also where the epoch is judged once more, or its table is behind."""
    if plan.output_version is None or not plan.ends:
        return lines({quoted(column): kind for column, kind in key.items()}, [])
    version, ends = pin_table(paths.table, plan.ends, plan.incarnation)
    if version is not None and ends == plan.ends:
        return Relation("SELECT * FROM {table}", {"table": TableRows.of(paths, "table", version)})
    files = newest(paths, lambda files: files_with(files, ends, plan.ends))
    tail = Relation(f"SELECT {TAIL} FROM {{changelog}} WHERE {between_sql(ends, plan.ends)}", {"changelog": files})
    live = live_rows(paths, version, ends, plan.ends, tail)
    fields = ", ".join(f"key.{quoted(column)} AS {quoted(column)}" for column in key)
    return Relation(f"SELECT {fields} FROM ({live.sql})", live.parts)


def _placed(paths: NodeTables, plan: EpochPlan, own: Relation) -> Relation:
    """Keys with their partitions before the epoch: the folded table's, and those of the records since its last fold."""
    if plan.output_version is None or not plan.ends:
        return Relation(f"SELECT key, partition FROM ({own.sql}) WHERE false", own.parts)
    version, ends = pin_table(paths.table, plan.ends, plan.incarnation)
    files = newest(paths, lambda files: files_with(files, ends, plan.ends))
    tail = f"SELECT key, partition FROM {{changelog}} WHERE ({between_sql(ends, plan.ends)}) AND key IS NOT NULL"
    if version is None:
        return Relation(tail, {"changelog": files})
    names = [quoted(field.name) for field in fields_at(paths.changelog, "key")]
    key = ", ".join(f"{name} AS {name}" for name in names)
    folded = f"SELECT struct({key}) AS key, _partition AS partition FROM {{table}}"
    parts = {"changelog": files, "table": TableRows.of(paths, "table", version)}
    return Relation(f"{tail} UNION ALL {folded}", parts, names)


def _earlier(paths: NodeTables, plan: EpochPlan, slack: int, own: Relation) -> Relation:
    """The node's own earlier rows that still matter."""
    if plan.output_version is None:
        return Relation(f"SELECT * FROM ({own.sql}) WHERE false", own.parts)

    def chosen(files: pa.Table) -> pa.Table:
        return still_open(files_of(files, pc.field("min.epoch") < plan.epoch), plan, slack)

    rows = TableRows.of(paths, "changelog", plan.output_version, chosen)
    sql = f"SELECT * FROM {{changelog}} WHERE epoch < {plan.epoch} AND ({open_sql(plan, slack)})"
    return Relation(sql, {"changelog": rows})


def late(paths: NodeTables, plan: EpochPlan) -> Relation:
    """What a committed epoch dropped."""
    table = open_table(paths.late)
    if table is None:
        return nothing_late()
    rows = TableRows.of(paths, "late", table.version(), lambda files: epoch_files(files, plan.epoch))
    return Relation(f"SELECT * FROM {{late}} WHERE epoch = {plan.epoch}", {"late": rows})


def nothing_late() -> Relation:
    """Of an epoch that drops nothing."""
    return lines({"reason": "STRING"}, [])
