"""Which columns of the inputs each column of a result is made of."""

from __future__ import annotations

import re

import dagster as dg

from assets.keys import changelog_key, table_key
from pipelines import ForeignKeyJoin, Join, Node

_REFERENCE = re.compile(r"\b(left|right)\.(`[^`]+`|\w+)")


def column_lineage(node: Node) -> dg.TableColumnLineage | None:
    """Lineage of a join's result by the columns of its table; None for a source."""
    join = node.join_spec
    if join is None:
        return None
    columns = {name: [_column(join.left, name)] for name in node.key}
    for name, expression in join.select.items():
        found = _REFERENCE.findall(expression) if isinstance(expression, str) else []
        inputs = {"left": join.left, "right": join.right}
        deps = [_column(inputs[side], column.strip("`")) for side, column in dict.fromkeys(found)]
        columns[name] = deps
    prefixed = columns if node.is_table else _nested(node, columns)
    return dg.TableColumnLineage(prefixed)


def _column(node: Node, name: str) -> dg.TableColumnDep:
    if node.is_table:
        return dg.TableColumnDep(table_key(node), name)
    part = "key" if name in node.key else "value"
    return dg.TableColumnDep(changelog_key(node), f"{part}.{name}")


def _nested(node: Node, columns: dict[str, list[dg.TableColumnDep]]) -> dict[str, list[dg.TableColumnDep]]:
    return {("key." if c in node.key else "value.") + c: deps for c, deps in columns.items()}


def described(join: Join) -> str:
    """One sentence that says what a join does."""
    text = f"{join.how} {join.family} join of `{join.left.name}` and `{join.right.name}`"
    if isinstance(join, ForeignKeyJoin):
        text += " on " + ", ".join(f"`{sql}` → `{column}`" for column, sql in join.foreign_key.items())
    window = getattr(join, "window", None)
    if window is not None:
        text += f", window before {window.before} ms, after {window.after} ms, grace {window.grace} ms"
    mapper = getattr(join, "key", None)
    if mapper is not None:
        text += ", looked up by " + ", ".join(f"`{sql}`" for sql in mapper.values())
    return f"{text}; semantics {join.semantics}."
