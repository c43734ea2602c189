"""SQL expressions of declarations, with their types, and how names are written in them."""

from __future__ import annotations

from dataclasses import dataclass

from rivermeet.pipelines.types import normalize_type


@dataclass(frozen=True)
class Expr:
    """A Spark SQL expression over a file's columns, with the type of its result."""

    sql: str
    type: str


def quote(identifier: str) -> str:
    """A column's name, or a table's path, quoted for SQL text."""
    return "`" + identifier.replace("`", "``") + "`"


def expr(sql: str, type: str) -> Expr:
    """An expression and its Spark SQL type, like ``expr("to_date(day)", "DATE")``."""
    return Expr(sql, normalize_type(type))
