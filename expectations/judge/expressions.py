"""Which SQL of users means the same to DuckDB and Spark: a list of what it may contain, and nothing else.

    left.amount + coalesce(right.paid, 0)     the same
    CAST(left.amount AS INT)                  not on the list: Spark cuts 1.5 to 1, DuckDB rounds it to 2
    upper(right.name)                         not on the list: of 'straße' each makes another text

A rule with an expression that is not on the list is judged by Spark, and its verdict says so. Each line of the list is
held by ``tests/expectations/judge/test_expressions.py``, over values of every type.
"""

from __future__ import annotations

from functools import lru_cache

from rivermeet.expectations.invariant import Invariant, relations_of
from rivermeet.expectations.rules.record_sql import USERS, users_expressions
from rivermeet.pipelines import Node

_SAME = (
    *("Column", "Identifier", "Dot", "Literal", "Boolean", "Null", "Paren", "Alias"),
    *("Add", "Sub", "Mul", "Neg", "Abs"),
    *("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ"),
    *("And", "Or", "Not", "Is", "Between", "In", "Tuple"),
    *("Case", "If", "Coalesce", "Nullif"),
    *("Length", "Like"),
)
"""What expressions may consist of, by sqlglot's names."""
_QUERY = (
    *("Select", "From", "Where", "Table", "TableAlias", "Subquery", "Join", "Star", "With", "CTE", "Union", "Except"),
    *("Group", "Having", "Order", "Ordered", "Distinct", "Count", "CountIf", "Exists"),
)
"""What a query may contain in addition."""


def unlike(node: Node, invariant: Invariant) -> str | None:
    """The first part of a rule's text by users that may mean something else to DuckDB; None where there is none."""
    try:
        text = invariant.violations(node)
        if text.startswith(USERS):
            return first_unlike(text.format(**{name: f"r_{name}" for name in relations_of(text)}), is_query=True)
        found = (first_unlike(one) for one in users_expressions(text))
        return next((part for part in found if part is not None), None)
    except Exception:  # not a query: judging it says so
        return None


@lru_cache(maxsize=4096)
def first_unlike(text: str, is_query: bool = False) -> str | None:
    """The first part of an expression, or a query, that may mean something else to DuckDB; None where there is none."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        tree = parse_one(text, read="databricks")
    except SqlglotError:
        return text
    known = {*_SAME, *_QUERY} if is_query else {*_SAME}
    for part in tree.walk():
        # The engines differ on backslashes in texts and in patterns of LIKE.
        escaped = isinstance(part, exp.Literal) and "\\" in part.this
        unknown = isinstance(part, exp.Like) and not isinstance(part.expression, exp.Literal)
        if type(part).__name__ not in known or escaped or unknown:
            return part.sql(dialect="databricks")
    return None
