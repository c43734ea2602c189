"""Invariants of table results: what every folded table must keep, and that a join's is the batch join of its inputs.

    left k A, right k a      the table has k A-a, and has it for no other reason
    left p {f}, right f x    p joined with x; once p is {g}, no more with x

Which rows the batch join has, each family says (``match``), and which row pointed to what (``points_there``). All
keys are compared; of a large table after a small fold, those of the rows that were folded.

A fold that is wrong about a key that it touches is found at once: the table's rows are compared with the epochs' own. A
row that came or went under another key is found by the table's size. That a value of another key was changed is found
where everything is judged: by checks run alone, or after a rebuild, and in a join by its inputs.

Source: wiki page "Early joins" (a join of tables is the join of the folds), KIP-213. Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import ANY, Rule, pack
from rivermeet.expectations.rules.derived import of_family
from rivermeet.expectations.rules.record_sql import fields_of, join_values, last_of, without_sql
from rivermeet.pipelines import Node

_FOLD = "Early joins, KTable, a table is the fold of its changelog"
_POSITION = ("_timestamp", "_partition", "_offset")


def exclude_versioned(node: Node) -> str | None:
    """Why a node's result is not that of the folded inputs: of a versioned one its join sees other rows."""
    given = node.operation.inputs.values() if node.operation is not None else ()
    old = [part.name for part in given if getattr(part, "history", None) is not None]
    if not old:
        return None
    return f"{', '.join(old)} is versioned: its join sees the newest row of a key, its fold keeps the last"


@Rule(_FOLD, ANY, (85,), profiles=None, needs_table=True, stage="table")
def fold_equals_table(node: Node) -> str:
    """The table is the fold of its changelog, row by row and column by column."""
    row = pack((*node.key, *node.value, *_POSITION))
    place = ", ".join(f"{column[1:]} AS {column}" for column in _POSITION)
    rows = f"SELECT {pack(node.key)} AS key, {row} AS row FROM"
    fields = fields_of({"key": node.key, "value": node.value})
    last = f"SELECT {fields}, {place} FROM {last_of('{changelog}')}"
    return _unequal(f"{rows} ({last} WHERE value IS NOT NULL)", "folded", f"{rows} {{now}}")


def _unequal(expected: str, called: str, stored: str) -> str:
    """What is not the same of two subqueries with ``key`` and ``row``."""
    return f"""SELECT CASE WHEN t.key IS NULL THEN 'not in the table'
            WHEN e.key IS NULL THEN 'only in the table' ELSE 'differs' END AS problem,
       coalesce(e.key, t.key) AS key, e.row AS {called}, t.row AS stored
FROM ({expected}) e
FULL OUTER JOIN ({stored}) t ON e.key <=> t.key
WHERE NOT (e.row <=> t.row)"""


@Rule("Early joins, KTable; windowed aggregate", ANY, (86, 184), profiles=None, needs_table=True, stage="table")
def unique_keys(node: Node) -> str:
    """A table has each key once."""
    return f"""SELECT key, count(*) AS copies, min(_offset) AS first_offset, max(_offset) AS last_offset
FROM (SELECT {pack(node.key)} AS key, _offset FROM {{table:touched}}) WHERE {{touched:key}}
GROUP BY key HAVING count(*) > 1"""


@Rule("KIP-77, KTable-KTable join, tombstones", ("table-table", "one-to-many"), (84,), needs_table=True, blocking=True)
def tombstone_ends_a_row(node: Node) -> str:
    """A tombstone ends a row that was there."""
    return f"""SELECT o.key, o.partition, o.offset
FROM (SELECT *, lag(value IS NOT NULL) OVER (PARTITION BY key ORDER BY offset) AS was_live FROM {{rows}}) o
LEFT JOIN (SELECT key FROM (SELECT {pack(node.key)} AS key FROM {{before}})
           WHERE key IN (SELECT key FROM {{rows}} WHERE value IS NULL)) b ON b.key = o.key
WHERE o.value IS NULL AND NOT coalesce(o.was_live, b.key IS NOT NULL)"""


@Rule(_FOLD, ANY, (85,), profiles=None, needs_table=True, stage="table")
def table_size(node: Node) -> str:
    """The table has grown by as many rows as its changelog began, less those that it ended."""
    return f"""SELECT s.before, s.after, s.before + grown AS must_be
FROM (SELECT count_if(c.live) - count_if(b.key IS NOT NULL) AS grown
      FROM (SELECT key, max_by(value IS NOT NULL, struct(epoch, offset)) AS live
            FROM {{changelog}} WHERE key IS NOT NULL GROUP BY key) c
      LEFT JOIN (SELECT {pack(node.key)} AS key FROM {{was:SELECT key FROM {{changelog}}}}) b ON b.key = c.key)
CROSS JOIN {{sizes}} s
WHERE NOT (s.after <=> s.before + grown)"""


@Rule(
    "Early joins, KTable-KTable join; KIP-213 for foreign keys",
    ("table-table", "fk-table-table", "one-to-many"),
    (42, 85, 91, 112, 113, 125, 156),
    needs_table=True,
    stage="table",
    excluded=lambda node: exclude_versioned(node) or without_sql(node),
)
def equals_batch_join(node: Node) -> str:
    """The table is the join of the input tables as they are now; no row of an old reference remains."""
    join = node.join_spec
    assert join is not None, node.name
    rows = f"SELECT {pack(node.key)} AS key, {pack(node.value)} AS row FROM {{table:touched}}"
    joined = f"SELECT key, {join_values(join)} AS row FROM ({of_family(node, 'match')(node)})"
    return _unequal(joined, "expected", f"SELECT * FROM ({rows}) WHERE {{touched:key}}")


@Rule(
    "KIP-213, prefix scanning using a combined key",
    ("fk-table-table", "one-to-many"),
    (118,),
    needs_table=True,
    excluded=exclude_versioned,
)
def found_by_foreign_key(node: Node) -> str:
    """A change is answered only for rows that refer to exactly its key: 'ab' is not found under 'a'."""
    return of_family(node, "points_there")(node)


RULES = (equals_batch_join, tombstone_ends_a_row, found_by_foreign_key, fold_equals_table, unique_keys, table_size)
