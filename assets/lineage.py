"""Which columns of the inputs each column of a result is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping

import dagster as dg

from assets.keys import changelog_key, table_key
from pipelines import ForeignKeyJoin, Join, Node, Operation, StreamGlobalJoin, StreamStreamJoin

_REFERENCE = re.compile(r"\b(left|right)\.(`(?:[^`]|``)+`|\w+)")


def column_lineage(node: Node) -> dg.TableColumnLineage | None:
    """Lineage of a join's result by the columns of its table; None for a source."""
    made = node.operation
    if made is None:
        return None
    inputs = made.inputs
    columns = {
        name: [_column(part, name) for part in inputs.values() if name in part.key][:1]
        for name in (*node.key, *node.value)
    }
    for name, expression in made.select.items():
        found = _REFERENCE.findall(expression) if isinstance(expression, str) else []
        columns[name] = [_column(inputs[side], _unquoted(column)) for side, column in dict.fromkeys(found)]
    prefixed = columns if node.is_table else _nested(node, columns)
    return dg.TableColumnLineage(prefixed)


def _unquoted(column: str) -> str:
    return column[1:-1].replace("``", "`") if column.startswith("`") else column


def _column(node: Node, name: str) -> dg.TableColumnDep:
    if node.is_table:
        return dg.TableColumnDep(table_key(node), name)
    part = "key" if name in node.key else "value"
    return dg.TableColumnDep(changelog_key(node), f"{part}.{name}")


def _nested(node: Node, columns: dict[str, list[dg.TableColumnDep]]) -> dict[str, list[dg.TableColumnDep]]:
    return {("key." if c in node.key else "value.") + c: deps for c, deps in columns.items()}


def described(made: Operation) -> str:
    """Sentences that say what an operation does."""
    if isinstance(made, Join):
        return _joined(made)
    names = " and ".join(f"{node.kind.replace('_', ' ')} `{node.name}`" for node in made.inputs.values())
    return f"{made.family.replace('-', ' ').capitalize()} of {names}."


def _joined(join: Join) -> str:
    left, right = (f"{node.kind.replace('_', ' ')} `{node.name}`" for node in (join.left, join.right))
    text = f"{join.how.capitalize()} join of {left} and {right}"
    if isinstance(join, ForeignKeyJoin):
        text += " on " + ", ".join(f"`{sql}` → `{column}`" for column, sql in join.foreign_key.items())
    if isinstance(join, StreamStreamJoin):
        before, after, grace = (duration(ms) for ms in (join.window.before, join.window.after, join.window.grace))
        text += f" within a window of {before} before and {after} after, with {grace} of grace"
    if isinstance(join, StreamGlobalJoin):
        text += ", looked up by " + ", ".join(f"`{sql}`" for sql in join.key.values())
    return f"{text}. Semantics {join.semantics}."


def duration(milliseconds: int) -> str:
    """A duration in its largest whole unit; no time is 0 s."""
    if not milliseconds:
        return "0 s"
    for unit, length in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"


def column_descriptions(node: Node) -> Mapping[str, str]:
    """What each column of the node's changelog and table is, where something can be said."""
    made = node.operation.select if node.operation else {}
    told = {name: f"`{sql}`" for name, sql in made.items() if isinstance(sql, str)}
    columns = dict.fromkeys(node.key, "Part of the key.") | told
    nested = {("key." if c in node.key else "value.") + c: text for c, text in columns.items()}
    return _RECORD_COLUMNS | columns | nested


_RECORD_COLUMNS = {
    "timestamp": "Event time, milliseconds since 1970 UTC.",
    "partition": "Partition of the record.",
    "offset": "Place in the partition: 0, 1, 2, … without holes.",
    "epoch": "Incremental step that wrote the record.",
    "trigger.side": "Input whose record caused this one.",
    "trigger.partition": "Partition of the record that caused this one.",
    "trigger.offset": "Offset of the record that caused this one.",
    "left_offset": "Offset of the left record; null where there is none.",
    "right_offset": "Offset of the right record; null where there is none.",
    "left_hash": "Hash of the left record's value; null for a tombstone.",
    "_timestamp": "Event time of the key's last record, milliseconds since 1970 UTC.",
    "_partition": "Partition of the key's last record.",
    "_offset": "Offset of the key's last record.",
}
