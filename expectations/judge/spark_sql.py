"""Spark's SQL of rules and relations in DuckDB's dialect: sqlglot, and the few constructs that it does not translate.

    Spark                                     DuckDB
    SELECT struct(*) AS __row FROM t          SELECT __whole AS __row FROM t AS __whole
    __row.left.*                              unnest(__row.left)
    typeof(x) = 'double'                      lower(typeof(x)) = 'double'
    count_if(x)                               count(*) FILTER (WHERE x)
    from_json('[1, 2]', 'ARRAY<BIGINT>')      CAST(CAST('[1, 2]' AS JSON) AS BIGINT[])

It is read as Databricks' SQL, which is Spark's in ANSI mode: a failing cast is an error, not a null. Held by
``tests/expectations/test_invariants.py``, which runs every rule on both engines.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp, parse_one
from sqlglot.expressions.core import Expr

MACROS = (
    "CREATE MACRO pmod(a, b) AS ((a % b) + b) % b",
    "CREATE MACRO get(a, i) AS a[i + 1]",
)
"""Functions of Spark that DuckDB lacks."""


@lru_cache(maxsize=4096)
def duck(query: str) -> str:
    """The query in DuckDB's SQL; all names in it are quoted."""
    tree = parse_one(query, read="databricks").transform(_rewrite, copy=False)
    for struct in list(tree.find_all(exp.Struct)):
        _name_whole_row(struct)
    if any(call.name.lower() == "xxhash64" for call in tree.find_all(exp.Anonymous)):
        # A call of our hash costs as much as a thousand rows: behind a filter, each call would get some fifty.
        for named in tree.find_all(exp.CTE):
            named.set("materialized", True)
    return tree.sql(dialect="duckdb", identify=True, copy=False)


def _rewrite(node: Expr) -> Expr:
    if isinstance(node, exp.CountIf):
        # Of no rows it is null in DuckDB, and 0 in Spark.
        return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))
    if isinstance(node, exp.FromJson):
        kind = exp.DataType.build(node.expression.name, dialect="databricks")
        return exp.cast(exp.cast(node.this, "JSON"), kind)
    if isinstance(node, exp.Typeof):
        return exp.Lower(this=exp.Anonymous(this="typeof", expressions=[node.this]))
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
        return exp.Anonymous(this="unnest", expressions=[node.this])
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star) and node.args.get("db"):
        return exp.Anonymous(this="unnest", expressions=[exp.column(node.args["table"], table=node.args["db"])])
    return node


def _name_whole_row(struct: exp.Struct) -> None:
    """``struct(*)`` of a subquery: the row itself, by its alias."""
    if len(struct.expressions) == 1 and isinstance(struct.expressions[0], exp.Star):
        select = struct.find_ancestor(exp.Select)
        assert select is not None
        source = select.args["from_"].this
        if not source.alias:
            source.set("alias", exp.TableAlias(this=exp.to_identifier("__whole")))
        struct.replace(exp.column(source.alias))
