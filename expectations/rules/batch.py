"""Invariants of joins of tables: the folded result is the batch join of the folded inputs.

    left k A, right k a      the table has k A-a, and has it for no other reason
    left p {f}, right f x    p joined with x; once p is {g}, no more with x

All keys are compared; of a large table after a small fold, those of the rows that were folded.

Source: wiki page "Early joins" (a join of tables is the join of the folds), KIP-213. Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import EARLY, KIP_213, Invariant, packed, quoted
from rivermeet.expectations.rules.record_sql import (
    joined_value,
    pair,
    pointing_left,
    pointing_right,
    records,
    right_as_left,
    without_sql,
)
from rivermeet.pipelines import ForeignKeyJoin, Node, OneToManyJoin, TableTableJoin

_TABLES = frozenset({"table-table", "fk-table-table", "one-to-many"})


def versioned(node: Node) -> str | None:
    """Why a node's result is not that of the folded inputs: of a versioned one its join sees other rows."""
    given = node.operation.inputs.values() if node.operation is not None else ()
    old = [part.name for part in given if getattr(part, "history", None) is not None]
    if not old:
        return None
    return f"{', '.join(old)} is versioned: its join sees the newest row of a key, its fold keeps the last"


def _matched(node: Node) -> str:
    """Rows of the batch join: ``key``, ``left``, ``right``."""
    join = node.join_spec
    assert isinstance(join, TableTableJoin | ForeignKeyJoin | OneToManyJoin), node.name
    touched = "(SELECT * FROM {left} WHERE {touched:key})"
    rights = records(join.right, "{right}", "right")
    if isinstance(join, TableTableJoin):
        how = {"inner": "JOIN", "left": "LEFT JOIN", "outer": "FULL OUTER JOIN"}[join.how]
        rights = f"SELECT * FROM (SELECT {right_as_left(join)} AS key, `right` FROM {rights}) WHERE {{touched:key}}"
        lefts = records(join.left, touched, "left")
        return f"""SELECT coalesce(l.key, r.key) AS key, l.`left`, r.`right` FROM {lefts} l
  {how} ({rights}) r ON l.key = r.key"""
    if isinstance(join, ForeignKeyJoin):
        return f"""SELECT l.key, l.`left`, r.`right` FROM {pointing_left(join, touched)} l
  {"JOIN" if join.how == "inner" else "LEFT JOIN"} {rights} r ON r.key = l.mapped"""
    return f"""SELECT * FROM (SELECT {pair(join, "l.key", "m.key")} AS key, l.`left`, m.`right`
  FROM {pointing_right(join, "{right}")} m JOIN {records(join.left, "{left}", "left")} l ON l.key = m.mapped)
WHERE {{touched:key}}"""


def _equals_batch_join(node: Node) -> str:
    join = node.join_spec
    assert join is not None, node.name
    rows = f"SELECT {packed(node.key)} AS key, {packed(node.value)} AS value FROM {{table}}"
    stored = f"(SELECT * FROM ({rows}) WHERE {{touched:key}})"
    return f"""SELECT CASE WHEN t.key IS NULL THEN 'not in the table' WHEN e.key IS NULL THEN 'only in the table'
            ELSE 'differs' END AS problem,
       coalesce(e.key, t.key) AS key, e.value AS expected, t.value AS stored
FROM (SELECT key, {joined_value(join)} AS value FROM ({_matched(node)})) e
FULL OUTER JOIN {stored} t ON e.key = t.key
WHERE NOT (e.value <=> t.value)"""


def _points_there(node: Node) -> str:
    """Rows that a change was answered for, against those that pointed to it, before the epoch or at some time in it."""
    join = node.join_spec
    if isinstance(join, ForeignKeyJoin):
        before = "{left_before:SELECT key FROM {rows} WHERE trigger.side = 'right'}"
        return f"""SELECT o.partition, o.offset, o.key, o.trigger, t.key AS foreign_key
FROM {{rows}} o
JOIN {{new_right}} t ON t.partition = o.trigger.partition AND t.offset = o.trigger.offset
LEFT ANTI JOIN (SELECT key, mapped FROM {pointing_left(join, before)}
                UNION ALL SELECT key, mapped FROM {pointing_left(join, "{new_left}")}) p
  ON p.key = o.key AND p.mapped = t.key
WHERE o.trigger.side = 'right'"""
    assert isinstance(join, OneToManyJoin), node.name
    one, many = (f"struct({', '.join(f'key.{quoted(c)} AS {quoted(c)}' for c in p.key)})" for p in join.inputs.values())
    before = f"{{right_before:SELECT {many} AS key FROM {{rows}}}}"
    return f"""SELECT o.partition, o.offset, o.key, o.trigger, t.key AS changed
FROM (SELECT *, {one} AS one, {many} AS many FROM {{rows}}) o
JOIN (SELECT 'left' AS side, partition, offset, key AS one, NULL AS many, to_json(key) AS key FROM {{new_left}}
      UNION ALL SELECT 'right', partition, offset, NULL, key, to_json(key) FROM {{new_right}}) t
  ON t.side = o.trigger.side AND t.partition = o.trigger.partition AND t.offset = o.trigger.offset
LEFT ANTI JOIN (SELECT key, mapped FROM {pointing_right(join, before)}
                UNION ALL SELECT key, mapped FROM {pointing_right(join, "{new_right}")}) p
  ON p.key = o.many AND p.mapped = o.one AND coalesce(t.one = o.one, true) AND coalesce(t.many = o.many, true)"""


RULES = (
    Invariant(
        id="equals_batch_join",
        sentence="The table is the join of the input tables as they are now, and a row of an old reference is gone.",
        document=EARLY,
        section="KTable-KTable join; KIP-213 for foreign keys",
        requirements=(42, 85, 91, 112, 113, 125, 156),
        families=_TABLES,
        needs_table=True,
        severity="critical",
        blocking=False,
        stage="table",
        violations=_equals_batch_join,
        excluded=lambda node: versioned(node) or without_sql(node),
    ),
    Invariant(
        id="found_by_foreign_key",
        sentence="A change is answered for rows that point to its very key: 'ab' is not found under 'a'.",
        document=KIP_213,
        section="prefix scanning using a combined key",
        requirements=(118,),
        families=frozenset({"fk-table-table", "one-to-many"}),
        needs_table=True,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=_points_there,
        excluded=versioned,
    ),
)
