"""Which columns of the inputs each column of a result is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import dagster as dg

from rivermeet.assets.defs.keys import changelog_key, table_key
from rivermeet.pipelines import Node

_T = TypeVar("_T")


def column_lineage(node: Node) -> dg.TableColumnLineage | None:
    """Lineage of a result by the columns of its table; None for a source.

    A column made by a function of Python is listed without what it is made of: only a session knows.
    """
    if node.operation is None:
        return None
    columns = {
        name: [dep for part, column in _trace(node, name) for dep in _resolve(part, column)]
        for name in (*node.key, *node.value)
    }
    return dg.TableColumnLineage(columns if node.is_table else _nest(node, columns))


def _trace(node: Node, name: str) -> list[tuple[Node, str]]:
    """Columns of the inputs that a column of a result is made of."""
    made = node.operation
    assert made is not None
    parts = list(made.inputs.values())
    expression = made.expression(name)
    if made.joins_sides:
        if name in node.key or expression is None:
            keys = [(part, name) for part in parts if name in part.key]
            # A row of an outer join may come from either side alone.
            return keys if made.type == "outer" else keys[:1]
        found = [tuple(parts[:2]) for parts in _parse_columns(expression) if len(parts) > 1 and parts[0] in made.inputs]
        return [(made.inputs[side], column) for side, column in dict.fromkeys(found)]
    if expression is not None:
        return _find_mentioned(parts[0], expression)
    return [(part, name) for part in parts if name in (*part.key, *part.value)]


def _find_mentioned(node: Node, sql: str) -> list[tuple[Node, str]]:
    """Columns of one input that an expression over its bare columns names."""
    names = [parts[0] for parts in _parse_columns(sql)]
    return [(node, name) for name in dict.fromkeys(names) if name in (*node.key, *node.value)]


def _parse_columns(sql: str) -> list[list[str]]:
    """Names of the columns in an expression, each in its parts; none where sqlglot cannot read it."""
    from sqlglot import expressions, parse_one
    from sqlglot.errors import SqlglotError

    if not sql:
        return []
    try:
        tree = parse_one(sql, dialect="spark")
    except SqlglotError:
        return []
    # From left to right; the tree is searched breadth first.
    columns = sorted(tree.find_all(expressions.Column), key=lambda column: column.this.meta.get("start", 0))
    return [[part.name for part in column.parts] for column in columns]


def _resolve(node: Node, name: str) -> list[dg.TableColumnDep]:
    """The column where it lies: a view's is that of the tables it is resolved from."""
    if not node.is_stored:
        return [dep for part, column in _trace(node, name) for dep in _resolve(part, column)]
    if node.is_table:
        return [dg.TableColumnDep(table_key(node), name)]
    part = "key" if name in node.key else "value"
    return [dg.TableColumnDep(changelog_key(node), f"{part}.{name}")]


def _nest(node: Node, columns: Mapping[str, _T]) -> dict[str, _T]:
    return {("key." if c in node.key else "value.") + c: deps for c, deps in columns.items()}


def column_descriptions(node: Node) -> Mapping[str, str]:
    """What each column of the node's changelog and table is, where something can be said."""
    made = node.operation.select if node.operation else {}
    described_by = {name: f"`{sql}`" for name, sql in made.items() if isinstance(sql, str)}
    columns = dict.fromkeys(node.key, "Part of the key.") | described_by
    return _RECORD_COLUMNS | columns | _nest(node, columns)


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
