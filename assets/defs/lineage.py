"""Which columns of the inputs each column of a result is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping

import dagster as dg

from assets.defs.keys import changelog_key, table_key
from pipelines import (
    ForeignKeyJoin,
    Join,
    Node,
    Operation,
    SelectKey,
    StreamGlobalJoin,
    StreamStreamJoin,
    TableAggregate,
    WindowedAggregate,
)

_REFERENCE = re.compile(r"\b(left|right)\.(`(?:[^`]|``)+`|\w+)")
_NAME = re.compile(r"`(?:[^`]|``)+`|\b\w+\b")
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'")


def column_lineage(node: Node) -> dg.TableColumnLineage | None:
    """Lineage of a result by the columns of its table; None for a source.

    A column made by a function of Python is told without what it is made of: only a session knows.
    """
    if node.operation is None:
        return None
    columns = {
        name: [dep for part, column in _made_of(node, name) for dep in _stored(part, column)]
        for name in (*node.key, *node.value)
    }
    prefixed = columns if node.is_table else _nested(node, columns)
    return dg.TableColumnLineage(prefixed)


def _made_of(node: Node, name: str) -> list[tuple[Node, str]]:
    """Columns of the inputs that a column of a result is made of."""
    made = node.operation
    assert made is not None
    parts = list(made.inputs.values())
    if isinstance(made, Join):
        expression = made.select.get(name)
        if name in node.key or expression is None:
            keys = [(part, name) for part in parts if name in part.key]
            # A row of an outer join may come from either side alone.
            return keys if made.how == "outer" else keys[:1]
        found = _REFERENCE.findall(_TEXT.sub("", expression)) if isinstance(expression, str) else []
        return [(made.inputs[side], _unquoted(column)) for side, column in dict.fromkeys(found)]
    if isinstance(made, TableAggregate | WindowedAggregate) and name in made.aggregations:
        return _mentioned(parts[0], made.aggregations[name].of or "")
    if isinstance(made, TableAggregate | SelectKey) and name in node.key:
        return _mentioned(parts[0], made.key[name].sql)
    if name in made.select:
        expression = made.select[name]
        return _mentioned(parts[0], expression) if isinstance(expression, str) else []
    return [(part, name) for part in parts if name in (*part.key, *part.value)]


def _mentioned(node: Node, sql: str) -> list[tuple[Node, str]]:
    """Columns of one input that an expression over its bare columns names."""
    names = [_unquoted(name) for name in _NAME.findall(_TEXT.sub("", sql))]
    return [(node, name) for name in dict.fromkeys(names) if name in (*node.key, *node.value)]


def _unquoted(column: str) -> str:
    return column[1:-1].replace("``", "`") if column.startswith("`") else column


def _stored(node: Node, name: str) -> list[dg.TableColumnDep]:
    """The column where it lies: a view's is that of the tables it is resolved from."""
    if not node.is_stored:
        return [dep for part, column in _made_of(node, name) for dep in _stored(part, column)]
    if node.is_table:
        return [dg.TableColumnDep(table_key(node), name)]
    part = "key" if name in node.key else "value"
    return [dg.TableColumnDep(changelog_key(node), f"{part}.{name}")]


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
